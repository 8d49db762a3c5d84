package consumer

import (
	"slices"
	"sort"

	"github.com/nats-io/jsm.go/api"
)

// start positions a new consumer as its deliver policy says.
func (c *Consumer) start() {
	first, last := c.messages.Bounds()
	seq := c.cfg.OptStartSeq
	switch c.cfg.DeliverPolicy {
	case api.DeliverAll:
		seq = first
	case api.DeliverLast:
		seq = c.messages.Last()
	case api.DeliverNew:
		seq = last + 1
	case api.DeliverByStartTime:
		if c.cfg.OptStartTime != nil {
			seq = c.messages.SeqAt(c.cfg.OptStartTime.UnixNano())
		}
	case api.DeliverLastPerSubject:
		seq = first
		if c.opts.MaxMsgsPerSubject != 1 && last >= first {
			c.skip.upTo = last
			c.skip.build(c.messages, 0)
			if seq = last; len(c.skip.seqs) > 0 {
				seq = c.skip.seqs[0]
			}
		}
	}
	if c.cfg.OptStartSeq == 0 || c.cfg.Direct || c.cfg.Sourcing {
		seq = min(seq, last+1) // a mirror's or source's reader sees by it that the stream is behind
	}
	c.cursor = max(seq, first, 1)
	c.delivered.stream = c.cursor - 1
	c.floor = c.delivered
	c.cursor = max(c.cursor, c.skip.upTo+1)
}

// skipList are the messages that a consumer of the last message per subject starts with: those that were the newest of
// their subject when it was created. All that came after upTo follow as with any consumer. It takes 8 bytes a subject
// until it is delivered.
//
// The list is part of the progress, since it cannot be made again once messages were removed: an older message of the
// subject would take the place of one that is gone.
type skipList struct {
	upTo uint64   // 0: there is none, or it is done
	seqs []uint64 // what is still to come is from at on
	at   int
	dead []uint64 // of seqs, those that were removed from the stream meanwhile, ascending
	// The list as the progress has it, until resume makes seqs of it; unknown: it was too long to be kept.
	kept    []span
	unknown bool
}

// maxKeptSpans bounds the list in the progress: runs of sequences, of two to eleven bytes each.
const maxKeptSpans = 1 << 16

func (s *skipList) active() bool { return s.upTo != 0 }

// left counts the messages that are still to come.
func (s *skipList) left() uint64 {
	n := uint64(len(s.seqs) - s.at)
	if len(s.dead) > 0 && s.at < len(s.seqs) {
		i, _ := slices.BinarySearch(s.dead, s.seqs[s.at])
		n -= uint64(len(s.dead) - i)
	}
	return n
}

// build lists what is above after.
func (s *skipList) build(m Messages, after uint64) {
	*s = skipList{upTo: s.upTo, seqs: m.LastPerSubject(s.upTo)}
	s.seqs = s.seqs[sort.Search(len(s.seqs), func(i int) bool { return s.seqs[i] > after }):]
}

// resume makes the list out of what the progress says: what is above after and still there.
func (s *skipList) resume(m Messages, after uint64) {
	if s.unknown {
		s.build(m, after)
	}
	for _, sp := range s.kept {
		for from := max(sp.lo, after+1); from <= sp.hi; from++ {
			seq, ok := m.Next(from)
			if !ok || seq > sp.hi {
				break
			}
			s.seqs = append(s.seqs, seq)
			from = seq
		}
	}
	s.kept = nil
}

// purged drops what is no longer in the stream.
func (s *skipList) purged(m Messages) {
	if s.upTo == 0 {
		return
	}
	before := s.seqs[:min(s.at, len(s.seqs))]
	left := slices.DeleteFunc(s.seqs[len(before):], func(seq uint64) bool { return !m.Has(seq) })
	s.seqs, s.dead = s.seqs[:len(before)+len(left)], nil
}

// spans is the list for the progress, that of the last delivery included, since that may be taken back. ok is false for
// a list that is too long to be kept.
func (s *skipList) spans() (spans []span, ok bool) {
	if s.kept != nil || s.unknown {
		return s.kept, !s.unknown
	}
	for _, seq := range s.seqs[max(s.at-1, 0):] {
		if n := len(spans); n > 0 && spans[n-1].hi+1 == seq {
			spans[n-1].hi = seq
			continue
		}
		if len(spans) == maxKeptSpans {
			return nil, false
		}
		spans = append(spans, span{seq, seq})
	}
	return spans, true
}

// next is the first message of the list that still exists.
func (s *skipList) next() (uint64, bool) {
	for ; s.at < len(s.seqs); s.at++ {
		if seq := s.seqs[s.at]; !s.isDead(seq) {
			return seq, true
		}
	}
	if len(s.seqs) > 1 {
		// The last one stays: its delivery may be taken back.
		s.seqs, s.at, s.dead = []uint64{s.seqs[len(s.seqs)-1]}, 1, nil
	}
	return 0, false
}

func (s *skipList) isDead(seq uint64) bool {
	if len(s.dead) == 0 {
		return false
	}
	_, found := slices.BinarySearch(s.dead, seq)
	return found
}

// take moves past a message of the list, and ends the list with the first message that follows it. It reports whether
// the message was of the list.
func (s *skipList) take(seq uint64) bool {
	switch {
	case s.upTo == 0:
		return false
	case seq > s.upTo:
		*s = skipList{}
		return false
	}
	s.at++
	return true
}

// removed notes that a message is gone, and reports whether it was still to come.
func (s *skipList) removed(seq uint64) bool {
	if s.upTo == 0 || seq > s.upTo {
		return false
	}
	if _, found := slices.BinarySearch(s.seqs[s.at:], seq); !found {
		return false
	}
	i, found := slices.BinarySearch(s.dead, seq)
	if !found {
		s.dead = slices.Insert(s.dead, i, seq)
	}
	return !found
}
