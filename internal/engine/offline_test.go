package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
)

// A stream that cannot be read can be deleted: its name is free then, the log may be trimmed, and nothing of it is left
// in the store, even if the process ends in between.
func TestAnOfflineStreamCanBeDeleted(t *testing.T) {
	for _, family := range []key.Family{key.Manifest, key.StreamSegment} {
		for _, crash := range []bool{false, true} {
			bubble(t, func(t *testing.T, w *world) {
				aged(t, w)
				k := keyOf(t, w, family, "S")
				object, err := w.store.Get(t.Context(), k)
				if err != nil {
					t.Fatal(err)
				}
				damaged := bytes.ReplaceAll(object.Data, []byte("S"), []byte("s"))
				if _, err := w.store.Put(t.Context(), k, damaged, store.Always()); err != nil {
					t.Fatal(err)
				}
				w.start()
				if len(w.account.Offline()) != 1 {
					t.Fatalf("offline are %v", w.account.Offline())
				}
				if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
					t.Fatal(err)
				}
				if crash {
					w.crash()
					w.start()
				}
				if left := w.account.Offline(); len(left) > 0 {
					t.Errorf("offline are %v", left)
				}
				s := w.create(fileStream)
				w.client.publish("s.a", "x")
				if acks := w.client.acks(); len(acks) != 1 || acks[0].Seq != 1 {
					t.Errorf("a publish is answered %+v", acks)
				}
				time.Sleep(10 * time.Minute)
				for range 3 {
					w.compacted()
					time.Sleep(5 * time.Minute)
				}
				for _, family := range []key.Family{key.Manifest, key.StreamSegment} {
					for _, k := range w.keys(family) {
						if p, _ := key.Parse(k); p.ID != uint64(s.id) {
							t.Errorf("%s is left", k)
						}
					}
				}
				if n := w.logged(); n > 4 {
					t.Errorf("the log has %d objects still", n)
				}
				w.crash()
				w.start()
				if got := content(t, w.stream("S")); len(got) != 1 {
					t.Errorf("after a start the new stream has %v", got)
				}
			})
		}
	}
}
