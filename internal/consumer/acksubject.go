package consumer

import "bytes"

// AckSubject is what an acknowledgement subject says. The slices are parts of the subject.
type AckSubject struct {
	Stream, Consumer []byte
	Deliveries       uint64
	StreamSeq        uint64
	ConsumerSeq      uint64
	Time             int64 // when the message was stored, Unix nanoseconds
	Pending          uint64
}

// ParseAckSubject reads the reply subject of a delivered message, without allocating. It takes both forms that
// nats-server 2.15 takes (ADR-15); the first is the one that it, and we, send:
//
//	$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>
//	$JS.ACK.<domain>.<account hash>.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>[.…]
func ParseAckSubject(subject []byte) (a AckSubject, ok bool) {
	const prefix = "$JS.ACK."
	if len(subject) < len(prefix) || string(subject[:len(prefix)]) != prefix {
		return a, false
	}
	if rest, ok := a.parse(subject[len(prefix):]); ok && len(rest) == 0 {
		return a, true
	}
	_, rest := cut(subject[len(prefix):])
	_, rest = cut(rest)
	a = AckSubject{}
	rest, ok = a.parse(rest)
	return a, ok && (len(rest) == 0 || rest[0] == '.')
}

// parse reads the names and numbers at the start of s, and returns what follows them.
func (a *AckSubject) parse(s []byte) (rest []byte, ok bool) {
	a.Stream, s = cut(s)
	a.Consumer, s = cut(s)
	if len(a.Stream) == 0 || len(a.Consumer) == 0 {
		return nil, false
	}
	var stored uint64
	for i, into := range [...]*uint64{&a.Deliveries, &a.StreamSeq, &a.ConsumerSeq, &stored, &a.Pending} {
		if i > 0 {
			if len(s) == 0 || s[0] != '.' {
				return nil, false
			}
			s = s[1:]
		}
		if *into, s, ok = number(s); !ok {
			return nil, false
		}
	}
	a.Time = int64(stored)
	return s, true
}

// cut splits the first token off a subject.
func cut(s []byte) (token, rest []byte) {
	if i := bytes.IndexByte(s, '.'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, nil
}

// number reads the decimal digits at the start of s, at most 19 of them.
func number(s []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(s) && i < 19; i++ {
		d := s[i] - '0'
		if d > 9 {
			break
		}
		n = n*10 + uint64(d)
	}
	return n, s[i:], i > 0
}
