package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/mem"
	"github.com/sluicemq/sluice/internal/store/storetest"
)

// open gives a store with faults and the one below it.
func open(t *testing.T, rules string, change ...func(*Options)) (*Store, *mem.Store) {
	t.Helper()
	below, err := mem.New(mem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Rules: MustParse(rules), Seed: 1}
	for _, f := range change {
		f(&opts)
	}
	s, err := New(below, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, below
}

func content(t *testing.T, s store.Store, key string) string {
	t.Helper()
	obj, err := s.Get(t.Context(), key)
	if errors.Is(err, store.ErrNotFound) {
		return "-"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(obj.Data)
}

func TestAcceptanceWithoutRules(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { s, _ := open(t, ""); return s })
}

// Races go well with faults too, where callers do what they have to do.
func TestCompareAndSwapUnderFaults(t *testing.T) {
	s, below := open(t, `
		replace * lost       p=0.1
		replace * own-retry  p=0.1
		replace * conflict   p=0.1
		replace * throttled  p=0.1
		replace * timeout    p=0.1
	`)
	if _, err := below.Put(t.Context(), "k", []byte("start"), store.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range 30 {
				if err := storetest.AppendMark(t.Context(), s, "k", fmt.Sprintf(",%d-%d", w, n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if marks := bytes.Count([]byte(content(t, below, "k")), []byte(",")); marks != 120 {
		t.Errorf("%d marks, want 120", marks)
	}
	for _, kind := range []Kind{Lost, OwnRetry, Conflict, Throttled, Timeout} {
		if s.Count(kind) == 0 {
			t.Errorf("no fault of kind %v", kind)
		}
	}
}

// TestWrites gives one write to an empty or taken key, then lets land what is pending.
func TestWrites(t *testing.T) {
	create := func(s store.Store) error {
		_, err := s.Put(context.Background(), "k", []byte("new"), store.IfAbsent())
		return err
	}
	overwrite := func(s store.Store) error {
		_, err := s.Put(context.Background(), "k", []byte("new"), store.Always())
		return err
	}
	replace := func(s store.Store) error {
		_, err := s.Put(context.Background(), "k", []byte("new"), store.IfMatch("m1"))
		return err
	}
	remove := func(s store.Store) error { return s.Delete(context.Background(), "other", "k") }
	const none = "-"
	for _, tt := range []struct {
		rule   string
		before string // m1 is its version
		write  func(store.Store) error
		err    error
		then   string
		landed string
	}{
		{"create * lost", none, create, store.ErrUnknownOutcome, "new", "new"},
		{"create * lost", "old", create, store.ErrUnknownOutcome, "old", "old"},
		{"put * lost", "old", replace, store.ErrUnknownOutcome, "new", "new"},
		{"delete k lost", "old", remove, store.ErrUnknownOutcome, none, none},
		{"create * delayed", none, create, store.ErrUnknownOutcome, none, "new"},
		{"create * delayed", "old", create, store.ErrUnknownOutcome, "old", "old"},
		{"replace * delayed", "old", replace, store.ErrUnknownOutcome, "old", "new"},
		{"write * delayed", "old", overwrite, store.ErrUnknownOutcome, "old", "new"},
		{"write * delayed", "old", remove, store.ErrUnknownOutcome, "old", none},
		{"create * duplicate", none, create, nil, "new", "new"},
		{"create * duplicate", "old", create, store.ErrPrecondition, "old", "old"},
		{"replace * duplicate", "old", replace, nil, "new", "new"},
		{"create * own-retry", none, create, store.ErrPrecondition, "new", "new"},
		{"replace * own-retry", "old", replace, store.ErrPrecondition, "new", "new"},
		{"overwrite * own-retry", "old", overwrite, nil, "new", "new"},
		{"create * conflict", none, create, store.ErrUnknownOutcome, none, none},
		{"* * throttled", none, create, store.ErrThrottled, none, none},
		{"* * throttled", "old", remove, store.ErrThrottled, "old", "old"},
		{"* * timeout", none, create, store.ErrUnknownOutcome, none, none},
		{"* * timeout", none, create, os.ErrDeadlineExceeded, none, none},
		{"* * full", none, create, store.ErrFull, none, none},
		{"create * lost", "old", replace, nil, "new", "new"},
		{"put x* lost", "old", replace, nil, "new", "new"},
		{"get * torn", none, create, nil, "new", "new"},
	} {
		t.Run(tt.rule+" on "+tt.before, func(t *testing.T) {
			s, below := open(t, tt.rule)
			if tt.before != none {
				if _, err := below.Put(t.Context(), "k", []byte(tt.before), store.Always()); err != nil {
					t.Fatal(err)
				}
			}
			if err := tt.write(s); !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if got := content(t, below, "k"); got != tt.then {
				t.Errorf("then the key holds %q, want %q", got, tt.then)
			}
			if err := s.Drain(t.Context()); err != nil {
				t.Errorf("Drain: %v", err)
			}
			if got := content(t, below, "k"); got != tt.landed {
				t.Errorf("once it has landed the key holds %q, want %q", got, tt.landed)
			}
			if len(s.Pending()) != 0 {
				t.Errorf("still pending: %v", s.Pending())
			}
		})
	}
}

// A late create lands only on a free key, a late replacement only on its version, a late overwrite on anything.
func TestLandingHeedsCondition(t *testing.T) {
	s, below := open(t, "put * delayed")
	ctx := t.Context()
	land := func(want error) {
		t.Helper()
		pending := s.Pending()
		if len(pending) != 1 {
			t.Fatalf("%d writes are pending, want 1", len(pending))
		}
		if _, err := pending[0].Land(ctx); !errors.Is(err, want) {
			t.Errorf("landing of a %v: %v, want %v", pending[0].Cond, err, want)
		}
		if _, err := pending[0].Land(ctx); !errors.Is(err, ErrInjected) {
			t.Errorf("second landing: %v, want that it is refused", err)
		}
	}
	delay := func(data string, cond store.Condition) {
		buf := []byte(data)
		if _, err := s.Put(ctx, "k", buf, cond); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Fatal(err)
		}
		clear(buf) // Put does not keep the data
	}
	put := func(data string) string {
		etag, err := below.Put(ctx, "k", []byte(data), store.Always())
		if err != nil {
			t.Fatal(err)
		}
		return etag
	}
	check := func(want string) {
		t.Helper()
		if got := content(t, below, "k"); got != want {
			t.Errorf("the key holds %q, want %q", got, want)
		}
	}

	delay("late create", store.IfAbsent())
	etag := put("taken")
	land(store.ErrPrecondition)
	check("taken")

	delay("late replacement", store.IfMatch(etag))
	land(nil)
	check("late replacement")

	delay("later replacement", store.IfMatch(etag))
	land(store.ErrPrecondition)
	check("late replacement")

	delay("late overwrite", store.Always())
	put("newer")
	land(nil)
	check("late overwrite")

	delay("late create", store.IfAbsent())
	if err := below.Delete(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	land(nil)
	check("late create")
}

func TestLandingByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, below := open(t, `
			create a delayed after=10s
			create b duplicate after=20s
			create never delayed after=1h
			create c slow after=5s
		`)
		ctx := t.Context()
		for _, key := range []string{"a", "b", "never"} {
			_, _ = s.Put(ctx, key, []byte(key), store.IfAbsent())
		}
		if err := below.Delete(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := s.Put(ctx, "c", nil, store.IfAbsent()); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("a slow Put took %v, %v", time.Since(began), err)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if a, b := content(t, below, "a"), content(t, below, "b"); a != "-" || b != "-" {
			t.Errorf("after 9 s a holds %q, b %q", a, b)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if a, b := content(t, below, "a"), content(t, below, "b"); a != "a" || b != "-" {
			t.Errorf("after 11 s a holds %q, b %q", a, b)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if b := content(t, below, "b"); b != "b" {
			t.Errorf("after 21 s b holds %q", b)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Put(short, "c", nil, store.IfAbsent()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a slow Put with too little time: %v", err)
		}
		// Close drops the last one; the bubble would complain of a goroutine that is left over.
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour)
		if got := content(t, below, "never"); got != "-" {
			t.Errorf("after Close a write landed: %q", got)
		}
		if _, err := s.Put(ctx, "never", nil, store.IfAbsent()); !errors.Is(err, store.ErrUnknownOutcome) || len(s.Pending()) != 0 {
			t.Errorf("Put after Close: %v, pending %v", err, s.Pending())
		}
	})
}

func TestReads(t *testing.T) {
	s, below := open(t, "")
	data := storetest.Pattern(1, 1000)
	if _, err := below.Put(t.Context(), "k", data, store.Always()); err != nil {
		t.Fatal(err)
	}
	get := func() ([]byte, error) { obj, err := s.Get(t.Context(), "k"); return obj.Data, err }
	getRange := func() ([]byte, error) { return s.GetRange(t.Context(), "k", 0, 1000) }
	for name, read := range map[string]func() ([]byte, error){"get": get, "get range": getRange} {
		for rule, want := range map[string]error{
			"get * torn": nil, "get k broken": io.ErrUnexpectedEOF, "get * timeout": os.ErrDeadlineExceeded,
			"* * throttled": store.ErrThrottled,
		} {
			if err := s.SetRules(MustParse(rule)); err != nil {
				t.Fatal(err)
			}
			got, err := read()
			if !errors.Is(err, want) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("%s, %s: %v, want %v", name, rule, err, want)
			}
			if len(got) >= len(data) || !bytes.HasPrefix(data, got) {
				t.Errorf("%s, %s: %d bytes, want fewer than %d", name, rule, len(got), len(data))
			}
		}
	}
	if err := s.SetRules(MustParse("list k* timeout")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), store.ListOptions{Prefix: "k"}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("List: %v", err)
	}
	if _, err := s.List(t.Context(), store.ListOptions{Prefix: "other"}); err != nil {
		t.Errorf("List of another prefix: %v", err)
	}
}

func TestSkipAndTimes(t *testing.T) {
	var events []Event
	s, _ := open(t, `
		put a* throttled skip=2 times=3
		put *  full      skip=6 times=1
	`, func(o *Options) { o.OnFault = func(e Event) { events = append(events, e) } })
	var got []string
	for range 10 {
		_, err := s.Put(t.Context(), "ab", nil, store.Always())
		switch {
		case errors.Is(err, store.ErrThrottled):
			got = append(got, "throttled")
		case errors.Is(err, store.ErrFull):
			got = append(got, "full")
		default:
			got = append(got, "ok")
		}
	}
	// The second rule sees only what the first lets pass.
	want := []string{"ok", "ok", "throttled", "throttled", "throttled", "ok", "ok", "ok", "ok", "full"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if s.Count(Throttled) != 3 || s.Count(Full) != 1 || len(events) != 4 || events[3] != (Event{Full, Overwrite, "ab"}) {
		t.Errorf("counts %d, %d, events %v", s.Count(Throttled), s.Count(Full), events)
	}
}

// The fate of a request depends on the seed and the key, not on which goroutine comes first.
func TestSeed(t *testing.T) {
	const keys, requests = 40, 5
	run := func(seed uint64, parallel bool) map[string]string {
		s, _ := open(t, "put * throttled p=0.5", func(o *Options) { o.Seed = seed })
		fates := make([]string, keys)
		var wg sync.WaitGroup
		for k := range keys {
			ask := func() {
				for range requests {
					_, err := s.Put(t.Context(), fmt.Sprint(k), nil, store.Always())
					fates[k] += map[bool]string{true: ".", false: "x"}[err == nil]
				}
			}
			if parallel {
				wg.Go(ask)
			} else {
				ask()
			}
		}
		wg.Wait()
		result := make(map[string]string)
		for k, fate := range fates {
			result[fmt.Sprint(k)] = fate
		}
		return result
	}
	serial := run(7, false)
	if parallel := run(7, true); !maps.Equal(serial, parallel) {
		t.Errorf("one seed, two outcomes:\n%v\n%v", serial, parallel)
	}
	if other := run(8, false); maps.Equal(serial, other) {
		t.Errorf("two seeds, one outcome: %v", serial)
	}
	failed := 0
	for _, fate := range serial {
		failed += bytes.Count([]byte(fate), []byte("x"))
	}
	if failed < keys*requests/3 || failed > keys*requests*2/3 {
		t.Errorf("%d of %d requests failed, want about half", failed, keys*requests)
	}
}

func TestMaxPending(t *testing.T) {
	s, below := open(t, "put * delayed", func(o *Options) { o.MaxPending = 2 })
	for i := range 4 {
		_, _ = s.Put(t.Context(), fmt.Sprint(i), []byte("x"), store.Always())
	}
	if n := len(s.Pending()); n != 2 {
		t.Errorf("%d writes are pending, want 2", n)
	}
	if content(t, below, "2") != "x" || content(t, below, "1") != "-" {
		t.Error("beyond the bound a write did not pass unharmed")
	}
}
