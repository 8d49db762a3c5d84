package cache

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/mem"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// get is a GET that a world's store saw.
type get struct {
	key  string
	part Part
}

// world is a store that counts, over one in memory.
type world struct {
	t     *testing.T
	below *mem.Store
	next  Store // below, or something with faults over it

	mu     sync.Mutex // guards what follows
	gets   []get
	active int
	most   int // of active
}

func newWorld(t *testing.T) *world {
	t.Helper()
	below, err := mem.New(mem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, below: below, next: below}
}

func (w *world) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	w.mu.Lock()
	w.gets = append(w.gets, get{key, Part{offset, length}})
	w.active++
	w.most = max(w.most, w.active)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.active--
		w.mu.Unlock()
	}()
	return w.next.GetRange(ctx, key, offset, length)
}

// seen gives the GETs so far and forgets them.
func (w *world) seen() []get {
	w.mu.Lock()
	defer w.mu.Unlock()
	gets := w.gets
	w.gets = nil
	return gets
}

// noise is what objects are made of.
var noise = sync.OnceValue(func() []byte {
	data := make([]byte, mib)
	rand.NewChaCha8([32]byte{}).Read(data)
	return data
})

// object puts an object of so many bytes, in which no two ranges are equal, nor in two objects.
func (w *world) object(key string, size int64) []byte {
	w.t.Helper()
	data := make([]byte, size)
	rest := data
	for n := copy(rest, noise()[len(key):]); n < len(rest); n = copy(rest, noise()) {
		rest = rest[n:]
	}
	for i := 0; i+16 <= len(data); i += 2 * kib {
		binary.LittleEndian.PutUint64(data[i:], uint64(i))
		copy(data[i+8:i+16], key[max(0, len(key)-8):])
	}
	if _, err := w.below.Put(context.Background(), key, data, store.Always()); err != nil {
		w.t.Fatal(err)
	}
	return data
}

// cache makes a cache over the world that is checked and closed at the end of the test.
func (w *world) cache(opts Options) *Cache {
	w.t.Helper()
	c, err := New(w, opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			w.t.Error(err)
		}
		audit(w.t, c)
	})
	return c
}

// audit compares the books with what is there.
func audit(t *testing.T, c *Cache) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memory
	size, ahead := int64(len(m.ring))*ghostBytes, int64(0)
	parts := 0
	for key, of := range m.entries {
		size += objectBytes + int64(len(key))
		for _, e := range of {
			parts++
			size += e.cost()
			if e.in.reader != nil {
				ahead += e.part.cost()
				if !e.unused {
					t.Errorf("%s %v is in a Reader's hands and was used", key, e.part)
				}
				if _, known := c.readers[e.in.reader]; !known {
					t.Errorf("the Reader of %s %v is not known", key, e.part)
				}
			}
		}
	}
	waiting := 0
	for f := range c.fetches {
		ahead += f.ahead
		for _, fl := range f.flights {
			waiting += fl.waiters
		}
	}
	if waiting != c.waiting || waiting > c.waiters {
		t.Errorf("the books say that %d wait, %d do, the bound is %d", c.waiting, waiting, c.waiters)
	}
	if c.closed && waiting+c.store.running+c.fromDisk.running+len(c.flights)+len(c.fetches) != 0 {
		t.Errorf("closed with %d waiting, %d and %d running, %d in flight", waiting, c.store.running, c.fromDisk.running, len(c.flights))
	}
	reserved := m.size - size
	if parts != m.parts || reserved < 0 || c.store.running+c.fromDisk.running == 0 && reserved != 0 {
		t.Errorf("the books say %d parts and %d bytes, there are %d and %d", m.parts, m.size, parts, size)
	}
	if ahead != c.ahead || c.ahead > c.aheadMax {
		t.Errorf("the books say %d bytes ahead, there are %d, the bound is %d", c.ahead, ahead, c.aheadMax)
	}
	if m.size > m.max {
		t.Errorf("%d bytes in memory, the bound is %d", m.size, m.max)
	}
	if len(m.ghosts) > len(m.ring) {
		t.Errorf("%d ghosts, the bound is %d", len(m.ghosts), len(m.ring))
	}
	for r := range c.readers {
		if r.owned.oldest == nil && len(r.fetches) == 0 {
			t.Error("a Reader is known that has nothing")
		}
	}
	if c.disk == nil {
		return
	}
	d := c.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	onDisk := int64(0)
	for _, f := range d.files.of("", true) {
		onDisk += f.size()
	}
	if onDisk > d.bytes || c.closed && onDisk != d.bytes || d.bytes > d.max || d.order.Len() > d.maxFiles {
		t.Errorf("disk: the books say %d bytes, %d files have %d; the bounds are %d and %d", d.bytes, d.order.Len(), onDisk, d.max, d.maxFiles)
	}
}

// want reads a part and compares it.
func want(t *testing.T, c *Cache, key string, p Part, object []byte) []byte {
	t.Helper()
	data, err := c.Read(t.Context(), key, p.Offset, p.Length)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, object[p.Offset:p.end()]) {
		t.Fatalf("%s %v: other bytes than the object's", key, p)
	}
	return data
}

// pages cuts an object into parts of one size.
func pages(size, length int64) []Part {
	var parts []Part
	for at := int64(0); at < size; at += length {
		parts = append(parts, Part{at, min(length, size-at)})
	}
	return parts
}

// slow is a store that takes its time, and can be held up altogether.
type slow struct {
	Store
	after time.Duration
}

func (s slow) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	select {
	case <-time.After(s.after):
		return s.Store.GetRange(ctx, key, offset, length)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// value gives a metric, of one label value or none.
func value(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if len(m.GetLabel()) > 0 && m.GetLabel()[0].GetValue() != label {
				continue
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0
}
