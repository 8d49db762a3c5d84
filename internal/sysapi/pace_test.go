package sysapi

import (
	"fmt"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	var p pace
	now := time.Unix(0, 0)
	p.spent(cheap, now)
	if p.tooEarly("A", now) {
		t.Error("a cheap announcement puts others off")
	}
	p.spent(10*time.Millisecond, now)
	for _, account := range []string{"B", "A", "B"} {
		if !p.tooEarly(account, now.Add(199*time.Millisecond)) {
			t.Error("not put off")
		}
	}
	if got := fmt.Sprint(p.late()); got != "[A B]" {
		t.Error(got)
	}
	if p.tooEarly("A", now.Add(200*time.Millisecond)) {
		t.Error("put off for too long")
	}
	if got := fmt.Sprint(p.late()); got != "[B]" {
		t.Error(got)
	}
}
