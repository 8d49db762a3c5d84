package crash

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/bench/process"
	"github.com/sluicemq/sluice/test/rig"
)

var (
	kills = flag.Int("kills", 3, "how often the server is killed, on each store")
	seed  = flag.Uint64("seed", 0, "of the random moments and sizes; 0 takes the time")
)

const (
	publishers = 3
	workers    = 2
	// longestLife bounds how long the server lives under load before it is killed.
	longestLife = 800 * time.Millisecond
)

// TestKill kills the server at random moments. For a long run: go test ./crash -run Kill -kills 50 -timeout 1h
func TestKill(t *testing.T) {
	for _, store := range rig.Stores(t) {
		t.Run(store.Name, func(t *testing.T) { testKills(t, rig.SluiceConfig(t, store)) })
	}
	for _, store := range rig.Stores(t) { // empty ones
		t.Run(store.Name+" with segments", func(t *testing.T) { testKills(t, rig.SluiceConfig(t, store, "-c", busy(t))) })
	}
}

// busy is a configuration that has messages moved into segments, and those rewritten and collected, all the time.
func busy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice.conf")
	text := `store { segments { replay: 1MB, grace: "300ms", deleted_within: "100ms", every: "20ms" }, cache { memory: 1MB } }`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func testKills(t *testing.T, cfg process.Config) {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d, %d kills", s, *kills)
	random := rand.New(rand.NewPCG(s, 1))
	h := newHistory()
	var pubs []*publisher
	for i := range publishers {
		pubs = append(pubs, &publisher{id: i, random: rand.New(rand.NewPCG(s, uint64(2+i)))})
	}
	start := func() *process.Server {
		t.Helper()
		server, err := process.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	server := start()
	if err := setUp(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	for range *kills {
		live(t, server, pubs, h, time.Duration(random.Int64N(int64(longestLife))))
		server.Kill()
		server = start()
	}
	defer server.Kill()
	finish(t, server, pubs, h)
}

// live puts the load on the server for as long as it shall live, kills it, and waits for the load to end.
func live(t *testing.T, server *process.Server, pubs []*publisher, h *history, life time.Duration) {
	t.Helper()
	errs := make(chan error, len(pubs)+workers)
	var wg sync.WaitGroup
	ctx := t.Context()
	for _, p := range pubs {
		wg.Go(func() { errs <- p.run(ctx, server.URL(), h) })
	}
	for range workers {
		wg.Go(func() { errs <- work(ctx, server.URL(), h) })
	}
	select {
	case <-time.After(life):
	case <-server.Done():
	}
	died := server.Exited()
	server.Kill()
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	if died != nil {
		t.Fatal(died)
	}
}

// finish lets the workers consume what is left, and checks everything.
func finish(t *testing.T, server *process.Server, pubs []*publisher, h *history) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	// The server still works: every publisher gets acknowledgements.
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	errs := make(chan error, len(pubs))
	for _, p := range pubs {
		go func() { errs <- p.run(short, server.URL(), h) }()
	}
	for range pubs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	working, rest := context.WithCancel(ctx)
	defer rest()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			if err := work(working, server.URL(), h); err != nil {
				t.Error(err)
			}
		})
	}
	drained := awaitDrained(ctx, server.URL())
	rest()
	wg.Wait()
	reading, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	all, err := readStream(reading, server.URL())
	if err := errors.Join(drained, err, h.check(all)); err != nil {
		t.Errorf("%v\nthe end of the server's log:\n%s", err, server.LogTail())
	}
	t.Logf("%d messages sent, %d acknowledged, %d stored; %d deliveries, %d confirmed", len(h.sent), h.count(acknowledged), len(all), h.count(delivered), h.count(confirmed))
	if h.count(acknowledged) == 0 || h.count(confirmed) == 0 {
		t.Error("nothing was acknowledged: the test shows nothing")
	}
}
