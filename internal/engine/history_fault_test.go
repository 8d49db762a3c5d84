package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
)

// away is a store that can be made to answer no read of a segment.
type away struct {
	store.Store
	gone atomic.Bool
}

// GetRange implements store.Store.
func (a *away) GetRange(ctx context.Context, k string, offset, length int64) ([]byte, error) {
	if a.gone.Load() && strings.HasPrefix(k, "streams/") {
		return nil, fmt.Errorf("get range: %w", store.ErrThrottled)
	}
	return a.Store.GetRange(ctx, k, offset, length)
}

// A consumer whose next message cannot be read waits, and goes on by itself when it can be, without anything new in the
// stream. Meanwhile others are served, and publishers.
func TestAConsumerOutlastsTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.historic()
		st := &away{Store: w.store}
		w.store = st
		w.start()
		cfg := fileStream
		cfg.Duplicates = time.Second
		s := w.create(cfg)
		w.consumer(s, api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit})
		for i := range 20 {
			w.client.publish("s.a", fmt.Sprint(i))
			w.client.take()
		}
		time.Sleep(2 * time.Second)
		w.compacted()
		w.crash() // forgets what is in memory
		w.start()
		w.client.take() // the consumer has begun to listen
		st.gone.Store(true)
		w.client.send("$JS.API.CONSUMER.MSG.NEXT.S.c", "_INBOX.pull", "", `{"batch":20,"expires":3600000000000}`)
		time.Sleep(10 * time.Minute)
		if got := w.client.take(); len(got) > 0 {
			t.Fatalf("without the store %d messages came", len(got))
		}
		w.client.publish("s.b", "more")
		if acks := w.client.acks(); len(acks) != 1 || acks[0].Seq != 21 {
			t.Errorf("a publish is answered %+v", acks)
		}
		st.gone.Store(false)
		time.Sleep(lastRetry + time.Second)
		if got := w.client.take(); len(got) != 20 {
			t.Errorf("%d messages came when the store was back, want 20", len(got))
		}
	})
}

// Whatever is damaged or missing of a stream's history, the stream is held offline, and says why; nothing of it is
// touched, the other stream serves, and with everything in place again a start brings it all back.
func TestADamagedHistoryIsHeldOffline(t *testing.T) {
	damage := map[string]func(family key.Family) (key.Family, func([]byte) []byte){}
	flip := func(at float64) func([]byte) []byte {
		return func(b []byte) []byte {
			b = bytes.Clone(b)
			b[int(at*float64(len(b)-1))] ^= 1
			return b
		}
	}
	for _, at := range []float64{0, 0.3, 0.7, 1} {
		damage[fmt.Sprintf("manifest at %.1f", at)] = func(key.Family) (key.Family, func([]byte) []byte) { return key.Manifest, flip(at) }
	}
	damage["index of a segment"] = func(key.Family) (key.Family, func([]byte) []byte) {
		return key.StreamSegment, func(b []byte) []byte {
			b = bytes.Clone(b)
			b[bytes.Index(b, []byte("SLIX"))+30] ^= 1
			return b
		}
	}
	damage["no manifest"] = func(key.Family) (key.Family, func([]byte) []byte) { return key.Manifest, nil }
	damage["no segment"] = func(key.Family) (key.Family, func([]byte) []byte) { return key.StreamSegment, nil }
	for name, what := range damage {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) { damaged(t, w, what) })
		})
	}
}

func damaged(t *testing.T, w *world, what func(key.Family) (key.Family, func([]byte) []byte)) {
	w.historic()
	w.start()
	cfg := fileStream
	cfg.Duplicates = time.Second
	w.create(cfg)
	other := cfg
	other.Name, other.Subjects = "OTHER", []string{"other.>"}
	w.create(other)
	for i := range 50 {
		w.client.publish("s.a", fmt.Sprint(i))
		w.client.publish("other.a", fmt.Sprint(i))
		w.client.take()
	}
	time.Sleep(2 * time.Second)
	before, beforeOther := content(t, w.stream("S")), content(t, w.stream("OTHER"))
	w.compacted()
	w.crash()

	family, change := what(key.Manifest)
	k := keyOf(t, w, family, "S")
	object, err := w.store.Get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if change == nil {
		err = w.store.Delete(t.Context(), k)
	} else {
		_, err = w.store.Put(t.Context(), k, change(object.Data), store.Always())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	objects := w.keys(key.StreamSegment)
	var refused *jserr.Error
	if _, err := w.account.Stream("S"); !errors.As(err, &refused) || refused.Code != jserr.StreamOfflineReason {
		t.Errorf("the stream is answered for with %v", err)
	}
	if _, err := w.account.CreateStream(t.Context(), cfg, false); !errors.As(err, &refused) || refused.Code != jserr.StreamOfflineReason {
		t.Errorf("another of its name is answered with %v", err)
	}
	if got := content(t, w.stream("OTHER")); !slices.Equal(got, beforeOther) {
		t.Errorf("the other stream has %d messages, want %d", len(got), len(beforeOther))
	}
	w.client.publish("other.a", "more")
	w.client.take()
	time.Sleep(time.Hour)
	w.compacted()
	for _, k := range objects {
		if strings.Contains(k, "/S/") && !slices.Contains(w.keys(key.StreamSegment), k) {
			t.Errorf("%s was deleted", k)
		}
	}
	w.crash()
	if _, err := w.store.Put(t.Context(), k, object.Data, store.Always()); err != nil {
		t.Fatal(err)
	}
	w.start()
	if got := content(t, w.stream("S")); !slices.Equal(got, before) {
		t.Errorf("with everything in place again the stream has %d messages, want %d", len(got), len(before))
	}
}

// Damage to a segment's messages shows when they are read: as an error that names the segment, never as other messages.
func TestADamagedMessageIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.historic()
		w.start()
		cfg := fileStream
		cfg.Duplicates = time.Second
		w.create(cfg)
		for i := range 50 {
			w.client.publish("s.a", fmt.Sprint(i))
			w.client.take()
		}
		time.Sleep(2 * time.Second)
		w.compacted()
		w.crash()
		k := keyOf(t, w, key.StreamSegment, "S")
		object, err := w.store.Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		for at := 4; at < bytes.Index(object.Data, []byte("SLIX")); at += 7 {
			damaged := bytes.Clone(object.Data)
			damaged[at] ^= 0x10
			if _, err := w.store.Put(t.Context(), k, damaged, store.Always()); err != nil {
				t.Fatal(err)
			}
			w.start()
			if _, err := w.stream("S").GetMessage(t.Context(), api.JSApiMsgGetRequest{Seq: 5}); err == nil || !strings.Contains(err.Error(), k) {
				t.Fatalf("byte %d is changed, and the read gives %v", at, err)
			}
			w.crash()
		}
		if _, err := w.store.Put(t.Context(), k, object.Data, store.Always()); err != nil {
			t.Fatal(err)
		}
		w.start()
		if got := content(t, w.stream("S")); len(got) != 50 {
			t.Errorf("%d messages in the end", len(got))
		}
	})
}

// keyOf is the first object of a stream.
func keyOf(t *testing.T, w *world, family key.Family, stream string) string {
	t.Helper()
	for _, k := range w.keys(family) {
		if p, err := key.Parse(k); err == nil && p.Stream == stream {
			return k
		}
	}
	t.Fatalf("the stream %s has no such object", stream)
	return ""
}
