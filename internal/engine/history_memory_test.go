package engine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/store"
)

// slowReads is a store whose reads take their time.
type slowReads struct {
	store.Store
	reads atomic.Int64
	last  atomic.Pointer[time.Time]
}

func (s *slowReads) note() {
	now := time.Now()
	s.last.Store(&now)
	time.Sleep(time.Duration(10+(s.reads.Add(1)*7)%11) * time.Millisecond)
}

// Get implements store.Store.
func (s *slowReads) Get(ctx context.Context, k string) (store.Object, error) {
	s.note()
	return s.Store.Get(ctx, k)
}

// GetRange implements store.Store.
func (s *slowReads) GetRange(ctx context.Context, k string, offset, length int64) ([]byte, error) {
	s.note()
	return s.Store.GetRange(ctx, k, offset, length)
}

// However little memory there is, and however many consumers read at different places of several streams, in segments
// and in the log: all of them come to their end, each with every message in order.
func TestManyReadersInNoMemory(t *testing.T) {
	for _, inLog := range []bool{false, true} {
		t.Run(fmt.Sprint("in the log: ", inLog), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) { readInNoMemory(t, w, inLog) })
		})
	}
}

func readInNoMemory(t *testing.T, w *world, inLog bool) {
	const streams, readers, messages = 3, 20, 400
	w.historic()
	w.opts.TailBytes, w.opts.FetchBytes, w.opts.BlockBytes, w.opts.DirectoryBytes = 1, 1, 1, 1
	w.opts.Cache.MemoryBytes = 1 << 20
	slow := &slowReads{Store: w.store}
	w.store = slow
	w.start()
	name := func(i int) string { return fmt.Sprint("S", i) }
	for i := range streams {
		cfg := fileStream
		cfg.Name, cfg.Subjects, cfg.Duplicates = name(i), []string{fmt.Sprintf("s%d.>", i)}, time.Second
		w.create(cfg)
	}
	for n := range messages {
		for i := range streams {
			w.client.publish(fmt.Sprintf("s%d.a", i), fmt.Sprint(n+1, " ", strings.Repeat("x", 2000)))
		}
		if n%7 == 0 {
			w.client.take()
		}
	}
	w.client.take()
	time.Sleep(2 * time.Second)
	if !inLog {
		w.compacted()
	}
	begun := time.Now()
	for i := range streams {
		for r := range readers {
			w.consumer(w.stream(name(i)), api.ConsumerConfig{
				Durable: fmt.Sprint("c", r), AckPolicy: api.AckNone, DeliverSubject: fmt.Sprintf("_INBOX.%d.%d", i, r),
				DeliverPolicy: api.DeliverByStartSequence, OptStartSeq: uint64(1 + r*messages/readers),
			})
		}
	}
	time.Sleep(10 * time.Minute)
	if took := slow.last.Load().Sub(begun); took > time.Minute {
		t.Errorf("the last of %d reads of the store is after %v", slow.reads.Load(), took)
	}
	next := map[string]int{}
	for _, m := range w.client.take() {
		var i, r, n int
		if _, err := fmt.Sscanf(m.subject, "s%d.a", &i); err != nil {
			continue
		}
		if _, err := fmt.Sscan(m.data, &n); err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(m.reply, ".") // $JS.ACK.<stream>.<consumer>.…
		if _, err := fmt.Sscanf(parts[3], "c%d", &r); err != nil {
			t.Fatal(err)
		}
		who := parts[2] + " " + parts[3]
		if next[who] == 0 {
			next[who] = 1 + r*messages/readers
		}
		if n != next[who] {
			t.Fatalf("%s gets message %d, want %d", who, n, next[who])
		}
		next[who]++
	}
	for i := range streams {
		for r := range readers {
			if got := next[fmt.Sprintf("%s c%d", name(i), r)]; got != messages+1 {
				t.Errorf("consumer %d of %s is at %d, want %d", r, name(i), got, messages+1)
			}
		}
	}
}
