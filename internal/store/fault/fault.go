// Package fault decorates a store with the faults that real ones have: answers that are lost, writes that land late or
// twice, throttling, torn reads and so on. Which requests they befall is said by rules (see Rule), and reproducible from
// a seed: with a probability, the fate of the n-th request for a key depends on the seed, the rule, the key and n, so
// not on how goroutines interleave.
//
// It waits by the standard clock and leaves no goroutine behind, so it works in a testing/synctest bubble.
package fault

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

// ErrInjected is wrapped by every error that this package makes up, beside the error that a store would give.
var ErrInjected = errors.New("injected fault")

// DefaultMaxPending bounds the writes that have yet to land, when the options name no bound.
const DefaultMaxPending = 1024

// Options of a Store.
type Options struct {
	// Rules apply in order: the first one that wants a request gets it.
	Rules []Rule
	Seed  uint64
	// MaxPending bounds the writes that have yet to land, each of which holds its data. Beyond it, a request that a
	// delayed or duplicate fault would befall passes unharmed. 0 means DefaultMaxPending.
	MaxPending int
	// OnFault, if set, is told of every fault before it happens, by the goroutine of the request.
	OnFault func(Event)
}

// Event is one fault.
type Event struct {
	Kind      Kind
	Operation Operation // one, not a set
	Key       string    // of a deletion the first, of a listing the prefix
}

// Store is a store.Store with faults.
type Store struct {
	next       store.Store
	seed       uint64
	maxPending int
	onFault    func(Event)

	ctx      context.Context // ends with Close; for landings, which outlive the request that they come from
	cancel   context.CancelFunc
	landings sync.WaitGroup

	// mu guards the following. No call of next happens under it.
	mu      sync.Mutex
	rules   []*activeRule
	counts  [kindEnd]int
	pending []*Landing
	closed  bool
}

var _ store.Store = (*Store)(nil)

type activeRule struct {
	Rule
	number  int
	matched int
	faults  int
	// requests counts the requests for each key, kept only where there is a probability. It grows with the keys that a
	// test uses.
	requests map[string]uint64
}

// New decorates next. Close ends what is still to land.
func New(next store.Store, opts Options) (*Store, error) {
	if opts.MaxPending == 0 {
		opts.MaxPending = DefaultMaxPending
	}
	if opts.MaxPending < 0 {
		return nil, fmt.Errorf("fault: MaxPending is %d, want 0 or more", opts.MaxPending)
	}
	s := &Store{next: next, seed: opts.Seed, maxPending: opts.MaxPending, onFault: opts.OnFault}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.SetRules(opts.Rules); err != nil {
		return nil, err
	}
	return s, nil
}

// SetRules replaces all rules and begins their counts anew; none lets everything pass. What is pending stays.
func (s *Store) SetRules(rules []Rule) error {
	var faults []error
	active := make([]*activeRule, len(rules))
	for i, rule := range rules {
		if err := rule.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("rule %d (%v): %w", i, rule, err))
		}
		active[i] = &activeRule{Rule: rule, number: i, requests: make(map[string]uint64)}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = active
	return nil
}

// Count gives the number of faults of a kind so far.
func (s *Store) Count(kind Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[kind]
}

// verdict is the fault that befalls a request; the zero value is none.
type verdict struct {
	Rule
	random uint64 // for what the fault has to choose
}

// judge decides about a request.
func (s *Store) judge(op Operation, keys ...string) verdict {
	s.mu.Lock()
	var found verdict
	for _, rule := range s.rules {
		if found = s.apply(rule, op, keys); found.Kind != 0 {
			s.counts[found.Kind]++
			break
		}
	}
	s.mu.Unlock()
	if found.Kind != 0 && s.onFault != nil {
		event := Event{Kind: found.Kind, Operation: op}
		if len(keys) > 0 {
			event.Key = keys[0]
		}
		s.onFault(event)
	}
	return found
}

// apply asks one rule. The caller holds mu.
func (s *Store) apply(rule *activeRule, op Operation, keys []string) verdict {
	i := slices.IndexFunc(keys, func(key string) bool { return match(rule.Key, key) })
	if op&rule.Operation&rule.Kind.possible() == 0 || i < 0 {
		return verdict{}
	}
	rule.matched++
	if rule.matched <= rule.Skip || rule.Times > 0 && rule.faults >= rule.Times {
		return verdict{}
	}
	if (rule.Kind == Delayed || rule.Kind == Duplicate) && len(s.pending) >= s.maxPending {
		return verdict{}
	}
	n := uint64(rule.matched)
	if rule.Probability > 0 {
		n = rule.requests[keys[i]]
		rule.requests[keys[i]] = n + 1
	}
	random := s.random(rule.number, op, keys[i], n)
	if rule.Probability > 0 && float64(random>>11)/(1<<53) >= rule.Probability {
		return verdict{}
	}
	rule.faults++
	return verdict{Rule: rule.Rule, random: mix(random)}
}

// random gives the same number for the same request of the same seed, in every run.
func (s *Store) random(rule int, op Operation, key string, n uint64) uint64 {
	h := fnv.New64a()
	var head [25]byte
	binary.LittleEndian.PutUint64(head[0:], s.seed)
	binary.LittleEndian.PutUint64(head[8:], uint64(rule))
	binary.LittleEndian.PutUint64(head[16:], n)
	head[24] = byte(op)
	_, _ = h.Write(head[:])
	_, _ = io.WriteString(h, key)
	return mix(h.Sum64())
}

// mix spreads the bits of a hash (the finalizer of SplitMix64, https://prng.di.unimi.it/splitmix64.c).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// refuse gives the error of a fault by which nothing happens, nil for other kinds.
func (v verdict) refuse(write bool) error {
	switch v.Kind {
	case Conflict:
		return fmt.Errorf("%w: %w: 409", ErrInjected, store.ErrUnknownOutcome)
	case Throttled:
		return fmt.Errorf("%w: %w", ErrInjected, store.ErrThrottled)
	case Full:
		return fmt.Errorf("%w: %w", ErrInjected, store.ErrFull)
	case Timeout:
		if write {
			return fmt.Errorf("%w: %w: %w", ErrInjected, store.ErrUnknownOutcome, os.ErrDeadlineExceeded)
		}
		return fmt.Errorf("%w: %w", ErrInjected, os.ErrDeadlineExceeded)
	}
	return nil
}

// wait is the wait of a slow request.
func (v verdict) wait(ctx context.Context) error {
	if v.Kind != Slow {
		return nil
	}
	timer := time.NewTimer(v.After)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tear gives what a torn or broken read leaves of the data: less than all.
func (v verdict) tear(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return data, nil
	}
	switch v.Kind {
	case Torn:
		return data[:v.random%uint64(min(len(data), math.MaxInt32))], nil
	case Broken:
		return nil, fmt.Errorf("%w: %w", ErrInjected, io.ErrUnexpectedEOF)
	}
	return data, nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	v := s.judge(Get, key)
	if err := errors.Join(v.refuse(false), v.wait(ctx)); err != nil {
		return store.Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	obj, err := s.next.Get(ctx, key)
	if err != nil {
		return store.Object{}, err
	}
	if obj.Data, err = v.tear(obj.Data); err != nil {
		return store.Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	return obj, nil
}

// GetRange implements store.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	v := s.judge(Get, key)
	if err := errors.Join(v.refuse(false), v.wait(ctx)); err != nil {
		return nil, fmt.Errorf("get range of %s: %w", key, err)
	}
	data, err := s.next.GetRange(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	if data, err = v.tear(data); err != nil {
		return nil, fmt.Errorf("get range of %s: %w", key, err)
	}
	return data, nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	v := s.judge(List, opts.Prefix)
	if err := errors.Join(v.refuse(false), v.wait(ctx)); err != nil {
		return store.Page{}, fmt.Errorf("list %s: %w", opts.Prefix, err)
	}
	return s.next.List(ctx, opts)
}
