package stream

import (
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

func TestAppendNote(t *testing.T) {
	for header, want := range map[string]string{
		"":                         "",
		"NATS/1.0\r\nA: b\r\n\r\n": "",
		"NATS/1.0\r\nNats-Msg-Id: x\r\nNats-Expected-Stream: S\r\n\r\n":             "",
		"NATS/1.0\r\nA: b\r\nNats-TTL: 5s\r\nNats-Msg-Id: x\r\n\r\n":                "NATS/1.0\r\nNats-TTL: 5s\r\n\r\n",
		"NATS/1.0\r\nKV-Operation: PURGE\r\n\r\n":                                   "NATS/1.0\r\nKV-Operation: PURGE\r\n\r\n",
		"NATS/1.0\r\nKV-Operation: DEL\r\nNats-Rollup: sub\r\n\r\n":                 "",
		"NATS/1.0\r\nNats-Schedule: @every 1s\r\nNats-Schedule-Target: t\r\n\r\n":   "NATS/1.0\r\nNats-Schedule: @every 1s\r\nNats-Schedule-Target: t\r\n\r\n",
		"NATS/1.0\r\nX: Nats-TTL: 5\r\n\r\n":                                        "",
		"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: never\r\nq: r\r\n\r\n": "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: never\r\n\r\n",
	} {
		if got := string(AppendNote(nil, []byte(header))); got != want {
			t.Errorf("of %q: %q, want %q", header, got, want)
		}
	}
}

// A state that recalls its messages is the one that applied them.
func TestRecallIsApply(t *testing.T) {
	cfg := api.StreamConfig{
		Name: "S", Subjects: []string{">"}, Storage: api.FileStorage, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPer: 2, MaxMsgSize: -1,
		MaxConsumers: -1, Replicas: 1, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Minute,
	}
	start := time.Unix(1000, 0)
	build := func(enter func(*State, Message)) *State {
		s, err := New(cfg, start)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			m := Message{Seq: uint64(2*i + 1), Time: start.Add(time.Duration(i) * time.Second).UnixNano(), Subject: []byte{'a' + byte(i%7)}, Size: i}
			switch i % 3 {
			case 1:
				m.Header = []byte("NATS/1.0\r\nNats-TTL: 10s\r\nX: y\r\n\r\n")
			case 2:
				m.Header = []byte("NATS/1.0\r\nX: y\r\n\r\n")
			}
			enter(s, m)
		}
		return s
	}
	applied := build(func(s *State, m Message) {
		if err := s.Apply(m, &Effects{}); err != nil {
			t.Fatal(err)
		}
	})
	recalled := build(func(s *State, m Message) {
		r := Recalled{Seq: m.Seq, Time: m.Time, Subject: m.Subject, Size: s.accounted(len(m.Subject), len(m.Header), m.Size), Note: AppendNote(nil, m.Header)}
		if err := s.Recall(r, &Effects{}); err != nil {
			t.Fatal(err)
		}
	})
	want, err := applied.Snapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := recalled.Snapshot(nil); err != nil || string(got) != string(want) {
		t.Errorf("the states differ (%v)", err)
	}
	if applied.NextExpiry() != recalled.NextExpiry() || applied.NextExpiry().IsZero() {
		t.Errorf("the next expiry is %v and %v", applied.NextExpiry(), recalled.NextExpiry())
	}
}
