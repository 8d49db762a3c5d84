package monitor

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/subject"
)

// ConnSource tells about connections.
type ConnSource interface {
	// Conns returns a snapshot of the connections in the state, in any order. The result is the caller's. Closed
	// connections are those that are remembered, a bounded number.
	Conns(state ConnState) []Conn
	// ConnSubs returns the subscriptions of an open connection, or those that a closed one had; nil if it is not known.
	ConnSubs(cid uint64) []SubDetail
}

// ConnState selects connections.
type ConnState int

// The states of /connz.
const (
	ConnOpen ConnState = iota
	ConnClosed
	ConnAll
)

// Conn is what the source knows of a connection.
type Conn struct {
	CID          uint64
	Kind         string // "Client"
	Type         string // "nats" or "websocket"
	IP           string // "" in-process
	Port         int
	Start        time.Time
	LastActivity time.Time
	Stop         time.Time // zero while it is open
	Reason       string    // why it was closed, in NATS's words, such as "Client Closed"
	RTT          time.Duration
	Pending      int // bytes queued
	InMsgs       int64
	OutMsgs      int64
	InBytes      int64
	OutBytes     int64
	Stalls       int64 // times that it was slowed as a publisher
	NumSubs      uint32
	Name         string // name, lang and version as in its CONNECT
	Lang         string
	Version      string
	User         string // the name or nkey that it authenticated with
	Account      string
	TLS          *tls.ConnectionState // nil: without
	TLSFirst     bool                 // the handshake came before INFO
}

// Connz is the answer of /connz.
type Connz struct {
	ID       string      `json:"server_id"`
	Now      time.Time   `json:"now"`
	NumConns int         `json:"num_connections"`
	Total    int         `json:"total"`
	Offset   int         `json:"offset"`
	Limit    int         `json:"limit"`
	Conns    []*ConnInfo `json:"connections"`
}

// ConnInfo is one connection in /connz.
type ConnInfo struct {
	CID            uint64      `json:"cid"`
	Kind           string      `json:"kind,omitempty"`
	Type           string      `json:"type,omitempty"`
	IP             string      `json:"ip"`
	Port           int         `json:"port"`
	Start          time.Time   `json:"start"`
	LastActivity   time.Time   `json:"last_activity"`
	Stop           *time.Time  `json:"stop,omitempty"`
	Reason         string      `json:"reason,omitempty"`
	RTT            string      `json:"rtt,omitempty"`
	Uptime         string      `json:"uptime"`
	Idle           string      `json:"idle"`
	Pending        int         `json:"pending_bytes"`
	InMsgs         int64       `json:"in_msgs"`
	OutMsgs        int64       `json:"out_msgs"`
	InBytes        int64       `json:"in_bytes"`
	OutBytes       int64       `json:"out_bytes"`
	Stalls         int64       `json:"stalls,omitempty"`
	NumSubs        uint32      `json:"subscriptions"`
	Name           string      `json:"name,omitempty"`
	Lang           string      `json:"lang,omitempty"`
	Version        string      `json:"version,omitempty"`
	TLSVersion     string      `json:"tls_version,omitempty"`
	TLSCipher      string      `json:"tls_cipher_suite,omitempty"`
	TLSPeerCerts   []*PeerCert `json:"tls_peer_certs,omitempty"`
	TLSFirst       bool        `json:"tls_first,omitempty"`
	AuthorizedUser string      `json:"authorized_user,omitempty"`
	Account        string      `json:"account,omitempty"`
	Subs           []string    `json:"subscriptions_list,omitempty"`
	SubsDetail     []SubDetail `json:"subscriptions_list_detail,omitempty"`
	NameTag        string      `json:"name_tag,omitempty"`
}

// PeerCert is a certificate that a client showed.
type PeerCert struct {
	Subject    string `json:"subject,omitempty"`
	KeySHA256  string `json:"spki_sha256,omitempty"` // hex, of its public key
	CertSHA256 string `json:"cert_sha256,omitempty"` // hex, of all of it
}

// tls fills in what is shown of TLS.
func (ci *ConnInfo) tls(c *Conn, auth bool) {
	state := c.TLS
	if state == nil {
		return
	}
	ci.TLSFirst = c.TLSFirst
	ci.TLSVersion = strings.TrimPrefix(tls.VersionName(state.Version), "TLS ")
	ci.TLSCipher = tls.CipherSuiteName(state.CipherSuite)
	if !auth {
		return
	}
	for _, cert := range state.PeerCertificates {
		key, all := sha256.Sum256(cert.RawSubjectPublicKeyInfo), sha256.Sum256(cert.Raw)
		ci.TLSPeerCerts = append(ci.TLSPeerCerts, &PeerCert{
			Subject: cert.Subject.String(), KeySHA256: hex.EncodeToString(key[:]), CertSHA256: hex.EncodeToString(all[:]),
		})
	}
}

// ConnzQuery says which connections are wanted, and what of them.
type ConnzQuery struct {
	Sort       string    `json:"sort"` // "": cid
	Auth       bool      `json:"auth"`
	Subs       bool      `json:"subscriptions"`
	SubsDetail bool      `json:"subscriptions_detail"`
	Offset     int       `json:"offset"`
	Limit      int       `json:"limit"` // 0 or less: 1,024
	CID        uint64    `json:"cid"`   // 0: all
	MQTTClient string    `json:"mqtt_client"`
	State      ConnState `json:"state"`
	User       string    `json:"user"` // "": all, as for Account
	Account    string    `json:"acc"`
	// FilterSubject leaves out who has no subscription that a message to this subject, or those that a pattern matches,
	// go to. It needs an Account.
	FilterSubject string `json:"filter_subject"`
}

func (h *Handler) connz(w http.ResponseWriter, r *http.Request) {
	q, err := readConnzQuery(r)
	if err != nil {
		refuse(w, err)
		return
	}
	z, err := h.Connz(q)
	if err != nil {
		refuse(w, err)
		return
	}
	h.answer(w, r, z)
}

func readConnzQuery(r *http.Request) (ConnzQuery, error) {
	p := newQuery(r)
	q := ConnzQuery{Sort: p.text("sort"), Auth: p.flag("auth"), User: p.text("user"), Account: p.text("acc"), MQTTClient: p.text("mqtt_client"),
		FilterSubject: p.text("filter_subject")}
	if q.SubsDetail = strings.EqualFold(p.text("subs"), "detail"); !q.SubsDetail {
		q.Subs = p.flag("subs")
	}
	q.Offset, q.Limit, q.CID = p.number("offset"), p.number("limit"), p.id("cid")
	q.State = p.state()
	return q, p.err
}

func (q *ConnzQuery) setDefaults() {
	q.Offset = max(q.Offset, 0)
	if q.Limit <= 0 {
		q.Limit = defaultLimit
	}
	if q.CID > 0 {
		q.Limit = 1
	}
	if q.Sort == "" {
		q.Sort = "cid"
	}
}

func (q *ConnzQuery) validate() error {
	if _, ok := connOrders[q.Sort]; !ok {
		return fmt.Errorf("invalid sorting option: %s", q.Sort)
	}
	if (q.Sort == "stop" || q.Sort == "reason") && q.State != ConnClosed {
		return fmt.Errorf("sort by %s only valid on closed connections", q.Sort)
	}
	if q.FilterSubject != "" && q.Account == "" {
		return errors.New("filter by subject only valid with account filtering")
	}
	return nil
}

func (q *query) state() ConnState {
	switch s := strings.ToLower(q.text("state")); s {
	case "", "open":
		return ConnOpen
	case "closed":
		return ConnClosed
	case "any", "all":
		return ConnAll
	default:
		if q.err == nil {
			q.err = badQuery("Error decoding state for " + q.text("state"))
		}
		return ConnOpen
	}
}

// Connz reports on connections.
func (r *Reporter) Connz(q ConnzQuery) (*Connz, error) {
	q.setDefaults()
	if err := q.validate(); err != nil {
		return nil, err
	}
	now := r.now().UTC()
	conns := slices.DeleteFunc(r.source.Conns(q.State), func(c Conn) bool { return !q.matches(&c) || !r.subscribed(&q, &c) })
	order := connOrders[q.Sort]
	slices.SortFunc(conns, func(a, b Conn) int { return order(&a, &b, now) })
	z := &Connz{ID: r.source.ServerID(), Now: now, Total: len(conns), Offset: q.Offset, Limit: q.Limit, Conns: []*ConnInfo{}}
	for _, c := range page(conns, q.Offset, q.Limit) {
		z.Conns = append(z.Conns, r.connInfo(&c, q, now))
	}
	z.NumConns = len(z.Conns)
	return z, nil
}

// matches filters. No connection is MQTT's.
func (q *ConnzQuery) matches(c *Conn) bool {
	return (q.CID == 0 || c.CID == q.CID) && (q.User == "" || c.User == q.User) && (q.Account == "" || c.Account == q.Account) && q.MQTTClient == ""
}

// subscribed applies FilterSubject.
func (r *Reporter) subscribed(q *ConnzQuery, c *Conn) bool {
	if q.FilterSubject == "" {
		return true
	}
	if !subject.ValidPattern(q.FilterSubject) {
		return false
	}
	return slices.ContainsFunc(r.source.ConnSubs(c.CID), func(s SubDetail) bool { return subject.Overlap(q.FilterSubject, s.Subject) })
}

func (r *Reporter) connInfo(c *Conn, q ConnzQuery, now time.Time) *ConnInfo {
	end := now
	info := &ConnInfo{CID: c.CID, Kind: c.Kind, Type: c.Type, IP: c.IP, Port: c.Port, Start: c.Start.UTC(), LastActivity: c.LastActivity.UTC(),
		Reason: c.Reason, RTT: roundRTT(c.RTT).String(), Pending: c.Pending, InMsgs: c.InMsgs, OutMsgs: c.OutMsgs, InBytes: c.InBytes,
		OutBytes: c.OutBytes, Stalls: c.Stalls, NumSubs: c.NumSubs, Name: c.Name, Lang: c.Lang, Version: c.Version}
	if !c.Stop.IsZero() {
		end = c.Stop.UTC()
		info.Stop = &end
	}
	info.Uptime, info.Idle = uptime(end.Sub(c.Start)), uptime(end.Sub(c.LastActivity))
	info.tls(c, q.Auth)
	if q.Auth {
		info.AuthorizedUser, info.NameTag = c.User, c.Account
		if c.Account != account.DefaultName {
			info.Account = c.Account
		}
	}
	switch {
	case q.SubsDetail:
		info.SubsDetail = r.source.ConnSubs(c.CID)
	case q.Subs:
		for _, s := range r.source.ConnSubs(c.CID) {
			info.Subs = append(info.Subs, s.Subject)
		}
	}
	return info
}

// roundRTT drops nanoseconds, which are noise, from times of less than a millisecond.
func roundRTT(d time.Duration) time.Duration {
	if d > time.Microsecond && d < time.Millisecond {
		return d.Truncate(time.Microsecond)
	}
	return d
}

// connOrders are the values of sort. As for nats-server all but cid, start, uptime and reason put the highest first,
// and equal ones follow by cid in the same direction.
var connOrders = map[string]func(a, b *Conn, now time.Time) int{
	"cid":        up(func(*Conn, time.Time) int64 { return 0 }),
	"start":      up(func(*Conn, time.Time) int64 { return 0 }),
	"subs":       down(func(c *Conn, _ time.Time) int64 { return int64(c.NumSubs) }),
	"pending":    down(func(c *Conn, _ time.Time) int64 { return int64(c.Pending) }),
	"msgs_to":    down(func(c *Conn, _ time.Time) int64 { return c.OutMsgs }),
	"msgs_from":  down(func(c *Conn, _ time.Time) int64 { return c.InMsgs }),
	"bytes_to":   down(func(c *Conn, _ time.Time) int64 { return c.OutBytes }),
	"bytes_from": down(func(c *Conn, _ time.Time) int64 { return c.InBytes }),
	"last":       down(func(c *Conn, _ time.Time) int64 { return c.LastActivity.UnixNano() }),
	"idle":       down(func(c *Conn, now time.Time) int64 { return int64(now.Sub(c.LastActivity)) }),
	"uptime":     up((*Conn).uptime),
	"stop":       down(func(c *Conn, _ time.Time) int64 { return c.Stop.UnixNano() }),
	"rtt":        down(func(c *Conn, _ time.Time) int64 { return int64(c.RTT) }),
	"reason": func(a, b *Conn, _ time.Time) int {
		return cmp.Or(strings.Compare(a.Reason, b.Reason), cmp.Compare(a.CID, b.CID))
	},
}

func (c *Conn) uptime(now time.Time) int64 {
	if !c.Stop.IsZero() {
		now = c.Stop
	}
	return int64(now.Sub(c.Start))
}

func up(key func(*Conn, time.Time) int64) func(a, b *Conn, now time.Time) int {
	return func(a, b *Conn, now time.Time) int {
		return cmp.Or(cmp.Compare(key(a, now), key(b, now)), cmp.Compare(a.CID, b.CID))
	}
}

func down(key func(*Conn, time.Time) int64) func(a, b *Conn, now time.Time) int {
	return func(a, b *Conn, now time.Time) int { return up(key)(b, a, now) }
}
