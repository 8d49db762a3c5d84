package monitor

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/subject"
)

// SubSource tells about subscriptions.
type SubSource interface {
	// SublistStats sums up the subject index of an account, or of all for "".
	SublistStats(account string) SublistStats
	// Subs yields the subscriptions of clients in an account, or in all for "", in any order. Account is set in each.
	Subs(account string) iter.Seq[SubDetail]
}

// SublistStats is about the index that finds the subscriptions of a subject.
type SublistStats struct {
	NumSubs      uint32  `json:"num_subscriptions"`
	NumCache     uint32  `json:"num_cache"`
	NumInserts   uint64  `json:"num_inserts"`
	NumRemoves   uint64  `json:"num_removes"`
	NumMatches   uint64  `json:"num_matches"`
	CacheHitRate float64 `json:"cache_hit_rate"` // 0 to 1
	MaxFanout    uint32  `json:"max_fanout"`
	AvgFanout    float64 `json:"avg_fanout"`
}

// SubDetail is one subscription.
type SubDetail struct {
	Account    string `json:"account,omitempty"`
	AccountTag string `json:"account_tag,omitempty"`
	Subject    string `json:"subject"`
	Queue      string `json:"qgroup,omitempty"`
	SID        string `json:"sid"`
	Msgs       int64  `json:"msgs"`
	Max        int64  `json:"max,omitempty"`
	CID        uint64 `json:"cid"`
}

// Subsz is the answer of /subsz.
type Subsz struct {
	ID  string    `json:"server_id"`
	Now time.Time `json:"now"`
	SublistStats
	Total  int         `json:"total"`
	Offset int         `json:"offset"`
	Limit  int         `json:"limit"`
	Subs   []SubDetail `json:"subscriptions_list,omitempty"`
}

// SubszQuery says which subscriptions are wanted.
type SubszQuery struct {
	Offset  int    `json:"offset"`
	Limit   int    `json:"limit"`         // 0 or less: 1,024
	List    bool   `json:"subscriptions"` // otherwise only the statistics
	Account string `json:"account"`       // "": all
	Test    string `json:"test"`          // only those that a message to this subject goes to; "": all
}

func (h *Handler) subsz(w http.ResponseWriter, r *http.Request) {
	p := newQuery(r)
	q := SubszQuery{List: p.flag("subs"), Offset: p.number("offset"), Limit: p.number("limit"), Account: p.text("acc"), Test: p.text("test")}
	if p.err != nil {
		refuse(w, p.err)
		return
	}
	z, err := h.Subsz(q)
	if err != nil {
		refuse(w, err)
		return
	}
	h.answer(w, r, z)
}

// Subsz reports on subscriptions.
func (r *Reporter) Subsz(q SubszQuery) (*Subsz, error) {
	q.Offset = max(q.Offset, 0)
	if q.Limit <= 0 {
		q.Limit = defaultLimit
	}
	if q.Test != "" && !subject.ValidPublish(q.Test) {
		return nil, fmt.Errorf("invalid test subject, must be valid publish subject: %s", q.Test)
	}
	z := &Subsz{ID: r.source.ServerID(), Now: r.now().UTC(), SublistStats: r.source.SublistStats(q.Account), Offset: q.Offset, Limit: q.Limit}
	if q.List {
		z.Subs, z.Total = pageOfSubs(r.source.Subs(q.Account), q.Test, q.Offset, q.Limit)
	}
	return z, nil
}

// pageOfSubs returns a page of the subscriptions that a message on the subject test goes to ("" is all), in the order of cid and sid, and how
// many match in all. It keeps no more than the pages up to this one in memory, since there may be millions.
func pageOfSubs(subs iter.Seq[SubDetail], test string, offset, limit int) ([]SubDetail, int) {
	keep := offset + limit
	if keep < 0 { // overflow: all of them
		keep = int(^uint(0) >> 1)
	}
	var first subHeap
	total := 0
	for s := range subs {
		if test != "" && !subject.Match(test, s.Subject) {
			continue
		}
		total++
		s.AccountTag = s.Account
		switch {
		case len(first) < keep:
			heap.Push(&first, s)
		case compareSubs(&s, &first[0]) < 0:
			first[0] = s
			heap.Fix(&first, 0)
		}
	}
	slices.SortFunc(first, func(a, b SubDetail) int { return compareSubs(&a, &b) })
	return page(first, offset, limit), total
}

func compareSubs(a, b *SubDetail) int {
	return cmp.Or(cmp.Compare(a.CID, b.CID), strings.Compare(a.SID, b.SID), strings.Compare(a.Subject, b.Subject))
}

// subHeap has the last subscription, in order, at its root.
type subHeap []SubDetail

func (s subHeap) Len() int           { return len(s) }
func (s subHeap) Less(i, j int) bool { return compareSubs(&s[i], &s[j]) > 0 }
func (s subHeap) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *subHeap) Push(x any)        { *s = append(*s, x.(SubDetail)) }
func (s *subHeap) Pop() any          { panic("monitor: subHeap only grows") }
