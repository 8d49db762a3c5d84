package engine

import (
	"slices"

	"github.com/sluicemq/sluice/internal/record"
)

// What max_age and the TTLs of messages remove goes when the record of it is committed, not before: what a reader once
// missed never comes back after a crash. Delete markers are messages of the stream and take the place of what they
// replace when they are committed. While entries of either kind are under way, nothing more is looked for.

// maxDue is how many single messages are removed or replaced at a time.
const maxDue = 4096

// mayExpire reports whether it is the time to look for what is due.
func (s *Stream) mayExpire() bool {
	return s.expiring == 0 && s.failed == nil && !s.deleting && len(s.unsent) == 0 && !s.holding()
}

// expire has what is due removed.
func (s *Stream) expire() {
	if !s.mayExpire() {
		return
	}
	if at := s.state.NextExpiry(); at.IsZero() || s.now.Before(at) {
		return
	}
	s.state.Due(s.now, maxDue, &s.due)
	s.removeDue()
	s.replaceDue()
}

// removeDue writes the removal of what is due.
func (s *Stream) removeDue() {
	before, seqs := s.due.Before, slices.Clone(s.due.Seqs)
	if before == 0 && len(seqs) == 0 {
		return
	}
	// By max_age alone it is not urgent, as it never was exact.
	e := s.newEntry(nil, 0, len(seqs) == 0)
	if before > 0 {
		e.Data = record.AppendExpire(e.Data, s.id, before)
		e.Records++
	}
	if len(seqs) > 0 {
		e.Data = record.AppendSeqs(e.Data, s.id, seqs)
		e.Records++
	}
	s.expiring++
	e.then = append(e.then, func(err error) {
		s.expiring--
		if err != nil {
			return
		}
		s.effects.Reset()
		s.state.ExpireBefore(before, &s.effects)
		for _, seq := range seqs {
			s.state.Delete(seq, &s.effects)
		}
		s.spread()
	})
	s.write(e)
}

// replaceDue publishes the delete markers.
func (s *Stream) replaceDue() {
	for _, seq := range s.due.Markers {
		a, ok := s.state.AcceptMarker(seq, s.now)
		if !ok {
			continue // it went meanwhile
		}
		s.addMessage(&record.StoredMessage{Seq: a.Seq, Time: a.Time, Subject: a.Subject, Header: a.Header})
		if len(s.building.Data) >= maxChunkBytes {
			s.sealMarkers()
		}
	}
	s.sealMarkers()
}

// sealMarkers sends the markers so far on their way.
func (s *Stream) sealMarkers() {
	if e := s.building; e != nil && s.log != nil {
		s.expiring++
		e.then = append(e.then, func(error) { s.expiring-- })
	}
	s.seal()
}
