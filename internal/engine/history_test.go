package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/compact"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
)

// historic makes the world's engines move messages into segments, small ones, when the test asks for it.
func (w *world) historic() {
	w.truncating()
	w.opts.History = History{
		Alive:        func(context.Context) error { return nil },
		CompactBytes: 1 << 40, SegmentBytes: 4 << 10, ReplayBytes: 1 << 40,
		Grace: time.Minute, DeletedFor: time.Hour,
		Compact: compact.Options{TargetBytes: 64 << 10, Fanout: 4},
	}
	w.opts.TailBytes = 1
}

// keys lists the objects of streams: of manifests, or of segments.
func (w *world) keys(family key.Family) (keys []string) {
	w.t.Helper()
	for after := ""; ; {
		page, err := w.store.List(w.t.Context(), store.ListOptions{Prefix: key.Manifest.Prefix(), StartAfter: after})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range page.Objects {
			p, err := key.Parse(o.Key)
			if err != nil {
				w.t.Fatal(err)
			}
			if p.Family == family {
				keys = append(keys, o.Key)
			}
			after = o.Key
		}
		if !page.More {
			return keys
		}
	}
}

// compacted moves everything that is committed into segments and lets the log go.
func (w *world) compacted() {
	w.t.Helper()
	if err := w.engine.Trim(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.engine.Tidy(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// logged is how many objects of logs there are.
func (w *world) logged() (n int) {
	w.t.Helper()
	page, err := w.store.List(w.t.Context(), store.ListOptions{Prefix: key.WAL.Prefix()})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range page.Objects {
		if o.Size > 0 {
			n++
		}
	}
	return n
}

func TestMessagesMoveIntoSegments(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.historic()
		w.start()
		cfg := fileStream
		cfg.Duplicates = time.Second
		w.create(cfg)
		for i := range 300 {
			w.client.send(fmt.Sprintf("s.%d", i%7), "_INBOX.ack", "NATS/1.0\r\nN: "+fmt.Sprint(i)+"\r\n\r\n", strings.Repeat("x", i))
			if i%50 == 0 {
				synctest.Wait()
			}
		}
		if got := len(w.client.acks()); got != 300 {
			t.Fatalf("%d acknowledgements", got)
		}
		time.Sleep(2 * time.Second) // the dedup window
		before := content(t, w.stream("S"))
		w.compacted()
		if n := len(w.keys(key.StreamSegment)); n == 0 {
			t.Errorf("%d segments", n)
		}
		if n := w.logged(); n > 4 {
			t.Errorf("the log has %d objects still", n)
		}
		if got := content(t, w.stream("S")); !slices.Equal(got, before) {
			t.Errorf("after compaction the stream has %d messages, want the %d that it had", len(got), len(before))
		}
		w.crash()
		w.start()
		if got := content(t, w.stream("S")); !slices.Equal(got, before) {
			t.Errorf("after a crash the stream has %d messages, want the %d that it had", len(got), len(before))
		}
		w.client.publish("s.1", "more")
		if acks := w.client.acks(); len(acks) != 1 || acks[0].Seq != 301 {
			t.Errorf("the next message is answered %+v", acks)
		}
	})
}

// Whatever is done to streams, with compaction, rewriting and crashes in between, they are what streams are that have no
// segments at all.
func TestHistoryIsTheSameStream(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var want, got []string
			for _, historic := range []bool{false, true} {
				bubble(t, func(t *testing.T, w *world) {
					if historic {
						w.historic()
					}
					got, want = liveThrough(t, w, seed), got
				})
			}
			if !slices.Equal(got, want) {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Fatalf("step %d: %s", i, difference(got[i], want[i]))
					}
				}
				t.Fatalf("%d steps, want %d", len(got), len(want))
			}
		})
	}
}

// difference shows where two texts part.
func difference(got, want string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	around := func(s string) string { return s[max(0, i-60):min(len(s), i+60)] }
	return fmt.Sprintf("%s…\nhas  …%s…\nwant …%s…", want[:min(len(want), 130)], around(got), around(want))
}

// liveThrough does to two streams what a seed says, and tells what they were after each step.
func liveThrough(t *testing.T, w *world, seed uint64) (story []string) {
	random := rand.New(rand.NewPCG(seed, 7))
	w.start()
	cfg := fileStream
	cfg.Duplicates, cfg.AllowMsgTTL = time.Second, true
	switch seed % 4 {
	case 1:
		cfg.MaxMsgsPer = 2
	case 2:
		cfg.MaxMsgs = 40
	case 3:
		cfg.MaxAge = 20*time.Minute + 30*time.Second
	}
	w.consumer(w.create(cfg), api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit, FilterSubject: "s.3"})
	work := fileStream
	work.Name, work.Subjects, work.Retention, work.Duplicates = "W", []string{"w.>"}, api.WorkQueuePolicy, time.Second
	w.consumer(w.create(work), api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit})
	for step := range 60 {
		done := "publish"
		s := w.stream("S")
		info, err := s.Info(api.JSApiStreamInfoRequest{})
		if err != nil {
			t.Fatal(err)
		}
		some := info.State.FirstSeq + uint64(random.IntN(20))
		switch random.IntN(10) {
		case 0:
			done = "delete"
			s.DeleteMessage(t.Context(), some) // it may not be there
		case 1:
			done = "purge of a subject"
			s.Purge(t.Context(), PurgeRequest{Subject: "s.2"})
		case 2:
			done = "purge"
			s.Purge(t.Context(), PurgeRequest{Upto: some})
		case 3, 4:
			done = "work"
			for _, m := range w.client.pull(w.stream("W"), "c", random.IntN(30)) {
				if random.IntN(4) > 0 {
					w.client.send(m.reply, "", "", "+ACK")
				}
			}
		case 5:
			done = "pull"
			for _, m := range w.client.pull(s, "c", 5) {
				w.client.send(m.reply, "", "", "+ACK")
			}
		default:
			for i := range random.IntN(30) {
				header := ""
				if random.IntN(5) == 0 {
					header = fmt.Sprintf("NATS/1.0\r\nNats-TTL: %ds\r\n\r\n", 30+60*random.IntN(60))
				}
				w.client.send(fmt.Sprintf("s.%d", random.IntN(6)), "_INBOX.ack", header, strings.Repeat(fmt.Sprintf("%d/%d,", step, i), random.IntN(80)))
				w.client.publish(fmt.Sprintf("w.%d", random.IntN(6)), fmt.Sprint(i))
			}
		}
		w.client.take()
		time.Sleep(time.Minute)
		house, crash := random.IntN(3), random.IntN(6)
		if w.engine.hasHistory() && house == 0 {
			w.compacted()
		}
		if crash == 0 {
			w.crash()
			w.start()
			time.Sleep(time.Minute)
		}
		for _, name := range []string{"S", "W"} {
			info, err := w.stream(name).Info(api.JSApiStreamInfoRequest{SubjectsFilter: ">"})
			if err != nil {
				t.Fatal(err)
			}
			st := info.State
			about := fmt.Sprintln(done, st.Msgs, st.Bytes, st.FirstSeq, st.LastSeq, st.NumDeleted, st.Subjects, st.FirstTime.Unix(), st.LastTime.Unix())
			for _, line := range content(t, w.stream(name)) {
				about += line[:len(line)-len("123456789")] + "\n" // a checkpoint may delay a message by milliseconds
			}
			story = append(story, about)
		}
	}
	return story
}

// Deleted messages leave the segments, whole segments leave the stream, and after the grace period nothing is left of
// them. Before that nothing is missing that a manifest which somebody may have read refers to.
func TestDeletedMessagesLeaveTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.historic()
		w.start()
		cfg := fileStream
		cfg.Duplicates = time.Second
		s := w.create(cfg)
		for i := range 300 {
			w.client.publish(fmt.Sprintf("s.%d", i%3), strings.Repeat("x", 100))
		}
		w.client.take()
		time.Sleep(2 * time.Second)
		w.compacted()
		old := w.keys(key.StreamSegment)
		if _, err := s.Purge(t.Context(), PurgeRequest{Subject: "s.1"}); err != nil {
			t.Fatal(err)
		}
		before := content(t, s)
		w.tidy()
		for _, k := range old {
			if _, err := w.store.Get(t.Context(), k); err != nil {
				t.Errorf("before the grace period is over: %v", err)
			}
		}
		time.Sleep(2 * time.Hour) // DeletedFor, and the grace period
		w.tidy()
		time.Sleep(time.Hour)
		w.tidy()
		for _, k := range w.keys(key.StreamSegment) {
			if slices.Contains(old, k) {
				t.Errorf("%s is there still, with deleted messages", k)
			}
		}
		if got := content(t, s); !slices.Equal(got, before) {
			t.Errorf("the stream has %d messages, want %d", len(got), len(before))
		}
		w.crash()
		w.start()
		if got := content(t, w.stream("S")); !slices.Equal(got, before) {
			t.Errorf("after a crash the stream has %d messages, want %d", len(got), len(before))
		}
		if _, err := w.stream("S").Purge(t.Context(), PurgeRequest{}); err != nil {
			t.Fatal(err)
		}
		w.tidy()
		time.Sleep(time.Hour)
		w.tidy()
		if left := w.keys(key.StreamSegment); len(left) > 0 {
			t.Errorf("an empty stream has the segments %v", left)
		}
		if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		w.tidy()
		if left := w.keys(key.Manifest); len(left) > 0 {
			t.Errorf("a deleted stream has the manifest %v", left)
		}
	})
}

func (w *world) tidy() {
	w.t.Helper()
	if err := w.engine.Tidy(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}
