package stream

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

func TestSourcesAreNamedAsInNATS(t *testing.T) {
	for _, c := range []struct {
		src  api.StreamSource
		want string
	}{
		{api.StreamSource{Name: "S"}, "S > >"},
		{api.StreamSource{Name: "S", FilterSubject: "a.*"}, "S a.* >"},
		{api.StreamSource{Name: "S", SubjectTransforms: []api.SubjectTransformConfig{{Source: "a", Destination: "b"}, {Source: "c"}}}, "S a\fc b\f>"},
		{api.StreamSource{Name: "S", External: &api.ExternalStream{ApiPrefix: "$JS.hub.API"}}, "S:" + ShortHash("$JS.hub.API") + " > >"},
		{api.StreamSource{Name: "S", Consumer: &api.StreamConsumerSource{Name: "c"}}, "S:C=" + ShortHash("c") + " > >"},
	} {
		key := SourceKey(&c.src)
		if key != c.want {
			t.Errorf("got %q, want %q", key, c.want)
		}
		for _, at := range []SourcePosition{{7, ""}, {1 << 40, "abcdefgh"}} {
			back, pos, ok := parseSource(nil, AppendSource(nil, key, at, []byte("a.b")))
			if !ok || string(back) != key || pos != at {
				t.Errorf("%q at %+v comes back as %q at %+v, %t", key, at, back, pos, ok)
			}
		}
	}
	for _, value := range []string{"", "S", "S 3", "S x > > a", "S 0 > > a", "$JS.ACK.S.c.1.2.3.4.5"} {
		if _, _, ok := parseSource(nil, []byte(value)); ok {
			t.Errorf("%q is understood", value)
		}
	}
}

func TestAcceptMirrored(t *testing.T) {
	s := testState(t, api.StreamConfig{Subjects: []string{}, Mirror: &api.StreamSource{Name: "O"}, Duplicates: time.Minute, MaxMsgsPer: 2})
	e := &Effects{}
	header := []byte("NATS/1.0\r\nNats-Msg-Id: x\r\nNats-Rollup: sub\r\n\r\n")
	for _, seq := range []uint64{5, 6, 9} { // one id, which a mirror does not look at
		a, err := s.AcceptMirrored(Publish{Subject: []byte("a.b"), Header: header, Size: 1}, seq, int64(seq)*10)
		if err != nil || a.Seq != seq || a.Time != int64(seq)*10 || a.Duplicate {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if _, err := s.AcceptMirrored(Publish{Subject: []byte("a.b")}, 9, 0); err == nil || err.Code != jserr.StreamSequenceNotMatch {
		t.Errorf("a sequence twice: %v", err)
	}
	for _, seq := range []uint64{5, 6, 9} {
		if err := s.Apply(Message{Seq: seq, Time: int64(seq) * 10, Subject: []byte("a.b"), Header: header, Size: 1}, e); err != nil {
			t.Fatal(err)
		}
	}
	// Rollups are not allowed here, so they roll nothing up.
	if s.FirstSeq() != 6 || s.LastSeq() != 9 || s.Msgs() != 2 || s.NumDeleted() != 2 || s.LastTime() != 90 {
		t.Errorf("first %d, last %d, %d messages, %d deleted, last time %d", s.FirstSeq(), s.LastSeq(), s.Msgs(), s.NumDeleted(), s.LastTime())
	}
	if a, err := s.Accept(Publish{Subject: []byte("a.b")}, time.Unix(0, 50)); err != nil || a.Seq != 10 || a.Time != 90 {
		t.Errorf("once promoted: %+v, %v", a, err)
	}
}

func TestAReplayFindsThePositionsOfSources(t *testing.T) {
	cfg := api.StreamConfig{Sources: []*api.StreamSource{{Name: "O"}, {Name: "P", FilterSubject: "p.*"}}, MaxMsgs: 2}
	live, replayed := testState(t, cfg), testState(t, cfg)
	e := &Effects{}
	for i := range 10 {
		key, at := "O > >", SourcePosition{uint64(10 + i), "one"}
		if i%3 == 0 {
			key, at = "P p.* >", SourcePosition{uint64(i + 1), ""}
		}
		subj := []byte("a.b")
		header := fmt.Appendf(nil, "NATS/1.0\r\nNats-Stream-Source: %s\r\n\r\n", AppendSource(nil, key, at, subj))
		a, err := live.AcceptSourced(Publish{Subject: subj, Header: header}, key, at, subj, nil, time.Unix(1, 0))
		if err != nil || a.Seq != uint64(i+1) {
			t.Fatalf("%+v, %v", a, err)
		}
		m := Message{Seq: a.Seq, Time: a.Time, Subject: subj, Header: header}
		for _, s := range []*State{live, replayed} {
			if err := s.Apply(m, e); err != nil {
				t.Fatal(err)
			}
			if got := s.Source(key); got != at {
				t.Errorf("%s is at %+v instead of %+v", key, got, at)
			}
		}
	}
	if all := live.Sources(); len(all) != 2 || all["P p.* >"].Seq != 10 {
		t.Errorf("%v", all)
	}
	// A source that was left out for a while is not read again.
	without := live.Config()
	without.Sources = without.Sources[:1]
	for _, c := range []api.StreamConfig{without, live.Config()} {
		if err := live.UpdateConfig(c, e); err != nil {
			t.Fatal(err)
		}
	}
	if at := live.Source("P p.* >"); at.Seq != 10 {
		t.Errorf("%+v", at)
	}
}

func TestStrayPositionsAreBounded(t *testing.T) {
	s := testState(t, api.StreamConfig{})
	e := &Effects{}
	for i := range 3 * maxStraySources {
		header := fmt.Appendf(nil, "NATS/1.0\r\nNats-Stream-Source: S%d 1 > > a.b\r\n\r\n", i)
		if err := s.Apply(Message{Seq: uint64(i + 1), Subject: []byte("a.b"), Header: header}, e); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.Sources()); n != maxStraySources {
		t.Errorf("%d positions", n)
	}
}

func TestADuplicateOfASourceIsNotStored(t *testing.T) {
	s := testState(t, api.StreamConfig{Sources: []*api.StreamSource{{Name: "O"}}, Duplicates: time.Minute})
	header := []byte("NATS/1.0\r\nNats-Msg-Id: x\r\n\r\n")
	publish := func() Accepted {
		a, err := s.AcceptSourced(Publish{Subject: []byte("a.b"), Header: header}, "O > >", SourcePosition{Seq: 1}, []byte("a.b"), nil, time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := publish(); a.Duplicate {
		t.Errorf("%+v", a)
	}
	if a := publish(); !a.Duplicate || a.Seq != 1 {
		t.Errorf("%+v", a)
	}
}
