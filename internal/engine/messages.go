package engine

import (
	"context"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
)

// subjectsPage is how many subjects one stream info lists, as in NATS.
const subjectsPage = 100_000

// Info is a stream's info and the page of its list of subjects.
type Info struct {
	api.StreamInfo
	SubjectsTotal, SubjectsLimit int
	Mirror                       *OriginInfo
	Sources                      []*OriginInfo
}

// Info tells how the stream stands.
func (s *Stream) Info(ask api.JSApiStreamInfoRequest) (info Info, err error) {
	var filter *stream.Filter
	if ask.SubjectsFilter != "" {
		if filter, err = stream.CompileFilter(ask.SubjectsFilter); err != nil {
			filter = nil // no message has such a subject
		}
	}
	err = s.do(func() {
		info = s.info()
		if ask.DeletedDetails {
			info.State.Deleted = s.deletedSeqs()
		}
		if filter != nil {
			page, total := s.state.Subjects(filter, max(ask.Offset, 0), subjectsPage)
			info.SubjectsTotal, info.SubjectsLimit = total, subjectsPage
			info.State.Subjects = make(map[string]uint64, len(page))
			for _, p := range page {
				info.State.Subjects[p.Subject] = p.Msgs
			}
		}
	})
	return info, consumerError(err)
}

func (s *Stream) info() Info {
	st := s.state
	state := api.StreamState{
		Msgs: st.Msgs(), Bytes: st.Bytes(),
		FirstSeq: st.FirstSeq(), FirstTime: instant(st.FirstTime()),
		LastSeq: st.LastSeq(), LastTime: instant(st.LastTime()),
		NumDeleted: int(st.NumDeleted()), NumSubjects: st.NumSubjects(),
		Consumers: s.countConsumers(public),
	}
	if st.LastSeq() == 0 {
		state.FirstSeq = 0 // nothing was ever there
	}
	mirror, sources := s.originInfos()
	return Info{Mirror: mirror, Sources: sources, StreamInfo: api.StreamInfo{
		Config: s.Config(), Created: s.created, State: state,
		Domain: s.engine.opts.Domain, TimeStamp: time.Now().UTC(),
	}}
}

// instant is a time in the form of infos; 0 is the zero time.
func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// maxDeletedListed bounds the list of deleted sequences in one info.
const maxDeletedListed = 1 << 20

func (s *Stream) deletedSeqs() (seqs []uint64) {
	s.state.Deleted(func(first, last uint64) bool {
		for seq := first; seq <= last && len(seqs) < maxDeletedListed; seq++ {
			seqs = append(seqs, seq)
		}
		return len(seqs) < maxDeletedListed
	})
	return seqs
}

// PurgeRequest says which messages to remove: see stream.Purge.
type PurgeRequest = stream.Purge

// Purge removes messages by rule and tells how many; they stay removed, also after a crash, when this returns.
func (s *Stream) Purge(ctx context.Context, p PurgeRequest) (purged uint64, err error) {
	err = s.doCommitted(ctx, func() (*entry, error) {
		if err := s.state.AcceptPurge(p); err != nil {
			return nil, err
		}
		e := s.newEntry(record.AppendPurge(nil, s.id, record.PurgeBody(p)), 1, false)
		e.then = append(e.then, func(err error) {
			if err == nil {
				s.effects.Reset()
				s.counting = true // the consumers count anew, and announce nothing
				purged = s.state.Purge(p, &s.effects)
				s.counting = false
				s.purged()
			}
		})
		return e, nil
	})
	if err != nil {
		return 0, consumerError(err) // it may still be under way
	}
	return purged, nil
}

// DeleteMessage removes one message; it stays removed when this returns.
func (s *Stream) DeleteMessage(ctx context.Context, seq uint64) error {
	err := s.doCommitted(ctx, func() (*entry, error) {
		if err := s.state.CheckDelete(seq); err != nil {
			return nil, err
		}
		e := s.newEntry(record.AppendSeqs(nil, s.id, []uint64{seq}), 1, false)
		e.then = append(e.then, func(err error) {
			if err == nil {
				s.effects.Reset()
				s.state.Delete(seq, &s.effects)
				s.spread()
			}
		})
		return e, nil
	})
	return consumerError(err)
}

// find chooses the message that a get asks for.
func (s *Stream) find(ask *api.JSApiMsgGetRequest) (seq uint64, err error) {
	none := jserr.New(jserr.NoMessageFound)
	var filter *stream.Filter
	for _, subj := range []string{ask.LastFor, ask.NextFor} {
		if subj != "" {
			if filter, err = stream.CompileFilter(subj); err != nil {
				return 0, none // no message has such a subject
			}
		}
	}
	var m stream.Meta
	ok := false
	switch {
	case ask.LastFor != "":
		m, ok = s.state.Last(filter, 0)
	case ask.StartTime != nil:
		m, ok = s.state.Next(filter, s.state.SeqAt(ask.StartTime.UnixNano()))
	case ask.NextFor != "":
		m, ok = s.state.Next(filter, ask.Seq)
	default:
		m, ok = s.state.Meta(ask.Seq)
	}
	if !ok {
		return 0, none
	}
	return m.Seq, nil
}

// GetMessage reads one message.
func (s *Stream) GetMessage(ctx context.Context, ask api.JSApiMsgGetRequest) (*api.StoredMsg, error) {
	type answer struct {
		m   *api.StoredMsg
		err error
	}
	got := make(chan answer, 1)
	ok := s.inbox.command(func() {
		seq, err := s.find(&ask)
		if err != nil {
			got <- answer{err: err}
			return
		}
		s.read(seq, func(m *record.StoredMessage, err error) {
			if err != nil {
				got <- answer{err: err}
				return
			}
			a := &api.StoredMsg{Subject: string(m.Subject), Sequence: m.Seq, Time: instant(m.Time), Data: append([]byte(nil), m.Data...)}
			if !ask.NoHeaders {
				a.Header = append([]byte(nil), m.Header...)
			}
			got <- answer{m: a}
		})
	})
	if !ok {
		return nil, jserr.New(jserr.StreamNotFound)
	}
	select {
	case a := <-got:
		return a.m, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
		return nil, jserr.New(jserr.StreamNotFound)
	}
}

// read gives a message's bytes to f, on the owner, now or when they were fetched. They hold during the call.
func (s *Stream) read(seq uint64, f func(*record.StoredMessage, error)) {
	m, ok, err := s.load(seq, func(err error) {
		if err != nil {
			f(nil, err)
			return
		}
		if !s.state.Has(seq) {
			f(nil, jserr.New(jserr.NoMessageFound))
			return
		}
		s.read(seq, f)
	})
	switch {
	case err != nil:
		f(nil, err)
	case ok:
		f(&m, nil)
	}
}
