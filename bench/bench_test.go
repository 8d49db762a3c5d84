package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMedians(t *testing.T) {
	tb := newTable([]variant{{name: "sluice"}, {name: referenceName}})
	for _, v := range []float64{5, 1, 100} {
		tb.add(Result{"1-1-16B", Sample{Rate: 2 * v, CPU: v / 10}}, "sluice")
	}
	for _, v := range []float64{10, 20} {
		tb.add(Result{"1-1-16B", Sample{Rate: v, CPU: 1}}, referenceName)
	}
	if got := tb.median("1-1-16B", "sluice"); got[Rate] != 10 || got[CPU] != 0.5 {
		t.Errorf("median of three: %v", got)
	}
	if got := tb.median("1-1-16B", referenceName); got[Rate] != 15 {
		t.Errorf("median of two: %v", got)
	}
	want := "| 1-1-16B | 10/s | 15/s | 0.67 | 0.50 | CPU ≤ 0.30: **missed** (0.50) |"
	if text := tb.markdown(); !strings.Contains(text, want) {
		t.Errorf("no line\n%s\nin\n%s", want, text)
	}
}

func TestVerdicts(t *testing.T) {
	ours, theirs := Sample{CPU: 1, Rate: 30, Bytes: 300}, Sample{CPU: 4, Rate: 10}
	for _, tc := range []struct {
		target Target
		want   string
	}{
		{atMost(CPU, 0.30), "CPU ≤ 0.30: met (0.25)"},
		{atMost(CPU, 0.20), "CPU ≤ 0.20: **missed** (0.25)"},
		{atLeast(Rate, 2), "rate ≥ 2.00: met (3.00)"},
		{atLeast(Rate, 4), "rate ≥ 4.00: **missed** (3.00)"},
		{absolute(Bytes, 350), "memory ≤ 350 B: met (300.00)"},
		{atMost(P99, 1), "p99 ≤ 1.00"}, // not measured
	} {
		if got := tc.target.verdict(ours, theirs); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// TestTargetsNameRows guards against a target whose row nobody measures.
func TestTargetsNameRows(t *testing.T) {
	rows := map[string]bool{"subscriptions-memory": true, "subscriptions-churn": true}
	for _, c := range cases() {
		rows[c.Name] = true
	}
	for row := range targets {
		if !rows[row] {
			t.Errorf("no case gives row %q", row)
		}
	}
}

func TestBill(t *testing.T) {
	s := Sample{Writes: 0, Reads: 0, Lists: 0, Deletes: 0, Cost: 0, Messages: 2e6, Length: 3600}
	for _, line := range []string{
		"# HELP sluice_store_requests_total Requests.",
		`sluice_store_requests_total{operation="create",result="ok"} 10`,
		`sluice_store_requests_total{operation="create",result="precondition"} 1`,
		`sluice_store_requests_total{operation="replace",result="ok"} 2`,
		`sluice_store_requests_total{operation="get_range",result="ok"} 1e+03`,
		`sluice_store_cost_dollars_total{operation="create"} 0.5`,
		`sluice_store_cost_dollars_total{operation="get_range"} 0.25`,
		`sluice_store_request_seconds_count{operation="create"} 99`,
	} {
		if err := s.addLine(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.addLine(`sluice_store_requests_total{operation="copy",result="ok"} 1`); err == nil {
		t.Error("an operation without a price was counted")
	}
	tb := newTable([]variant{{name: "sluice"}})
	tb.add(Result{"load", s}, "sluice")
	want := "| load | 2000000 | 13 | 1000 | 0 | 0 | 0.3750 | 540.00 |\n"
	if text := tb.markdown(); !strings.Contains(text, want) || strings.Count(text, "| load |") != 1 {
		t.Errorf("not once\n%s\nin\n%s", want, text)
	}
}

func TestPercentiles(t *testing.T) {
	var l latencies
	for i := range 1000 {
		l.add(time.Duration(1000-i) * time.Microsecond)
	}
	s := Sample{}
	l.percentiles(s)
	if s[P50] != 501 || s[P99] != 991 {
		t.Errorf("percentiles %v", s)
	}
}

// TestFlowCounts publishes more than arrives, and less.
func TestFlowCounts(t *testing.T) {
	f := newFlow(1, 2, 100)
	f.published.Add(3)
	f.deliver(6)
	if err := f.drain(t.Context()); err != nil {
		t.Error(err)
	}
	if err := f.exact(); err != nil {
		t.Error(err)
	}
	f.deliver(1)
	if err := f.exact(); err == nil {
		t.Error("a delivery too many was not noticed")
	}
	f.published.Add(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.drain(ctx); err == nil {
		t.Error("a delivery too few was not noticed")
	}
}

// TestDeadServerFailsTheRun runs a case against a server that ends by itself.
func TestDeadServerFailsTheRun(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "server")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho no memory left\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := options{temp: dir, duration: time.Millisecond, rounds: 1}
	_, err := o.runOnce(t.Context(), cases()[0], variant{name: "sluice", binary: script})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no memory left") {
		t.Errorf("error %v, want the server's end and its words", err)
	}
}
