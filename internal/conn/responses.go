package conn

import (
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

// responses is the dynamic permission to answer: the reply subjects of messages that a client received. It is guarded
// by Conn.mu.
type responses struct {
	limit   account.ResponsePermission
	rights  *account.Rights
	pending map[string]*response
	added   int // since the last pruning
	pruned  time.Time
}

type response struct {
	at time.Time
	n  int
}

const (
	// Bounds between prunings, as in nats-server.
	responsesToPrune = 4096
	pruneEvery       = time.Second
	// maxResponses bounds the requests that a client may still answer. Beyond it some are forgotten.
	maxResponses = 64 << 10
)

func newResponses(r *account.Rights) *responses {
	limit := r.Responses()
	if limit == nil {
		return nil
	}
	return &responses{limit: *limit, rights: r, pending: make(map[string]*response)}
}

// expect notes that the client was sent a message that asks for an answer there.
func (r *responses) expect(reply []byte) {
	if jetStreamRequest(reply) || r.rights.MayPublish(reply) {
		return
	}
	now := time.Now()
	r.pending[string(reply)] = &response{at: now}
	if r.added++; r.added > responsesToPrune || now.Sub(r.pruned) > pruneEvery {
		r.prune(now)
	}
}

// allow reports whether an answer is allowed, and counts it.
func (r *responses) allow(subj []byte) bool {
	p := r.pending[string(subj)]
	if p == nil {
		return false
	}
	p.n++
	if r.spent(p, time.Now(), p.n > r.limit.MaxMsgs) {
		delete(r.pending, string(subj))
		return false
	}
	return true
}

func (r *responses) prune(now time.Time) {
	for subj, p := range r.pending {
		if r.spent(p, now, p.n >= r.limit.MaxMsgs) {
			delete(r.pending, subj)
		}
	}
	for subj := range r.pending {
		if len(r.pending) <= maxResponses-responsesToPrune {
			break
		}
		delete(r.pending, subj)
	}
	r.added, r.pruned = 0, now
}

func (r *responses) spent(p *response, now time.Time, over bool) bool {
	return r.limit.MaxMsgs > 0 && over || r.limit.Expires > 0 && now.Sub(p.at) > r.limit.Expires
}
