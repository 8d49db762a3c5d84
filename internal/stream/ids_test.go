package stream

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

func boundlessForIDs() api.StreamConfig {
	return api.StreamConfig{
		Name: "S", Subjects: []string{">"}, Storage: api.FileStorage, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPer: -1, MaxMsgSize: -1,
		MaxConsumers: -1, Replicas: 1, Duplicates: time.Minute,
	}
}

// A state that is given the ids of another refuses what that one refuses, also where the message is gone.
func TestIDsSurvive(t *testing.T) {
	cfg := boundlessForIDs()
	start := time.Unix(1000, 0)
	make1 := func() *State {
		s, err := New(cfg, start)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := make1()
	for i := range 10 {
		header := fmt.Appendf(nil, "NATS/1.0\r\nNats-Msg-Id: id-%d\r\n\r\n", i)
		if err := s.Apply(Message{Seq: uint64(i + 1), Time: start.Add(time.Duration(i) * time.Second).UnixNano(), Subject: []byte("a"), Header: header}, &Effects{}); err != nil {
			t.Fatal(err)
		}
	}
	s.Delete(3, &Effects{})
	now := start.Add(10 * time.Second).UnixNano()
	list, n, all := s.AppendIDs(nil, now)
	if n != 10 || !all {
		t.Fatalf("%d ids, all: %v", n, all)
	}
	other := make1()
	other.dedup.add(digestOf([]byte("id-4")), 5, start.Add(4*time.Second).UnixNano()) // known already
	other.dedup.add(digestOf([]byte("later")), 20, start.Add(9*time.Second).UnixNano())
	if err := other.RestoreIDs(list); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if seq, ok := other.dedup.find(digestOf(fmt.Appendf(nil, "id-%d", i)), now); !ok || seq != uint64(i+1) {
			t.Errorf("id-%d is of %d, %v", i, seq, ok)
		}
	}
	if _, ok := other.dedup.find(digestOf([]byte("later")), now); !ok || other.dedup.len() != 11 {
		t.Errorf("%d ids are remembered, later: %v", other.dedup.len(), ok)
	}
	for cut := range list {
		if err := make1().RestoreIDs(list[:cut]); !errors.Is(err, ErrIDs) {
			t.Errorf("cut to %d bytes: %v", cut, err)
		}
	}
}

func FuzzRestoreIDs(f *testing.F) {
	f.Add([]byte{1, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2})
	f.Fuzz(func(t *testing.T, list []byte) {
		s, err := New(boundlessForIDs(), time.Unix(1000, 0))
		if err != nil {
			t.Fatal(err)
		}
		if s.RestoreIDs(list) == nil && s.dedup.len() > MaxListedIDs {
			t.Fatalf("%d ids", s.dedup.len())
		}
	})
}
