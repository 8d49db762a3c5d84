package monitor

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// AccountSource tells about accounts.
type AccountSource interface {
	// SystemAccount is the name of the system account.
	SystemAccount() string
	// Accounts returns all accounts, the system's and the default one too, in any order. The result is the caller's.
	Accounts() []Account
}

// Account is what the source knows of an account.
type Account struct {
	Name             string
	Updated          time.Time // when its configuration was last read
	JetStream        bool
	Connections      int // of clients now
	TotalConnections int // of clients ever
	Subscriptions    uint32
	// Sent is what went to its clients, Received what came from them.
	Sent, Received MsgBytes
	SlowConsumers  int64
}

// MsgBytes counts messages and their bytes.
type MsgBytes struct {
	Msgs  int64 `json:"msgs"`
	Bytes int64 `json:"bytes"`
}

// Accountz is the answer of /accountz: the names, or the details of one account.
type Accountz struct {
	ID            string       `json:"server_id"`
	Now           time.Time    `json:"now"`
	SystemAccount string       `json:"system_account,omitempty"`
	Accounts      []string     `json:"accounts,omitempty"`
	Account       *AccountInfo `json:"account_detail,omitempty"`
}

// AccountInfo is an account in /accountz.
type AccountInfo struct {
	AccountName string       `json:"account_name"`
	LastUpdate  time.Time    `json:"update_time"`
	IsSystem    bool         `json:"is_system,omitempty"`
	Expired     bool         `json:"expired"`
	Complete    bool         `json:"complete"`
	JetStream   bool         `json:"jetstream_enabled"`
	LeafNodes   int          `json:"leafnode_connections"`
	Clients     int          `json:"client_connections"`
	Subs        uint32       `json:"subscriptions"`
	NameTag     string       `json:"name_tag,omitempty"`
	Sublist     SublistStats `json:"sublist_stats"`
}

func (h *Handler) accountz(w http.ResponseWriter, r *http.Request) {
	z, err := h.Accountz(r.URL.Query().Get("acc"))
	if err != nil {
		refuse(w, err)
		return
	}
	h.answer(w, r, z)
}

// Accountz reports the names of all accounts, or on the one that is named.
func (r *Reporter) Accountz(name string) (*Accountz, error) {
	z := &Accountz{ID: r.source.ServerID(), Now: r.now().UTC(), SystemAccount: r.source.SystemAccount()}
	accounts := r.source.Accounts()
	if name == "" {
		z.Accounts = []string{}
		for _, a := range accounts {
			z.Accounts = append(z.Accounts, a.Name)
		}
		slices.Sort(z.Accounts)
		return z, nil
	}
	i := slices.IndexFunc(accounts, func(a Account) bool { return a.Name == name })
	if i < 0 {
		return nil, badQuery(fmt.Sprintf("Account %s does not exist", name))
	}
	a := accounts[i]
	z.Account = &AccountInfo{AccountName: a.Name, LastUpdate: a.Updated.UTC(), IsSystem: a.Name == z.SystemAccount, Complete: true, JetStream: a.JetStream,
		Clients: a.Connections, Subs: a.Subscriptions, NameTag: a.Name, Sublist: r.source.SublistStats(a.Name)}
	return z, nil
}

// AccountStatz is the answer of /accstatz.
type AccountStatz struct {
	ID       string        `json:"server_id"`
	Now      time.Time     `json:"now"`
	Accounts []AccountStat `json:"account_statz"`
}

// AccountStat is an account in /accstatz.
type AccountStat struct {
	Account          string    `json:"acc"`
	Name             string    `json:"name"`
	Connections      int       `json:"conns"`
	LeafNodes        int       `json:"leafnodes"`
	TotalConnections int       `json:"total_conns"`
	Subscriptions    uint32    `json:"num_subscriptions"`
	Sent             DataStats `json:"sent"`
	Received         DataStats `json:"received"`
	SlowConsumers    int64     `json:"slow_consumers"`
}

// DataStats counts messages by where they went or came from; all are clients'.
type DataStats struct {
	MsgBytes
	Gateways MsgBytes `json:"gateways"`
	Routes   MsgBytes `json:"routes"`
	Leafs    MsgBytes `json:"leafs"`
}

func (h *Handler) accstatz(w http.ResponseWriter, r *http.Request) {
	q := newQuery(r)
	unused := q.flag("unused")
	if q.err != nil {
		refuse(w, q.err)
		return
	}
	h.answer(w, r, h.AccountStatz(AccountStatzQuery{Unused: unused}))
}

// AccountStatzQuery says which accounts are wanted. The names of the fields in JSON are those of the system account's
// requests, here as in the other queries.
type AccountStatzQuery struct {
	Accounts []string `json:"accounts"`       // none: all
	Unused   bool     `json:"include_unused"` // those without connections too
}

// AccountStatz reports on the traffic of accounts, by name.
func (r *Reporter) AccountStatz(q AccountStatzQuery) *AccountStatz {
	z := &AccountStatz{ID: r.source.ServerID(), Now: r.now().UTC(), Accounts: []AccountStat{}}
	accounts := r.source.Accounts()
	slices.SortFunc(accounts, func(a, b Account) int { return cmp.Compare(a.Name, b.Name) })
	for _, a := range accounts {
		if a.Connections == 0 && !q.Unused || len(q.Accounts) > 0 && !slices.Contains(q.Accounts, a.Name) {
			continue
		}
		z.Accounts = append(z.Accounts, AccountStat{Account: a.Name, Name: a.Name, Connections: a.Connections, TotalConnections: a.TotalConnections,
			Subscriptions: a.Subscriptions, Sent: DataStats{MsgBytes: a.Sent}, Received: DataStats{MsgBytes: a.Received}, SlowConsumers: a.SlowConsumers})
	}
	return z
}
