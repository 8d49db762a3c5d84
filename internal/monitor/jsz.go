package monitor

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/config"
)

// JetStreamSource tells about JetStream.
type JetStreamSource interface {
	// JetStream sums up the server; false says that it is off.
	JetStream() (JetStream, bool)
	// JetStreamAccounts returns the names of the accounts that use JetStream, in any order. The result is the caller's.
	JetStreamAccounts() []string
	// JetStreamAccount returns one of them with the details that are wanted, its streams in the order of their names;
	// false says that it does not use JetStream.
	JetStreamAccount(name string, want JetStreamDetail) (AccountDetail, bool)
}

// JetStreamDetail says how much of an account is wanted.
type JetStreamDetail struct {
	Streams bool
	// Consumers wants the consumers of each stream, DirectConsumers also those that mirrors and sources use.
	Consumers, DirectConsumers bool
	// Config wants the configurations of streams and consumers with them.
	Config bool
}

// JetStream is the state of the whole server's.
type JetStream struct {
	JetStreamStats
	Config             *JetStreamConfig
	Limits             *JetStreamLimits
	Streams, Consumers int
	Messages, Bytes    uint64
}

// JetStreamStats are the use of storage in bytes and the use of the API.
type JetStreamStats struct {
	Memory         uint64            `json:"memory"`
	Store          uint64            `json:"storage"`
	ReservedMemory uint64            `json:"reserved_memory"`
	ReservedStore  uint64            `json:"reserved_storage"`
	Accounts       int               `json:"accounts"`
	HAAssets       int               `json:"ha_assets"`
	API            JetStreamAPIStats `json:"api"`
}

// JetStreamAPIStats counts requests to $JS.API.
type JetStreamAPIStats struct {
	Level    int    `json:"level"` // the API level that the server implements
	Total    uint64 `json:"total"`
	Errors   uint64 `json:"errors"`
	Inflight uint64 `json:"inflight,omitempty"`
}

// JetStreamConfig is the configuration as /varz and /jsz show it.
type JetStreamConfig struct {
	MaxMemory    int64         `json:"max_memory"`
	MaxStore     int64         `json:"max_storage"`
	StoreDir     string        `json:"store_dir,omitempty"` // the URL of the store
	SyncInterval time.Duration `json:"sync_interval,omitempty"`
	SyncAlways   bool          `json:"sync_always,omitempty"` // always, whatever is configured
	Domain       string        `json:"domain,omitempty"`
	UniqueTag    string        `json:"unique_tag,omitempty"`
	Strict       bool          `json:"strict,omitempty"`
}

// JetStreamLimits are the limits on single streams and consumers.
type JetStreamLimits struct {
	MaxRequestBatch     int           `json:"max_request_batch,omitempty"`
	MaxAckPending       int           `json:"max_ack_pending,omitempty"`
	DuplicateWindow     time.Duration `json:"max_duplicate_window,omitempty"`
	DefaultMaxConsumers int           `json:"default_max_consumers,omitempty"`
}

// ConfigJetStream is the JetStreamConfig that the options say. StoreDir is left for the source, which knows the store's
// URL without its secrets.
func ConfigJetStream(o *config.Options) *JetStreamConfig {
	j := &o.JetStream
	return &JetStreamConfig{MaxMemory: j.MaxMemory, MaxStore: j.MaxStore, SyncInterval: j.SyncInterval, SyncAlways: true,
		Domain: j.Domain, UniqueTag: j.UniqueTag, Strict: true}
}

// ConfigJetStreamLimits are the JetStreamLimits that the options say.
func ConfigJetStreamLimits(o *config.Options) *JetStreamLimits {
	l := &o.JetStream.Limits
	return &JetStreamLimits{MaxRequestBatch: l.MaxRequestBatch, MaxAckPending: l.MaxAckPending, DuplicateWindow: l.DuplicateWindow,
		DefaultMaxConsumers: l.DefaultMaxConsumers}
}

// AccountDetail is an account in /jsz.
type AccountDetail struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	JetStreamStats
	Streams []StreamDetail `json:"stream_detail,omitempty"`
}

// StreamDetail is a stream in /jsz. The fields of type any have the JSON forms of the same name in $JS.API's answers.
type StreamDetail struct {
	Name            string    `json:"name"`
	Created         time.Time `json:"created"`
	Cluster         any       `json:"cluster,omitempty"`
	Config          any       `json:"config,omitempty"`
	State           any       `json:"state"`
	Consumers       []any     `json:"consumer_detail,omitempty"`
	DirectConsumers []any     `json:"direct_consumer_detail,omitempty"`
	Mirror          any       `json:"mirror,omitempty"`
	Sources         []any     `json:"sources,omitempty"`
}

// Jsz is the answer of /jsz.
type Jsz struct {
	JetStreamStats
	ID             string           `json:"server_id"`
	Now            time.Time        `json:"now"`
	Disabled       bool             `json:"disabled,omitempty"`
	Config         *JetStreamConfig `json:"config"`
	Limits         *JetStreamLimits `json:"limits,omitempty"`
	Streams        int              `json:"streams"`
	Consumers      int              `json:"consumers"`
	Messages       uint64           `json:"messages"`
	Bytes          uint64           `json:"bytes"`
	AccountDetails []AccountDetail  `json:"account_details,omitempty"`
	Total          int              `json:"total"`
}

// JszQuery says how much of JetStream is wanted. Nothing here has followers or Raft groups: every stream that is shown is
// led by this server.
type JszQuery struct {
	Account         string `json:"account"`
	Accounts        bool   `json:"accounts"`
	Streams         bool   `json:"streams"`
	Consumers       bool   `json:"consumer"`
	DirectConsumers bool   `json:"direct_consumer"`
	Config          bool   `json:"config"`
	LeaderOnly      bool   `json:"leader_only"`
	Offset          int    `json:"offset"`
	Limit           int    `json:"limit"` // of accounts; 0: 1,024, negative: none
}

func (h *Handler) jsz(w http.ResponseWriter, r *http.Request) {
	p := newQuery(r)
	q := JszQuery{Account: p.text("acc"), Accounts: p.flag("accounts"), LeaderOnly: p.flag("leader-only"), Streams: p.flag("streams"),
		Consumers: p.flag("consumers"), DirectConsumers: p.flag("direct-consumers"), Config: p.flag("config"), Offset: p.number("offset"), Limit: p.number("limit")}
	p.flag("raft")
	p.flag("stream-leader-only")
	if p.err != nil {
		refuse(w, p.err)
		return
	}
	z, err := h.Jsz(q)
	if err != nil {
		refuse(w, err)
		return
	}
	h.answer(w, r, z)
}

// setDefaults makes the query say all that follows from what it asks for.
func (q *JszQuery) setDefaults() {
	q.Offset = max(q.Offset, 0)
	q.Streams = q.Streams || q.Consumers
	q.Accounts = q.Accounts || q.Streams && q.Account == ""
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
}

// detail is what is wanted of each account.
func (q *JszQuery) detail() JetStreamDetail {
	return JetStreamDetail{Streams: q.Streams, Consumers: q.Consumers, DirectConsumers: q.DirectConsumers, Config: q.Config}
}

// JszAccount reports on JetStream in one account.
func (r *Reporter) JszAccount(name string, q JszQuery) (*AccountDetail, error) {
	q.setDefaults()
	if a, ok := r.source.JetStreamAccount(name, q.detail()); ok {
		return &a, nil
	}
	if slices.ContainsFunc(r.source.Accounts(), func(a Account) bool { return a.Name == name }) {
		return nil, fmt.Errorf("account %q not jetstream enabled", name)
	}
	return nil, fmt.Errorf("account %q not found", name)
}

// Jsz reports on JetStream.
func (r *Reporter) Jsz(q JszQuery) (*Jsz, error) {
	q.setDefaults()
	z := &Jsz{ID: r.source.ServerID(), Now: r.now().UTC()}
	js, on := r.source.JetStream()
	if !on {
		if q.LeaderOnly {
			return nil, errNotLeader
		}
		z.Disabled, z.Config = true, &JetStreamConfig{}
		return z, nil
	}
	z.JetStreamStats, z.Config, z.Limits = js.JetStreamStats, js.Config, js.Limits
	z.Streams, z.Consumers, z.Messages, z.Bytes = js.Streams, js.Consumers, js.Messages, js.Bytes
	names := r.source.JetStreamAccounts()
	z.Total = len(names)
	for _, name := range q.choose(names) {
		if a, ok := r.source.JetStreamAccount(name, q.detail()); ok {
			z.AccountDetails = append(z.AccountDetails, a)
		}
	}
	return z, nil
}

// choose returns the accounts to show: the one that is named if it is there, else a page of all if they are wanted.
func (q *JszQuery) choose(names []string) []string {
	switch {
	case q.Account != "" && slices.Contains(names, q.Account):
		return []string{q.Account}
	case !q.Accounts:
		return nil
	}
	slices.Sort(names)
	if q.Limit < 0 {
		return names
	}
	return page(names, q.Offset, q.Limit)
}
