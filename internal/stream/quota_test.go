package stream

import (
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// TestQuotaIsAskedLast looks when the quota is asked: not about what is refused or a duplicate, and before discard: new.
func TestQuotaIsAskedLast(t *testing.T) {
	cfg, err := CheckConfig(api.StreamConfig{Name: "S", Subjects: []string{"s.*"}, MaxMsgs: 1, Discard: api.DiscardNew, MaxMsgSize: 100}, Limits{}, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	asked, full := 0, false
	quota := func(subject []byte, size uint64) *jserr.Error {
		asked++
		if string(subject) != "s.a" || size != uint64(len("s.a"))+29+10+34 {
			t.Errorf("asked for %d bytes of %s", size, subject)
		}
		if full {
			return jserr.New(jserr.AccountResourcesExceeded)
		}
		return nil
	}
	publish := func(id string, size int) (Accepted, jserr.Code) {
		header := []byte("NATS/1.0\r\nNats-Msg-Id: " + id + "\r\n\r\n")
		a, err := s.Accept(Publish{Subject: []byte("s.a"), Header: header, Size: size, Quota: quota}, time.Unix(1, 0))
		if err != nil {
			return a, err.Code
		}
		return a, 0
	}
	full = true
	if _, code := publish("i1", 10); code != jserr.AccountResourcesExceeded || asked != 1 || s.AcceptedBytes() != 0 {
		t.Errorf("full: code %d, asked %d times, %d bytes", code, asked, s.AcceptedBytes())
	}
	full = false
	if a, code := publish("i1", 10); code != 0 || a.Seq != 1 || s.AcceptedBytes() != 76 || s.Bytes() != 0 {
		t.Errorf("not full: code %d, sequence %d, %d bytes", code, a.Seq, s.AcceptedBytes())
	}
	full = true
	if a, code := publish("i1", 10); code != 0 || !a.Duplicate || asked != 2 {
		t.Errorf("a duplicate: code %d, asked %d times", code, asked)
	}
	if _, code := publish("i2", 101); code != jserr.StreamMessageExceedsMaximum || asked != 2 {
		t.Errorf("too large: code %d, asked %d times", code, asked)
	}
	if _, code := publish("i2", 10); code != jserr.AccountResourcesExceeded {
		t.Errorf("with both full: code %d", code)
	}
	full = false
	if _, code := publish("i2", 10); code != jserr.StreamStoreFailed {
		t.Errorf("with the stream full: code %d", code)
	}
	var e Effects
	if err := s.Apply(Message{Seq: 1, Time: 1e9, Subject: []byte("s.a"), Header: []byte("NATS/1.0\r\nNats-Msg-Id: i1\r\n\r\n"), Size: 10}, &e); err != nil {
		t.Fatal(err)
	}
	if s.AcceptedBytes() != 76 || s.Bytes() != 76 {
		t.Errorf("visible: %d of %d bytes", s.Bytes(), s.AcceptedBytes())
	}
	s.Purge(Purge{}, &e)
	if s.AcceptedBytes() != 0 {
		t.Errorf("purged: %d bytes", s.AcceptedBytes())
	}
}
