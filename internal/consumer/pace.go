package consumer

import "time"

// tokenBucket limits the bytes a second of a push consumer. A message larger than the bucket goes out when the bucket
// is full and leaves it in debt.
type tokenBucket struct {
	rate   float64 // bytes a second; 0: no limit
	burst  float64
	tokens float64
	at     int64 // when tokens was right
	until  int64 // no delivery before
}

// set takes a limit in bits a second; the tokens stay.
func (b *tokenBucket) set(bits uint64, burst int) {
	b.rate, b.burst = float64(bits)/8, float64(burst)
	b.tokens = min(b.tokens, b.burst)
}

func (b *tokenBucket) fill(now int64) { b.tokens, b.at = b.burst, now }

// may reports whether size bytes may go now; if not, until says when.
func (b *tokenBucket) may(size int, now int64) bool {
	if b.rate == 0 {
		return true
	}
	b.tokens = min(b.tokens+b.rate*float64(now-b.at)/float64(time.Second), b.burst)
	b.at = now
	need := min(float64(size), b.burst)
	if b.tokens >= need {
		b.until = 0
		return true
	}
	// One nanosecond more, so that rounding never makes the next attempt come too early.
	const longest = float64(24 * time.Hour)
	b.until = now + int64(min((need-b.tokens)/b.rate*float64(time.Second), longest)) + 1
	return false
}

func (b *tokenBucket) take(size int) {
	if b.rate != 0 {
		b.tokens -= float64(size)
	}
}

// replayPace delivers what was stored before the consumer started at the pace at which it was stored.
type replayPace struct {
	on    bool
	until uint64 // last sequence that was stored before
	last  int64  // when the message delivered before was stored; 0: none
	seq   uint64 // the message that waits
	at    int64  // until when; 0: none waits
}

// may reports whether a message may go now; if not, at says when.
func (p *replayPace) may(m Message, again bool, now int64) bool {
	if !p.on || again {
		return true
	}
	if p.seq != m.Seq {
		p.seq, p.at = m.Seq, 0
		if gap := m.Time - p.last; p.last != 0 && gap > int64(time.Millisecond) {
			p.at = later(now, gap)
		}
	}
	if now < p.at {
		return false
	}
	p.last, p.at = m.Time, 0
	return true
}
