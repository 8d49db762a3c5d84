package consumer

import (
	"strconv"
	"testing"
)

func TestParseAckSubject(t *testing.T) {
	for _, tc := range []struct {
		subject string
		want    string // stream/consumer deliveries stream-seq consumer-seq time pending, "" where it is none
	}{
		{"$JS.ACK.S.C.1.2.3.4.5", "S/C 1 2 3 4 5"},
		{"$JS.ACK._.hash.S.C.1.2.3.4.5", "S/C 1 2 3 4 5"},
		{"$JS.ACK._.hash.S.C.1.2.3.4.5.token", "S/C 1 2 3 4 5"},
		{"$JS.ACK.dom.hash.S.C.1.2.3.4.5.more.tokens", "S/C 1 2 3 4 5"},
		{"$JS.ACK.1.2.S.C.1.2.3.4.5", "S/C 1 2 3 4 5"},
		{"$JS.ACK.1.2.3.4.5.6.7.8.9", "3/4 5 6 7 8 9"},
		{"$JS.ACK.S.C.1.2.3.4", ""},
		{"$JS.ACK.S.C.1.2.3.4.5.6", ""},
		{"$JS.ACK.S.C.1.2.3.4.", ""},
		{"$JS.ACK.S.C.1.2.3.4.x", ""},
		{"$JS.ACK.S.C.1.2.3.4.5x", ""},
		{"$JS.ACK.S.C.-1.2.3.4.5", ""},
		{"$JS.ACK.S..1.2.3.4.5", ""},
		{"$JS.ACK..C.1.2.3.4.5", ""},
		{"$JS.ACK.S.C.1.99999999999999999999.3.4.5", ""},
		{"$JS.FC.S.C.1.2.3.4.5", ""},
		{"$JS.ACK", ""},
		{"", ""},
	} {
		a, ok := ParseAckSubject([]byte(tc.subject))
		got := ""
		if ok {
			got = string(a.Stream) + "/" + string(a.Consumer)
			for _, n := range []uint64{a.Deliveries, a.StreamSeq, a.ConsumerSeq, uint64(a.Time), a.Pending} {
				got += " " + strconv.FormatUint(n, 10)
			}
		}
		if got != tc.want {
			t.Errorf("%q is %q, should be %q", tc.subject, got, tc.want)
		}
	}
}

func FuzzParseAckSubject(f *testing.F) {
	f.Add([]byte("$JS.ACK.S.C.1.2.3.4.5"))
	f.Add([]byte("$JS.ACK._.hash.S.C.1.2.3.4.5.token"))
	f.Fuzz(func(t *testing.T, subject []byte) {
		a, ok := ParseAckSubject(subject)
		if ok && (len(a.Stream) == 0 || len(a.Consumer) == 0) {
			t.Fatalf("%q has no names", subject)
		}
	})
}

// TestNoAllocations: a delivery and its acknowledgement need no memory of their own.
func TestNoAllocations(t *testing.T) {
	for _, raw := range []string{
		`{"ack_policy":"explicit","max_ack_pending":-1}`,
		`{"ack_policy":"all","max_ack_pending":-1}`,
		`{"ack_policy":"none"}`,
		`{"ack_policy":"explicit","max_ack_pending":-1,"deliver_subject":"D","idle_heartbeat":1000000000}`,
	} {
		c := New(Options{Stream: "S", Name: "C", Config: checkedConfig(t, raw), Messages: &endless{1 << 40}}, epoch)
		c.Interest(true, epoch)
		var fx Effects
		var d Dispatch
		progress := make([]byte, 0, 1<<10)
		c.Pull([]byte("r"), []byte("100000000"), epoch, &fx)
		n := testing.AllocsPerRun(5000, func() {
			seq, _ := c.Peek(epoch, &fx)
			if !c.Take(&d, Message{Seq: seq, Time: 1}, epoch, &fx) {
				t.Fatal("nothing goes out")
			}
			a, ok := ParseAckSubject(d.Reply)
			if !ok {
				t.Fatalf("%q", d.Reply)
			}
			c.Ack(&a, nil, nil, epoch, &fx)
			progress = c.Progress(progress[:0])
		})
		if n != 0 {
			t.Errorf("%s: %v allocations a message", raw, n)
		}
	}
}
