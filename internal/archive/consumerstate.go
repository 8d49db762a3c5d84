package archive

import (
	"fmt"
	"math"
	"time"
)

// o.dat is a consumer's state; u is an unsigned, i a signed varint:
//
//	22, version (1 byte each; 1 or 2)
//	u acknowledgement floor: consumer, stream; u delivered: consumer, stream (version 1 counts from the floor)
//	u pending, and if there are some: i base time in seconds, and each: u stream sequence above the floor,
//	    u consumer sequence above the floor (version 2), i seconds before the base (version 1: behind it)
//	u redelivered, each: u stream sequence above the floor, u deliveries after the first
const stateMagic = 22

func parseConsumerState(body []byte) (s ConsumerState, err error) {
	if len(body) < 2 || body[0] != stateMagic || body[1] < 1 || body[1] > 2 {
		return s, fmt.Errorf("%w: state of a consumer", ErrCorrupt)
	}
	version := body[1]
	r := reader{rest: body[2:]}
	s.AckFloor.Consumer, s.AckFloor.Stream = r.unsigned(), r.unsigned()
	s.Delivered.Consumer, s.Delivered.Stream = r.unsigned(), r.unsigned()
	if version == 1 {
		s.Delivered.Consumer += max(s.AckFloor.Consumer, 1) - 1
		s.Delivered.Stream += max(s.AckFloor.Stream, 1) - 1
	}
	if n := r.count(); n > 0 {
		base := r.signed()
		s.Pending = make(map[uint64]Pending, n)
		for range n {
			seq := s.AckFloor.Stream + r.unsigned()
			var p Pending
			if version == 2 {
				p.Sequence = s.AckFloor.Consumer + r.unsigned()
			}
			at := base - r.signed()
			if version == 1 {
				at = 2*base - at
			}
			if at < 0 || at > math.MaxInt64/int64(time.Second) || seq == 0 {
				r.bad = true
				break
			}
			p.Timestamp = at * int64(time.Second)
			s.Pending[seq] = p
		}
	}
	if n := r.count(); n > 0 {
		s.Redelivered = make(map[uint64]uint64, n)
		for range n {
			seq, again := r.unsigned(), r.unsigned()
			if seq > 0 && again > 0 {
				s.Redelivered[s.AckFloor.Stream+seq] = again
			}
		}
	}
	if r.bad {
		return ConsumerState{}, fmt.Errorf("%w: state of a consumer", ErrCorrupt)
	}
	return s, nil
}
