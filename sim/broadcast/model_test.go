package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

// The publisher's cost of a broadcast does not grow with the cluster, the readers' is one GET each.
func TestCost(t *testing.T) {
	for _, nodes := range []int{3, 10, 50} {
		m := model{nodes: nodes, rate: 1, request: 30 * time.Millisecond, seed: 1, lasts: 100 * time.Second}
		r := m.play()
		if math.Abs(r.puts-2) > 0.3 {
			t.Errorf("%d nodes: %.2f PUTs a broadcast, want about 2", nodes, r.puts)
		}
		if want := float64(nodes - 1); math.Abs(r.batchGets-want) > want/5 {
			t.Errorf("%d nodes: %.2f GETs a broadcast, want about %v", nodes, r.batchGets, want)
		}
		if r.mean < window || r.high > window+idlePoll+10*m.request {
			t.Errorf("%d nodes: latency %v, 99 %% below %v", nodes, r.mean, r.high)
		}
		if r.idle.lists > float64(nodes)/idlePoll.Seconds()+1 {
			t.Errorf("%d nodes: %.1f LISTs a second when idle", nodes, r.idle.lists)
		}
	}
}

func TestGossip(t *testing.T) {
	for n, want := range map[int]int{3: 12, 10: 80, 100: 1200, 1000: 16000} {
		if got := gossip(n); got != want {
			t.Errorf("%d nodes: %d, want %d", n, got, want)
		}
	}
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out, "3, 5", model{rate: 2, request: time.Millisecond}); err != nil || strings.Count(out.String(), "\n| 5 |") != 2 {
		t.Errorf("%v:\n%s", err, out.String())
	}
	for _, bad := range []string{"", "1", "x", "5001"} {
		if run(&out, bad, model{}) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
