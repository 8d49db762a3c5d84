package check_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/check"
	"github.com/sluicemq/sluice/internal/engine"
)

// Whatever is done to streams, and whenever their node is killed, a check finds nothing wrong.
func TestWhateverANodeDid(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				w := &world{t: t, store: newStore(t)}
				w.start()
				kinds := []func(*api.StreamConfig){
					func(c *api.StreamConfig) {},
					func(c *api.StreamConfig) { c.MaxMsgsPer = 2 },
					func(c *api.StreamConfig) { c.MaxMsgs = 30 },
					func(c *api.StreamConfig) { c.MaxAge = 20 * time.Minute },
					func(c *api.StreamConfig) { c.Retention = api.InterestPolicy },
					func(c *api.StreamConfig) { c.Retention = api.WorkQueuePolicy },
				}
				made := 0
				alive := map[string]bool{}
				pick := func() string {
					for name := range alive {
						return name
					}
					return ""
				}
				for step := range 60 {
					done := ""
					switch n := random.IntN(12); {
					case n == 0 || len(alive) == 0:
						name := fmt.Sprintf("T%d", made)
						done = "create"
						w.create(name, kinds[(made+int(seed))%len(kinds)])
						alive[name] = true
						made++
					case n == 1 && len(alive) > 1:
						name := pick()
						done = "delete the stream " + name
						if err := w.account.DeleteStream(t.Context(), name); err != nil {
							t.Fatal(err)
						}
						delete(alive, name)
					case n == 2:
						done = "purge"
						w.stream(pick()).Purge(t.Context(), engine.PurgeRequest{Subject: "*.2"})
					case n == 3:
						done = "purge all"
						w.stream(pick()).Purge(t.Context(), engine.PurgeRequest{Upto: random.Uint64N(100)})
					case n == 4:
						done = "delete"
						for range 10 {
							w.stream(pick()).DeleteMessage(t.Context(), 1+random.Uint64N(100)) // it may not be there
						}
					case n == 5:
						done = "tidy"
						time.Sleep(2 * time.Hour)
						if err := w.engine.Tidy(t.Context()); err != nil {
							t.Fatal(err)
						}
					case n < 8:
						done = "trim"
						w.trim()
					case n == 8:
						done = "restart"
						w.stop()
						w.start()
					case n == 9:
						done = "kill"
						next := &world{t: t, store: take(t, w.store).lay(t)}
						w.stop()
						w = next
						w.start()
					default:
						done = "publish"
						w.publish(pick(), 1+random.IntN(60))
					}
					found, all, sum := findings(t, w.store, check.Options{Quick: step%2 == 0})
					for i, f := range all {
						if f.Severity > check.Note {
							t.Fatalf("step %d, %s: %s: %s", step, done, found[i], f.What)
						}
					}
					if sum.Streams != len(alive) {
						t.Fatalf("step %d, %s: %d streams, want %d: %v", step, done, sum.Streams, len(alive), found)
					}
				}
				w.stop()
				if found, _, _ := findings(t, w.store, check.Options{}); len(found) > 0 {
					t.Errorf("at rest: %q", found)
				}
			})
		})
	}
}
