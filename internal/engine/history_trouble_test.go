package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/store"
)

// trouble is what befalls one request.
type trouble int

const (
	refused trouble = iota // nothing happens, and the answer says so
	unheard                // it happens, and the answer is lost; a read fails
	late                   // the answer is lost, and it happens a while later; a read fails
	twice                  // it happens, and once more a while later; a read is torn
	echoed                 // it happens, and is repeated by a layer below, which is refused because of that; a read is torn
	crashed                // it happens, and the process ends: it asks for nothing any more
	severed                // the process ends before it happens
)

var troubles = []trouble{refused, unheard, late, twice, echoed, crashed, severed}

func (k trouble) String() string {
	return [...]string{"refused", "unheard", "late", "twice", "echoed", "crashed", "severed"}[k]
}

// lateness is how late what is late happens: after the housekeeper's next rounds.
const lateness = 90 * time.Second

// troubled is a store one of whose requests goes wrong. It counts those of streams' objects, and deletions of anything.
type troubled struct {
	store.Store
	kind trouble

	mu      sync.Mutex // guards what follows
	armed   bool
	count   int
	at      int  // which request; 0: none
	cut     bool // the process reaches nothing any more
	struck  string
	landing sync.WaitGroup
}

var errCut = fmt.Errorf("no connection: %w", store.ErrUnknownOutcome)

// judge counts a request and tells whether it is the one.
func (s *troubled) judge(what, k string) (hit bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return false, errCut
	}
	if !s.armed || what != "delete" && !strings.HasPrefix(k, "streams/") {
		return false, nil
	}
	if s.count++; s.count != s.at {
		return false, nil
	}
	s.struck = what + " " + k
	s.cut = s.kind == crashed || s.kind == severed
	return true, nil
}

// write makes a write under the trouble.
func (s *troubled) write(what, k string, do func() (string, error)) (string, error) {
	hit, err := s.judge(what, k)
	if err != nil || !hit {
		if err != nil {
			return "", err
		}
		return do()
	}
	later := func() {
		s.landing.Go(func() {
			time.Sleep(lateness)
			do()
		})
	}
	switch s.kind {
	case refused:
		return "", store.ErrThrottled
	case unheard, crashed:
		do()
	case late:
		later()
	case twice:
		later()
		return do()
	case echoed:
		do()
		return do()
	}
	return "", fmt.Errorf("%s %s: %w", what, k, store.ErrUnknownOutcome)
}

// read makes a read under the trouble.
func (s *troubled) read(what, k string, do func() ([]byte, error)) ([]byte, error) {
	hit, err := s.judge(what, k)
	switch {
	case err != nil:
		return nil, err
	case !hit:
		return do()
	case s.kind == refused:
		return nil, store.ErrThrottled
	case s.kind == twice || s.kind == echoed:
		data, err := do()
		return data[:len(data)/2], err
	}
	return nil, fmt.Errorf("%s %s: %w", what, k, context.DeadlineExceeded)
}

// Put implements store.Store.
func (s *troubled) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	data = slices.Clone(data)
	return s.write("put", k, func() (string, error) { return s.Store.Put(context.WithoutCancel(ctx), k, data, cond) })
}

// Delete implements store.Store.
func (s *troubled) Delete(ctx context.Context, keys ...string) error {
	keys = slices.Clone(keys)
	_, err := s.write("delete", keys[0], func() (string, error) {
		return "", s.Store.Delete(context.WithoutCancel(ctx), keys...)
	})
	return err
}

// Get implements store.Store.
func (s *troubled) Get(ctx context.Context, k string) (store.Object, error) {
	var o store.Object
	data, err := s.read("get", k, func() (_ []byte, err error) {
		o, err = s.Store.Get(ctx, k)
		return o.Data, err
	})
	o.Data = data
	return o, err
}

// GetRange implements store.Store.
func (s *troubled) GetRange(ctx context.Context, k string, offset, length int64) ([]byte, error) {
	return s.read("get range", k, func() ([]byte, error) { return s.Store.GetRange(ctx, k, offset, length) })
}

// List implements store.Store.
func (s *troubled) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	var page store.Page
	_, err := s.read("list", opts.Prefix, func() (_ []byte, err error) {
		page, err = s.Store.List(ctx, opts)
		return nil, err
	})
	return page, err
}

// arm begins to count; at is the request that goes wrong.
func (s *troubled) arm(at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.count, s.at, s.struck = true, 0, at, ""
}

// heal ends all trouble; a process that comes now reaches the store.
func (s *troubled) heal() (count int, struck string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.cut = false, false
	return s.count, s.struck
}

func (s *troubled) isCut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

func troubledPayload(i int) string { return strings.Repeat(fmt.Sprint(i, "."), 30) }

// keepingHouse publishes, deletes, compacts, rewrites, collects, deletes a stream: everything a housekeeper does, a
// round after the other. It stops when the process is cut off.
func keepingHouse(t *testing.T, w *world, st *troubled) {
	try := func(f func(context.Context) error) {
		if !st.isCut() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := f(ctx); errors.Is(err, store.ErrPrecondition) {
				t.Errorf("a refusal got through: %v", err)
			}
		}
	}
	round := func() {
		for range 2 { // what failed is tried again
			try(w.engine.Trim)
			try(w.engine.Tidy)
			time.Sleep(5 * time.Second)
		}
	}
	publish := func(from, to int) {
		for i := from; i < to && !st.isCut(); i++ {
			w.client.publish(fmt.Sprintf("s.%d", i%4), troubledPayload(i))
			if i%10 == 0 {
				w.client.publish("gone.a", strings.Repeat("x", 500))
			}
			w.client.take()
		}
		time.Sleep(3 * time.Second) // the dedup window
	}
	publish(0, 40)
	round()
	publish(40, 80)
	try(func(ctx context.Context) error { return w.stream("S").DeleteMessage(ctx, 3) })
	try(func(ctx context.Context) error {
		_, err := w.stream("S").Purge(ctx, PurgeRequest{Subject: "s.1"})
		return err
	})
	round()
	time.Sleep(2 * time.Hour) // what is deleted is overdue
	try(func(ctx context.Context) error { return w.account.DeleteStream(ctx, "GONE") })
	round()
	publish(80, 90)
	time.Sleep(2 * time.Minute) // the grace period
	round()
	try(func(ctx context.Context) error {
		_, err := w.stream("S").Purge(ctx, PurgeRequest{Upto: 40})
		return err
	})
	round()
	time.Sleep(2 * time.Minute)
	round()
}

// Whichever request of the housekeeper goes wrong, and however, and whether or not the process dies of it: the stream
// is what it was, also after a start, compaction goes on, and no object stays that nothing refers to.
func TestTroubleWhileKeepingHouse(t *testing.T) {
	total := 0
	bubble(t, func(t *testing.T, w *world) { total, _ = troubledLife(t, w, refused, 0) })
	if total < 30 {
		t.Fatalf("%d requests", total)
	}
	for _, kind := range troubles {
		t.Run(kind.String(), func(t *testing.T) {
			for at := 1; at <= total; at++ {
				struck := ""
				bubble(t, func(t *testing.T, w *world) { _, struck = troubledLife(t, w, kind, at) })
				if t.Failed() {
					t.Fatalf("request %d of %d: %s", at, total, struck)
				}
			}
		})
	}
}

func troubledLife(t *testing.T, w *world, kind trouble, at int) (count int, struck string) {
	w.historic()
	w.opts.CompactBytes = 2 << 10
	st := &troubled{Store: w.store, kind: kind}
	w.store = st
	defer st.landing.Wait()
	w.start()
	cfg := fileStream
	cfg.Duplicates = time.Second
	w.create(cfg)
	gone := cfg
	gone.Name, gone.Subjects = "GONE", []string{"gone.>"}
	w.create(gone)
	st.arm(at)
	keepingHouse(t, w, st)
	live := lives(t, w.stream("S"))
	cut := st.isCut()
	count, struck = st.heal()
	if cut {
		w.crash()
		w.start()
		w.holds(t, "after the process ended", live)
	}
	time.Sleep(2 * lateness)
	if !cut { // a process that lives sees to what it left
		w.renewed(t)
		w.tended()
		w.nothingAstray(t, kind == late || kind == twice)
	}
	live = lives(t, w.stream("S"))
	w.holds(t, "in the end", live)
	w.crash()
	w.start()
	w.holds(t, "after the last start", live)
	w.renewed(t)
	w.tended()
	w.nothingAstray(t, false)
	if n := w.logged(); n > 6 {
		t.Errorf("the log has %d objects still", n)
	}
	return count, struck
}

// lives lists the sequences of a stream's messages.
func lives(t *testing.T, s *Stream) (seqs []uint64) {
	t.Helper()
	info, err := s.Info(api.JSApiStreamInfoRequest{DeletedDetails: true})
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
		if !slices.Contains(info.State.Deleted, seq) {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

// holds checks that the stream has the messages of these sequences and no others, each as it was published.
func (w *world) holds(t *testing.T, when string, seqs []uint64) {
	t.Helper()
	var got []uint64
	for _, line := range content(t, w.stream("S")) {
		var seq uint64
		if _, err := fmt.Sscan(line, &seq); err != nil {
			t.Fatal(err)
		}
		published := fmt.Sprintf("%d s.%d %s ", seq, (seq-1)%4, troubledPayload(int(seq-1)))
		if !strings.HasPrefix(line, published) && !strings.HasPrefix(line, fmt.Sprintf("%d s.0 more ", seq)) {
			t.Errorf("%s a message is %q", when, line)
		}
		got = append(got, seq)
	}
	if !slices.Equal(got, seqs) {
		t.Errorf("%s the stream has %v, want %v", when, got, seqs)
	}
}

// renewed publishes something, so that there is a manifest to be swapped.
func (w *world) renewed(t *testing.T) {
	t.Helper()
	w.client.take()
	w.client.publish("s.0", "more")
	if acks := w.client.acks(); len(acks) != 1 || acks[0].Seq == 0 {
		t.Errorf("a publish is answered %+v", acks)
	}
	if _, err := w.account.Stream("GONE"); err == nil {
		if err := w.account.DeleteStream(t.Context(), "GONE"); err != nil {
			t.Errorf("deleting a stream: %v", err)
		}
	}
	time.Sleep(3 * time.Second)
}

// tended lets the housekeeper do all there is to do. Its first round may find that the manifest is not what it was.
func (w *world) tended() {
	w.t.Helper()
	for round := range 4 {
		err := w.engine.Trim(w.t.Context())
		if err == nil {
			err = w.engine.Tidy(w.t.Context())
		}
		if err != nil && (round > 0 || !errors.Is(err, manifest.ErrChanged)) {
			w.t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
	}
}

// nothingAstray checks that each segment in the store is listed, and each that is listed is in the store.
func (w *world) nothingAstray(t *testing.T, lateOnesMayStay bool) {
	t.Helper()
	for _, k := range w.strays(t) {
		if !lateOnesMayStay {
			t.Errorf("nothing refers to %s", k)
		}
	}
}

// strays lists what nothing refers to: segments, and manifests of streams that were deleted. What is listed must be
// there.
func (w *world) strays(t *testing.T) (strays []string) {
	t.Helper()
	segments := w.keys(key.StreamSegment)
	listed := map[string]bool{}
	for _, k := range w.keys(key.Manifest) {
		p, err := key.Parse(k)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := w.account.Stream(p.Stream); err != nil || uint64(s.id) != p.ID {
			strays = append(strays, k)
			continue
		}
		v, err := manifest.LoadKey(t.Context(), w.store, k, p.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range v.Manifest.Segments {
			listed[v.Manifest.Key(s)] = true
			if !slices.Contains(segments, v.Manifest.Key(s)) {
				t.Errorf("%s is listed, and is not there", v.Manifest.Key(s))
			}
		}
		for _, d := range v.Manifest.Dropped {
			listed[v.Manifest.DroppedKey(d)] = true
		}
	}
	for _, k := range segments {
		if !listed[k] {
			strays = append(strays, k)
		}
	}
	return strays
}
