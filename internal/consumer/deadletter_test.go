package consumer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// grim is a consumer with dead letters and some delivered messages.
func grim(t *testing.T, policy api.AckPolicy, messages int) *world {
	t.Helper()
	w := newWorld(t)
	w.opts.Retains, w.opts.DeadLetters = true, DeadMaxDeliver|DeadTerm
	w.create(api.ConsumerConfig{Durable: "C", AckPolicy: policy, MaxDeliver: 2, AckWait: time.Minute, MaxAckPending: messages, MaxWaiting: 10})
	for range messages {
		w.publish("a", 1)
	}
	w.pull(t, messages)
	return w
}

func (w *world) pull(t *testing.T, n int) {
	t.Helper()
	w.c.Pull([]byte("r"), []byte(`{"no_wait":true,"batch":`+string(rune('0'+n))+`}`), w.now, &w.fx)
	w.settle()
}

func deadSeqs(c *Consumer, refused bool) (seqs []uint64) {
	for _, d := range c.DeadLetters(nil, 100, refused) {
		seqs = append(seqs, d.Seq)
	}
	return seqs
}

func equalSeqs(a []uint64, b ...uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestTheDeadStayPending(t *testing.T) {
	w := grim(t, api.AckExplicit, 3)
	w.ack(1, "+TERM "+strings.Repeat("y", 1000), "")
	w.advance(time.Minute) // 2 and 3 go out again
	w.pull(t, 3)
	w.advance(time.Minute)
	list := w.c.DeadLetters(nil, 10, false)
	if len(list) != 3 || list[0].Cause != DeadTerm || len(list[0].Reason) != maxTermReason || list[1].Cause != DeadMaxDeliver || list[1].Deliveries != 2 {
		t.Fatalf("the dead are %+v", list)
	}
	for _, body := range []string{"-NAK", `-NAK {"delay":1}`, "+WPI", "+TERM again"} {
		w.ack(2, body, "")
	}
	w.advance(time.Hour)
	w.publish("a", 1)
	w.pull(t, 3)
	if n := w.c.NumAckPending(); n != 3 {
		t.Errorf("%d are pending: the dead make no room, and are not delivered", n)
	}
	w.crash(0)
	again := w.c.DeadLetters(nil, 10, false)
	if len(again) != 3 || again[0].Reason != list[0].Reason || again[2] != list[2] {
		t.Errorf("after a restart the dead are %+v", again)
	}
	w.ack(3, "", "") // after all
	if !w.c.Buried(1, &w.fx) || w.c.Buried(3, &w.fx) || w.c.Buried(1, &w.fx) || w.c.NumAckPending() != 1 {
		t.Errorf("%d are pending", w.c.NumAckPending())
	}
	w.remove(2)
	if f, r := w.c.Dead(); f || r || w.c.NumAckPending() != 0 {
		t.Errorf("some are dead still, %d are pending", w.c.NumAckPending())
	}
	w.effects()
	if w.settled[1] != 1 || w.settled[3] != 1 {
		t.Errorf("settled are %v", w.settled)
	}
}

func TestRefusedLettersWaitBehindOthers(t *testing.T) {
	w := grim(t, api.AckExplicit, 4)
	for seq := uint64(1); seq <= 3; seq++ {
		w.ack(seq, "+TERM", "")
	}
	for range 200 { // the queues do not grow
		w.c.Refused(1)
		w.c.Refused(2)
	}
	w.ack(4, "+TERM", "")
	if !equalSeqs(deadSeqs(w.c, false), 3, 4) || !equalSeqs(deadSeqs(w.c, true), 1, 2) {
		t.Fatalf("due are %v, refused %v", deadSeqs(w.c, false), deadSeqs(w.c, true))
	}
	if n := len(w.c.dead.refused); n > 2*4+slack+1 {
		t.Errorf("the queue holds %d items", n)
	}
	w.c.Refused(1)
	if !equalSeqs(deadSeqs(w.c, true), 2, 1) {
		t.Errorf("refused are %v", deadSeqs(w.c, true))
	}
	w.c.GiveUp(2)
	if !w.c.exhausted.has(2) || !equalSeqs(deadSeqs(w.c, true), 1) {
		t.Errorf("refused are %v", deadSeqs(w.c, true))
	}
}

func TestWithoutPolicyTheDeadGoTheirWay(t *testing.T) {
	w := grim(t, api.AckExplicit, 2)
	w.ack(1, "+TERM", "")
	w.advance(time.Minute)
	w.pull(t, 2)
	w.advance(time.Minute)
	w.c.SetDeadLetters(DeadTerm, &w.fx)
	if !equalSeqs(deadSeqs(w.c, false), 1) || !w.c.exhausted.has(2) {
		t.Errorf("dead are %v", deadSeqs(w.c, false))
	}
	w.c.SetDeadLetters(0, &w.fx)
	w.effects()
	if w.c.NumAckPending() != 0 || w.settled[1] != 1 || w.settled[2] != 0 {
		t.Errorf("%d are pending, settled are %v", w.c.NumAckPending(), w.settled)
	}
}

func TestTermWithAckAll(t *testing.T) {
	w := grim(t, api.AckAll, 4)
	w.ack(3, "+TERM", "")
	if !equalSeqs(deadSeqs(w.c, false), 3) || w.c.NumAckPending() != 2 || w.c.floor.stream != 2 {
		t.Fatalf("dead are %v, %d pending, floor %+v", deadSeqs(w.c, false), w.c.NumAckPending(), w.c.floor)
	}
	w.ack(4, "", "") // covers it
	if len(deadSeqs(w.c, false)) != 0 || w.c.NumAckPending() != 0 {
		t.Errorf("dead are %v, %d pending", deadSeqs(w.c, false), w.c.NumAckPending())
	}
}

func TestAConsumerWithDeadIsNotInactive(t *testing.T) {
	for _, policy := range []DeathCause{0, DeadTerm} {
		w := newWorld(t)
		w.opts.DeadLetters = policy
		w.create(api.ConsumerConfig{Name: "C", AckPolicy: api.AckExplicit, AckWait: time.Second, MaxAckPending: 10, MaxWaiting: 10, InactiveThreshold: time.Minute})
		w.publish("a", 1)
		w.pull(t, 1)
		w.ack(1, "+TERM", "")
		w.advance(time.Hour)
		if w.gone != (policy == 0) {
			t.Errorf("with the policy %d: gone is %v", policy, w.gone)
		}
		if w.c.Buried(1, &w.fx); policy != 0 {
			if w.advance(time.Hour); !w.gone {
				t.Error("without dead it stays for ever")
			}
		}
	}
}

func TestDeadLetterConfig(t *testing.T) {
	stream := api.StreamConfig{Name: "S", Subjects: []string{"a"}, Storage: api.FileStorage}
	for _, c := range []struct {
		subject, on string
		ack         api.AckPolicy
		fails       string
		causes      DeathCause
		to          string
	}{
		{"dlq", "", api.AckExplicit, "", DeadMaxDeliver | DeadTerm, "dlq"},
		{"dlq.{{stream}}.{{consumer}}.{{subject}}", "max_deliver", api.AckAll, "", DeadMaxDeliver, "dlq.S.C.x.y"},
		{"dlq", " term , max_deliver", api.AckExplicit, "", DeadMaxDeliver | DeadTerm, "dlq"},
		{"", "term", api.AckExplicit, "", 0, ""},
		{"", "", api.AckNone, "", 0, ""},
		{"dlq", "", api.AckNone, "needs an ack policy", 0, ""},
		{"dlq", "nak", api.AckExplicit, "not a list of", 0, ""},
		{"dlq", ",", api.AckExplicit, "not a list of", 0, ""},
		{"", "nak", api.AckExplicit, "not a list of", 0, ""},
		{"dlq.>", "", api.AckExplicit, "not a valid subject", 0, ""},
		{"dlq.*.{{subject}}", "", api.AckExplicit, "not a valid subject", 0, ""},
		{"dlq..x", "", api.AckExplicit, "not a valid subject", 0, ""},
		{"dlq x", "", api.AckExplicit, "not a valid subject", 0, ""},
		{"dlq.{{account}}", "", api.AckExplicit, "unknown token", 0, ""},
		{"dlq.{{stream}", "", api.AckExplicit, "unknown token", 0, ""},
		{"$JS.API.STREAM.DELETE.S", "", api.AckExplicit, "subject of the server", 0, ""},
		{"$SYS.x", "", api.AckExplicit, "subject of the server", 0, ""},
		{strings.Repeat("x", 300), "", api.AckExplicit, "longer than", 0, ""},
	} {
		metadata := map[string]string{MetadataDeadLetter: c.subject}
		if c.on != "" {
			metadata[MetadataDeadLetterOn] = c.on
		}
		cfg, err := CheckConfig(api.ConsumerConfig{Durable: "C", AckPolicy: c.ack, Metadata: metadata}, stream, Limits{}, false)
		var known *jserr.Error
		switch {
		case c.fails != "":
			if !errors.As(err, &known) || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q on %q: %v", c.subject, c.on, err)
			}
			if c.ack == api.AckExplicit && CheckStreamDeadLetter(&api.StreamConfig{Metadata: metadata}) == nil {
				t.Errorf("%q on %q: taken for a stream", c.subject, c.on)
			}
			continue
		case err != nil:
			t.Errorf("%q on %q: %v", c.subject, c.on, err)
		}
		p := DeadLetters(nil, &cfg)
		if to, ok := p.Subject("S", "C", "x.y"); p.Causes() != c.causes || to != c.to || ok != (to != "") {
			t.Errorf("%q on %q: %v, to %q, %v", c.subject, c.on, p.Causes(), to, ok)
		}
	}
	// A stream's default, and what overrides it.
	def := map[string]string{MetadataDeadLetter: "all", MetadataDeadLetterOn: "term"}
	for _, c := range []struct {
		own    map[string]string
		to     string
		causes DeathCause
	}{
		{nil, "all", DeadTerm},
		{map[string]string{MetadataDeadLetter: ""}, "", 0},
		{map[string]string{MetadataDeadLetter: "own"}, "own", DeadMaxDeliver | DeadTerm},
		{map[string]string{MetadataDeadLetterOn: "max_deliver"}, "all", DeadMaxDeliver},
	} {
		p := DeadLetters(def, &api.ConsumerConfig{AckPolicy: api.AckExplicit, Metadata: c.own})
		if to, _ := p.Subject("S", "C", "x"); to != c.to || p.Causes() != c.causes {
			t.Errorf("%v: %v to %q", c.own, p.Causes(), to)
		}
	}
	if p := DeadLetters(def, &api.ConsumerConfig{AckPolicy: api.AckNone}); p.Causes() != 0 {
		t.Error("nothing dies where nothing is acknowledged")
	}
	if to, ok := (DeadLetterPolicy{template: "{{subject}}"}).Subject("S", "C", "$JS.API.INFO"); ok {
		t.Errorf("%q may be published to", to)
	}
}
