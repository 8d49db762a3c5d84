package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/subject"
)

// Broadcast is the block of that name: messages that reach the subscribers of all servers which share the store. It is
// Sluice's own. Durations and sizes of 0 are the defaults of package broadcast.
type Broadcast struct {
	Enabled bool // the block is there: without subjects the server only listens
	// Subjects are the broadcast subjects by account.
	Subjects                          map[string][]string
	Window, Poll, IdlePoll, Retention time.Duration
	MaxBatch, MaxPending              int64 // bytes
}

// Bounds of the settings, and the defaults that they are compared with.
const (
	minBroadcastWindow    = time.Millisecond
	minBroadcastPoll      = 10 * time.Millisecond
	minBroadcastBatch     = 64 << 10
	maxBroadcastBatch     = 64 << 20
	maxBroadcastPending   = 1 << 30
	defaultBroadcastPoll  = 250 * time.Millisecond
	defaultBroadcastIdle  = 2 * time.Second
	defaultBroadcastKept  = time.Hour
	defaultBroadcastBatch = 4 << 20
)

func (b *Broadcast) setDefaults() {
	if !b.Enabled {
		return
	}
	setDefault(&b.Window, 100*time.Millisecond)
	setDefault(&b.Poll, defaultBroadcastPoll)
	setDefault(&b.IdlePoll, max(defaultBroadcastIdle, b.Poll))
	setDefault(&b.Retention, defaultBroadcastKept)
	setDefault(&b.MaxBatch, defaultBroadcastBatch)
	setDefault(&b.MaxPending, max(32<<20, 2*b.MaxBatch))
}

func (b Broadcast) clone() Broadcast {
	b.Subjects = maps.Clone(b.Subjects)
	for name, subjects := range b.Subjects {
		b.Subjects[name] = slices.Clone(subjects)
	}
	return b
}

func (d *decoder) broadcast(v value, b *Broadcast) {
	b.Enabled = true
	subjects := func(name string) setter {
		return func(v value) {
			var all []string
			d.texts(&all)(v)
			if b.Subjects == nil {
				b.Subjects = map[string][]string{}
			}
			b.Subjects[name] = all
			if name != account.DefaultName {
				d.places["broadcast.accounts."+name] = v
			}
		}
	}
	s := settings{}
	s.add(subjects(account.DefaultName), "subjects")
	s.add(func(v value) {
		members, _ := d.members(v)
		for _, m := range members {
			switch {
			case m.variable:
			case m.key == account.DefaultName:
				d.fault(m.value, "those of the default account are in broadcast.subjects")
			default:
				subjects(m.key)(m.value)
			}
		}
	}, "accounts")
	s.add(d.durationAtLeast(&b.Window, minBroadcastWindow), "window")
	s.add(d.durationAtLeast(&b.Poll, minBroadcastPoll), "poll")
	s.add(d.durationAtLeast(&b.IdlePoll, minBroadcastPoll), "idle_poll")
	s.add(d.durationAtLeast(&b.Retention, time.Second), "retention")
	s.add(number(d, &b.MaxBatch, minBroadcastBatch, maxBroadcastBatch), "max_batch")
	s.add(number(d, &b.MaxPending, minBroadcastBatch, maxBroadcastPending), "max_pending")
	d.block(v, s)
}

func (v *validator) broadcast(o *Options) {
	b := &o.Broadcast
	if !b.Enabled {
		return
	}
	v.check(o.JetStream.Enabled, "broadcast", "needs jetstream: the broadcast logs lie in its store")
	v.check(b.Window >= minBroadcastWindow, "broadcast.window", "%v is too short; at least %v", b.Window, minBroadcastWindow)
	v.check(b.Poll >= minBroadcastPoll, "broadcast.poll", "%v is too short; at least %v", b.Poll, minBroadcastPoll)
	v.check(b.IdlePoll >= b.Poll, "broadcast.idle_poll", "%v is shorter than poll, %v", b.IdlePoll, b.Poll)
	v.check(b.Retention >= max(time.Second, 2*b.IdlePoll), "broadcast.retention", "%v must be at least 1s and twice idle_poll, %v", b.Retention, b.IdlePoll)
	v.check(b.MaxBatch >= minBroadcastBatch && b.MaxBatch <= maxBroadcastBatch, "broadcast.max_batch", "%d is out of the range %d to %d", b.MaxBatch, minBroadcastBatch, maxBroadcastBatch)
	v.check(b.MaxPending >= b.MaxBatch && b.MaxPending <= maxBroadcastPending, "broadcast.max_pending", "%d must be at least max_batch, %d, and at most %d", b.MaxPending, b.MaxBatch, maxBroadcastPending)
	for _, name := range slices.Sorted(maps.Keys(b.Subjects)) {
		setting := "broadcast.accounts." + name
		if name == account.DefaultName {
			setting = "broadcast.subjects"
		}
		known := name == account.DefaultName || slices.ContainsFunc(o.Auth.Accounts, func(a account.AccountSettings) bool { return a.Name == name })
		v.check(known, setting, "there is no account %q", name)
		v.check(name != o.Auth.SystemAccount, setting, "the system account has no broadcasts")
		for _, fault := range broadcastSubjectFaults(b.Subjects[name]) {
			v.check(false, setting, "%s", fault)
		}
	}
}

// broadcastSubjectFaults says what is wrong with the broadcast subjects of one account.
func broadcastSubjectFaults(subjects []string) (faults []string) {
	for i, s := range subjects {
		if !subject.Valid(s) {
			faults = append(faults, fmt.Sprintf("%q is no subject", s))
			continue
		}
		if first := subject.Token(s, 0); first == "*" || first == ">" || strings.HasPrefix(first, "$") || strings.HasPrefix(first, "_") {
			faults = append(faults, fmt.Sprintf("%q: the first token must be a word that does not begin with $ or _", s))
		}
		for _, other := range subjects[:i] {
			if subject.Valid(other) && subject.Overlap(s, other) {
				faults = append(faults, fmt.Sprintf("%q and %q overlap", other, s))
			}
		}
	}
	return faults
}
