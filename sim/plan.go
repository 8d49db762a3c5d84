package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/compact"
	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/store/fault"
	"github.com/sluicemq/sluice/internal/wal"
)

// plan is what a seed makes of a run, apart from the steps themselves.
type plan struct {
	steps    int
	pause    time.Duration // the most between two steps
	latency  time.Duration // the most of the store, one way
	rules    []fault.Rule
	wal      wal.Options
	engine   engine.Options
	segments bool // streams have some
	streams  []*streamPlan
	// violence is how often, in a thousand steps, something happens to the process.
	violence int
	outages  int // the same for the store going away
}

// streamPlan is one stream of a run, and what is done with it.
type streamPlan struct {
	spec      Spec
	cfg       api.StreamConfig
	consumers []api.ConsumerConfig
	subjects  int // how many
	ids       bool
	expects   bool // expected last sequences, of the stream or of the subject
	rollups   bool
	deletes   bool // and purges
	updates   bool // of max_msgs
}

// pick gives one of several values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func newPlan(r *rand.Rand) *plan {
	p := &plan{
		steps:    80 + r.IntN(120),
		pause:    pick(r, 5*time.Millisecond, 50*time.Millisecond, 500*time.Millisecond),
		latency:  pick(r, time.Millisecond, 20*time.Millisecond, 200*time.Millisecond),
		violence: pick(r, 10, 30, 80),
		outages:  pick(r, 0, 5, 20),
	}
	if r.IntN(20) == 0 {
		p.steps *= 10
	}
	p.wal = wal.Options{
		Rate: pick(r, 0.0, 0, 10), Burst: pick(r, 0, 5), MaxBatchBytes: pick(r, 0, 0, 2000), MaxInFlight: pick(r, 0, 1, 2, 8, 16),
		MaxPendingBytes: pick(r, int64(0), 0, 10_000), LazyWindow: pick(r, 0, 50*time.Millisecond), ResolveTimeout: -1,
	}
	p.engine = engine.Options{
		TailBytes: pick(r, 0, 1, 4<<10, 32<<10), FetchBytes: pick(r, 0, 1, 8<<10), TrimBytes: pick(r, 1, 4<<10, 64<<10),
		ProgressWindow: pick(r, 0, 20*time.Millisecond, 2*time.Second),
	}
	if p.segments = r.IntN(4) > 0; p.segments {
		p.engine.History = drawHistory(r)
	}
	p.rules = drawRules(r)
	p.streams = drawStreams(r)
	return p
}

// drawHistory gives small segments, which are made and rewritten often.
func drawHistory(r *rand.Rand) engine.History {
	return engine.History{
		CompactBytes: pick(r, 1, 1<<10, 8<<10), SegmentBytes: pick(r, 1, 4<<10, 64<<10), ReplayBytes: pick(r, 1, 4<<10, 64<<10),
		Grace: pick(r, time.Millisecond, 10*time.Second, 5*time.Minute), DeletedFor: pick(r, time.Millisecond, time.Minute),
		Compact:    compact.Options{TargetBytes: pick(r, int64(64<<10), 256<<10), Fanout: pick(r, 2, 3, 8)},
		BlockBytes: pick(r, 1, 64<<10), DirectoryBytes: pick(r, 1, 1<<10, 1<<20),
	}
}

// drawRules gives the faults of a run: between none and many.
func drawRules(r *rand.Rand) (rules []fault.Rule) {
	harm := pick(r, 0, 0.3, 1, 3)
	add := func(op fault.Operation, key string, kind fault.Kind, p float64, after time.Duration) {
		if p *= harm; p > 0 && r.IntN(4) > 0 {
			rules = append(rules, fault.Rule{Operation: op, Key: key, Kind: kind, Probability: p, After: after})
		}
	}
	later := func() time.Duration {
		return time.Duration(1 + r.Int64N(int64(pick(r, time.Second, 20*time.Second, time.Minute))))
	}
	add(fault.Create, "wal/*", fault.Lost, 0.05, 0)
	add(fault.Create, "wal/*", fault.Delayed, 0.04, later())
	add(fault.Create, "wal/*", fault.Duplicate, 0.05, later())
	add(fault.Create, "*", fault.OwnRetry, 0.05, 0)
	add(fault.Create, "wal/*", fault.Conflict, 0.03, 0)
	add(fault.Any, "*", fault.Throttled, 0.04, 0)
	add(fault.Any, "*", fault.Timeout, 0.03, 0)
	add(fault.Put, "*", fault.Full, 0.01, 0)
	add(fault.Create, "wal/*", fault.Slow, 0.1, later()/4+1)
	add(fault.Replace, "heads/*", fault.Lost, 0.05, 0)
	add(fault.Replace, "heads/*", fault.Delayed, 0.03, later())
	add(fault.Replace, "heads/*", fault.OwnRetry, 0.03, 0)
	add(fault.Replace, "heads/*", fault.Duplicate, 0.03, later())
	add(fault.Create, "streams/*", fault.Lost, 0.05, 0)
	add(fault.Create, "streams/*", fault.Delayed, 0.05, later())
	add(fault.Create, "streams/*", fault.Duplicate, 0.05, later())
	add(fault.Replace, "streams/*", fault.Lost, 0.05, 0)
	add(fault.Replace, "streams/*", fault.Delayed, 0.05, later())
	add(fault.Replace, "streams/*", fault.OwnRetry, 0.05, 0)
	add(fault.Replace, "streams/*", fault.Duplicate, 0.05, later())
	add(fault.Get, "*", fault.Torn, 0.02, 0)
	add(fault.Get, "*", fault.Broken, 0.02, 0)
	add(fault.Get, "wal/*", fault.Slow, 0.05, later()/4+1)
	add(fault.Delete, "*", fault.Lost, 0.1, 0)
	add(fault.Delete, "*", fault.Delayed, 0.1, later())
	add(fault.Delete, "*", fault.Duplicate, 0.1, later())
	return rules
}

// away is a store that answers nothing.
func away(r *rand.Rand) []fault.Rule {
	return []fault.Rule{{Operation: fault.Any, Key: "*", Kind: pick(r, fault.Timeout, fault.Throttled)}}
}

// drawStreams gives the streams of a run. Each has its rules of what may be missing at the end; see Spec.
func drawStreams(r *rand.Rand) []*streamPlan {
	explicit := func(name string) api.ConsumerConfig {
		return api.ConsumerConfig{Durable: name, AckPolicy: api.AckExplicit, AckWait: pick(r, time.Second, 5*time.Second), MaxAckPending: pick(r, 0, 5, 100)}
	}
	all := api.ConsumerConfig{Durable: "all", AckPolicy: api.AckAll, AckWait: 5 * time.Second}
	none := api.ConsumerConfig{Durable: "none", AckPolicy: api.AckNone}
	push := explicit("push")
	push.DeliverSubject = "deliver.push"
	most := explicit("most")
	most.MaxDeliver = 2
	one := explicit("one")
	one.FilterSubject = "log.0"

	streams := []*streamPlan{
		{spec: Spec{Name: "log"}, subjects: 3, ids: true, expects: true, deletes: r.IntN(2) == 0,
			consumers: []api.ConsumerConfig{explicit("pull"), all, none, push, most, one}},
		{spec: Spec{Name: "wq", Retention: WorkQueue}, subjects: 2, ids: true, consumers: []api.ConsumerConfig{explicit("pull")}},
		{spec: Spec{Name: "kv", PerSubject: uint64(1 + r.IntN(3))}, subjects: 4, expects: true, rollups: true,
			consumers: []api.ConsumerConfig{explicit("pull")}},
	}
	more := []*streamPlan{
		{spec: Spec{Name: "interest", Retention: Interest}, subjects: 2, consumers: []api.ConsumerConfig{explicit("pull"), explicit("other")}},
		{spec: Spec{Name: "most", MaxMsgs: uint64(1 + r.IntN(30))}, subjects: 2, ids: true, updates: r.IntN(2) == 0, consumers: []api.ConsumerConfig{explicit("pull")}},
		{spec: Spec{Name: "full", MaxMsgs: uint64(5 + r.IntN(30)), DiscardNew: true}, subjects: 1, deletes: true},
		{spec: Spec{Name: "aged", MaxAge: time.Duration(1+r.IntN(30)) * time.Second}, subjects: 2, consumers: []api.ConsumerConfig{explicit("pull")}},
		{spec: Spec{Name: "bytes", KeepsAtLeast: 2}, subjects: 1},
		{spec: Spec{Name: "async", Durability: Async}, subjects: 2, ids: true, consumers: []api.ConsumerConfig{explicit("pull")}},
		{spec: Spec{Name: "memory", Durability: Volatile}, subjects: 2, consumers: []api.ConsumerConfig{explicit("pull")}},
		{spec: Spec{Name: "come"}, subjects: 2, ids: true, consumers: []api.ConsumerConfig{explicit("pull")}},
	}
	for _, s := range more {
		if r.IntN(2) == 0 {
			streams = append(streams, s)
		}
	}
	for _, s := range streams {
		s.complete(r)
	}
	return streams
}

// complete derives the configurations from the spec and the other way round.
func (s *streamPlan) complete(r *rand.Rand) {
	name := s.spec.Name
	s.cfg = api.StreamConfig{
		Name: name, Subjects: []string{name + ".>"}, Storage: api.FileStorage, Retention: api.LimitsPolicy,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPer: -1, MaxConsumers: -1, MaxMsgSize: -1, Replicas: 1,
		Duplicates: window, RollupAllowed: s.rollups, AllowDirect: r.IntN(2) == 0, MaxAge: s.spec.MaxAge,
	}
	if !s.ids {
		s.cfg.Duplicates = pick(r, time.Second, time.Minute)
	}
	if s.spec.MaxAge > 0 {
		s.cfg.Duplicates = min(s.cfg.Duplicates, s.spec.MaxAge)
	}
	if s.spec.Retention == WorkQueue {
		s.cfg.Retention = api.WorkQueuePolicy
	} else if s.spec.Retention == Interest {
		s.cfg.Retention = api.InterestPolicy
	}
	if n := s.spec.MaxMsgs; n > 0 {
		s.cfg.MaxMsgs = int64(n)
	}
	if n := s.spec.PerSubject; n > 0 {
		s.cfg.MaxMsgsPer = int64(n)
	}
	if s.spec.KeepsAtLeast > 0 {
		s.cfg.MaxBytes = 10_000 // three of the largest messages
	}
	if s.spec.DiscardNew {
		s.cfg.Discard = api.DiscardNew
	}
	switch s.spec.Durability {
	case Async:
		s.cfg.PersistMode = api.AsyncPersistMode
	case Volatile:
		s.cfg.Storage = api.MemoryStorage
	}
	for _, c := range s.consumers {
		spec := ConsumerSpec{Name: c.Durable, MaxDeliver: c.MaxDeliver > 0, Filter: c.FilterSubject}
		switch c.AckPolicy {
		case api.AckAll:
			spec.Acks = AckAll
		case api.AckNone:
			spec.Acks = AckNone
		}
		s.spec.Consumers = append(s.spec.Consumers, spec)
	}
}

// window of message ids: longer than a run.
const window = 24 * time.Hour

func (s *streamPlan) subject(r *rand.Rand) string {
	return fmt.Sprintf("%s.%d", s.spec.Name, r.IntN(s.subjects))
}
