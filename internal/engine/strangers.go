package engine

import (
	"slices"

	"github.com/sluicemq/sluice/internal/stream"
)

// A consumer whose filter changed may wait for acknowledgements of messages that do not pass the new one. It has to
// hear of their removal, though [interest] does not find it: the stream keeps a list of such consumers.

// noteStranger enters a consumer into the list if it belongs there.
func (s *Stream) noteStranger(c *Consumer) {
	if c.machine.Strangers() && !slices.Contains(s.strange, c) {
		s.strange = append(s.strange, c)
	}
}

// forgetStranger takes a consumer off the list.
func (s *Stream) forgetStranger(c *Consumer) {
	if i := slices.Index(s.strange, c); i >= 0 {
		s.strange = slices.Delete(s.strange, i, i+1)
	}
}

// removedStranger tells the listed consumers of a removal that is not their filter's.
func (s *Stream) removedStranger(r stream.Removed) {
	s.strange = slices.DeleteFunc(s.strange, func(c *Consumer) bool { return !c.machine.Strangers() })
	for _, c := range s.strange {
		if !c.filter.Match(r.Subject) {
			c.machine.RemovedStranger(r.Seq, &s.consumerFx)
			s.touched = append(s.touched, c)
		}
	}
}
