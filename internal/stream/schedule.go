package stream

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/subject"
)

// A message with a Nats-Schedule (ADR-51) is published again to another subject of the stream whenever its schedule
// fires. What a firing publishes says in Nats-Scheduler and Nats-Schedule-Next whose it is and when the next one is, or
// that there is none, and the schedule goes with it. So the log tells all that a replay needs.

// schedules are those of a stream, one a subject: that of its last message.
type schedules struct {
	bySubject map[string]*schedule
	bySeq     map[uint64]*schedule
	next      scheduleHeap // those that are not firing
}

type schedule struct {
	seq     uint64
	subject string
	at      int64 // ns UTC
	index   int   // in the heap; -1: it is firing
}

// set enters a schedule in place of its subject's earlier one.
func (l *schedules) set(seq uint64, subject string, at int64) {
	l.drop(l.bySubject[subject])
	if l.bySubject == nil {
		l.bySubject, l.bySeq = map[string]*schedule{}, map[uint64]*schedule{}
	}
	p := &schedule{seq: seq, subject: subject, at: at}
	l.bySubject[subject], l.bySeq[seq] = p, p
	heap.Push(&l.next, p)
}

// move has a schedule fire at another time.
func (l *schedules) move(p *schedule, at int64) {
	p.at = at
	if p.index < 0 {
		heap.Push(&l.next, p)
	} else {
		heap.Fix(&l.next, p.index)
	}
}

func (l *schedules) drop(p *schedule) {
	if p == nil {
		return
	}
	delete(l.bySubject, p.subject)
	delete(l.bySeq, p.seq)
	if p.index >= 0 {
		heap.Remove(&l.next, p.index)
	}
}

// list gives the schedules in order of sequence.
func (l *schedules) list() []*schedule {
	list := slices.Collect(maps.Values(l.bySeq))
	slices.SortFunc(list, func(a, b *schedule) int { return cmp.Compare(a.seq, b.seq) })
	return list
}

// scheduleHeap implements heap.Interface: the first fires next.
type scheduleHeap []*schedule

func (h scheduleHeap) Len() int           { return len(h) }
func (h scheduleHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h scheduleHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *scheduleHeap) Push(x any) {
	p := x.(*schedule)
	p.index = len(*h)
	*h = append(*h, p)
}

// Pop implements heap.Interface.
func (h *scheduleHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	p.index = -1
	return p
}

// schedules reports whether the headers have to do with schedules.
func (h *headers) schedules() bool {
	return len(h.schedule) > 0 || len(h.scheduler) > 0 || len(h.scheduleNext) > 0
}

// instantNanos is a time in ns UTC, as far as that reaches.
func instantNanos(t time.Time) int64 {
	if t.Year() > 2200 {
		return math.MaxInt64
	}
	return t.UnixNano()
}

// noteSchedule follows a message that became visible.
func (s *State) noteSchedule(m *Message, h *headers, e *Effects) {
	l := &s.plans
	at, _, err := nextFiring(h.schedule, h.scheduleZone, m.Time, m.Time)
	switch {
	case !s.Has(m.Seq): // the limits left no room for it
	case err == nil && !at.IsZero():
		l.set(m.Seq, string(m.Subject), instantNanos(at))
	case len(h.scheduler) == 0:
		l.drop(l.bySubject[string(m.Subject)])
	}
	switch {
	case len(h.scheduleNext) == 0 || len(h.scheduler) == 0:
	case string(h.scheduleNext) == purgeSchedule:
		if s.rollsUp() {
			s.removeSubject(h.scheduler, e)
		}
	default:
		next, err := time.Parse(time.RFC3339Nano, string(h.scheduleNext))
		if p := l.bySubject[string(h.scheduler)]; p != nil && err == nil {
			l.move(p, instantNanos(next))
		}
	}
}

// purgeSchedule is the Nats-Schedule-Next that ends a schedule.
const purgeSchedule = "purge"

// removeSubject removes all messages of a subject.
func (s *State) removeSubject(text []byte, e *Effects) {
	if id := s.names.find(text); id != 0 {
		for n := s.names.row(id).count; n > 0; n-- {
			s.removeSeq(s.names.row(id).first, e, false)
		}
	}
}

// checkSchedule refuses headers about schedules that are wrong or not allowed, and has a schedule take the place of its
// subject's earlier messages.
func (s *State) checkSchedule(c *candidate, ns int64) *jserr.Error {
	h := c.headers
	allowed := s.cfg.AllowMsgSchedules
	at, _, err := nextFiring(h.schedule, h.scheduleZone, ns, ns)
	switch {
	case err != nil && !allowed:
		return jserr.New(jserr.MessageSchedulesDisabled)
	case errors.Is(err, errZone):
		return jserr.New(jserr.MessageSchedulesTimeZoneInvalid)
	case err != nil:
		return jserr.New(jserr.MessageSchedulesPatternInvalid)
	case !at.IsZero() && !allowed:
		return jserr.New(jserr.MessageSchedulesDisabled)
	case !at.IsZero():
		if err := s.checkTarget(c); err != nil {
			return err
		}
	}
	if len(h.scheduleNext) == 0 && len(h.scheduler) == 0 {
		return nil
	}
	return s.checkScheduler(c, s.isSchedule(h.scheduler))
}

// checkTarget checks what a schedule is to publish.
func (s *State) checkTarget(c *candidate) *jserr.Error {
	h := c.headers
	target, source := h.scheduleTarget, h.scheduleSource
	_, validTTL := parseTTL(h.scheduleTTL)
	switch {
	case !validTTL:
		return jserr.New(jserr.MessageSchedulesTTLInvalid)
	case len(h.scheduleRollup) > 0 && string(h.scheduleRollup) != "sub":
		return jserr.New(jserr.MessageSchedulesRollupInvalid)
	case len(h.scheduleTTL) > 0 && !s.cfg.AllowMsgTTL:
		return jserr.New(jserr.MessageTTLDisabled)
	case !subject.ValidPublish(target), bytes.Equal(target, c.text):
		return jserr.New(jserr.MessageSchedulesTargetInvalid)
	case len(source) > 0 && (bytes.Equal(source, target) || bytes.Equal(source, c.text) || !subject.ValidPublish(source)):
		return jserr.New(jserr.MessageSchedulesSourceInvalid)
	case !anyReaches(s.cfg.Subjects, target):
		return jserr.New(jserr.MessageSchedulesTargetInvalid)
	case len(source) > 0 && !anyReaches(s.cfg.Subjects, source):
		return jserr.New(jserr.MessageSchedulesSourceInvalid)
	case len(h.rollup) == 0:
		c.header = appendField(slices.Clone(c.header), "Nats-Rollup", "sub")
		h.rollup = []byte("sub")
	case parseRollup(h.rollup) != rollupSubject:
		return jserr.New(jserr.MessageSchedulesRollupInvalid)
	}
	return nil
}

// checkScheduler decides on a message that is to end a schedule. is tells whether there is one on that subject.
func (s *State) checkScheduler(c *candidate, is bool) *jserr.Error {
	h := c.headers
	switch {
	case string(h.scheduleNext) != purgeSchedule, bytes.Equal(h.scheduler, c.text), !subject.ValidPublish(h.scheduler):
		return jserr.New(jserr.MessageSchedulesSchedulerInvalid)
	case !s.cfg.AllowMsgSchedules:
		return jserr.New(jserr.MessageSchedulesDisabled)
	case !is:
		return jserr.New(jserr.MessageSchedulesSchedulerInvalid)
	}
	return nil
}

// isSchedule reports whether the last message of a subject, if there is one, is a schedule.
func (s *State) isSchedule(text []byte) bool {
	id := s.names.find(text)
	if id == 0 {
		return true
	}
	row := s.names.row(id)
	if s.flight.holds(row.flight) {
		return s.flight.at(row.flight - 1).schedule
	}
	p := s.plans.bySubject[string(text)]
	return row.count == 0 || p != nil && p.seq == row.last
}

// Firing is a schedule whose time has come.
type Firing struct {
	Seq     uint64 // of the message with the schedule
	Subject string
	At      int64 // when it was to fire, ns UTC
}

// NextFiring is when the next schedule fires; zero when none does.
func (s *State) NextFiring() time.Time {
	if len(s.plans.next) == 0 || !s.firesSchedules() {
		return time.Time{}
	}
	return time.Unix(0, s.plans.next[0].at)
}

func (s *State) firesSchedules() bool { return s.cfg.AllowMsgSchedules && !s.cfg.Sealed }

// Fire takes the next schedule that is due. It fires no more until what it published is visible, or Refire.
func (s *State) Fire(now time.Time) (f Firing, ok bool) {
	if at := s.NextFiring(); at.IsZero() || now.Before(at) {
		return f, false
	}
	p := heap.Pop(&s.plans.next).(*schedule)
	return Firing{p.seq, p.subject, p.at}, true
}

// Refire has a schedule fire again, whose message could not be read.
func (s *State) Refire(f Firing, at time.Time) {
	if p := s.plans.bySeq[f.Seq]; p != nil && p.index < 0 {
		s.plans.move(p, at.UnixNano())
	}
}

// ScheduleSource is the subject whose last message the schedule in a header publishes; empty: its own message.
func ScheduleSource(header []byte) []byte { return parseHeaders(header).scheduleSource }

// AcceptFiring accepts what a schedule publishes. plan is the header of the schedule's message; header and size are of
// the message to publish: the same, or the last of its source. It must be stored with the header in the result. A
// schedule that cannot fire is given up, and ok is false.
func (s *State) AcceptFiring(f Firing, plan, header []byte, size int, now time.Time) (a Accepted, ok bool) {
	p := s.plans.bySeq[f.Seq]
	if p == nil {
		return a, false
	}
	h := parseHeaders(plan)
	next, repeats, err := nextFiring(h.schedule, h.scheduleZone, f.At, now.UnixNano())
	ttl, validTTL := parseTTL(h.scheduleTTL)
	if err != nil || next.IsZero() || !validTTL || len(h.scheduleTarget) == 0 || len(h.scheduleTarget) > maxSubjectBytes {
		s.plans.drop(p)
		return a, false
	}
	b := []byte("NATS/1.0\r\n\r\n")
	if len(header) > 0 {
		b = appendWithout(nil, header, "Nats-Schedule*", "Nats-Expected-*", "Nats-Msg-Id", "Nats-TTL", "Nats-Rollup")
	}
	b = appendField(b, "Nats-Scheduler", f.Subject)
	if repeats {
		b = appendField(b, "Nats-Schedule-Next", next.Format(time.RFC3339Nano))
	} else {
		b = appendField(b, "Nats-Schedule-Next", purgeSchedule)
	}
	if len(h.scheduleTTL) > 0 {
		b = appendField(b, "Nats-TTL", string(h.scheduleTTL))
	}
	fl := flying{ttl: ttl, scheduling: true, marker: false}
	if len(h.scheduleRollup) > 0 {
		b = appendField(b, "Nats-Rollup", string(h.scheduleRollup))
		fl.rollup = parseRollup(h.scheduleRollup)
	}
	b = s.leastTTL(b, &fl)
	fl.size = s.accounted(len(h.scheduleTarget), len(b), size)
	parsed := parseHeaders(b)
	fl.marker = parsed.isMarker()
	a = s.admit(s.transformed(h.scheduleTarget), fl, nil, max(now.UnixNano(), s.nextTime))
	a.Header = b
	return a, true
}
