package differ

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/bench/process"
	"github.com/sluicemq/sluice/test/rig"
)

var (
	firstSeed = flag.Uint64("seed", 0, "first seed; 0 takes the time")
	duration  = flag.Duration("duration", 5*time.Second, "how long to look for differences")
	keepGoing = flag.Int("differences", 1, "stop after so many")
)

// TestDifferential is the fuzzer. For a long run: go test ./differ -run Differential -duration 1h -timeout 2h
func TestDifferential(t *testing.T) {
	search(t, rig.StartReference(t, "-n", "a"), rig.StartSluice(t, rig.DirStore(t)))
}

// TestReferenceWithItself makes sure that the comparison leaves out what one server does differently each time.
func TestReferenceWithItself(t *testing.T) {
	search(t, rig.StartReference(t, "-n", "a"), rig.StartReference(t, "-n", "b"))
}

func search(t *testing.T, a, b *process.Server) {
	seed := *firstSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixMilli() % 1_000_000_000)
	}
	t.Logf("first seed %d", seed)
	found := 0
	rounds := 0
	for until := time.Now().Add(*duration); time.Now().Before(until); seed++ {
		rounds++
		difference := Round(seed, a.Addr(), b.Addr())
		for _, s := range []*process.Server{a, b} {
			if err := s.Exited(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if difference == "" {
			continue
		}
		// A slow machine can make silence look like an end: what is real shows again.
		if difference = Round(seed, a.Addr(), b.Addr()); difference == "" {
			continue
		}
		t.Errorf("seed %d: %s", seed, difference)
		if found++; found == *keepGoing {
			break
		}
	}
	t.Logf("%d rounds, %d differences", rounds, found)
}

// TestCompareSeesDifferences damages a transcript and expects to be told.
func TestCompareSeesDifferences(t *testing.T) {
	p := plan{steps: []step{
		{client: 0, fragments: [][]byte{[]byte("SUB a 1\r\nSUB a 2\r\nSUB a q 3\r\n")}},
		{client: 1, fragments: [][]byte{[]byte("SUB a q 1\r\nPUB a 1\r\nx\r\n")}},
	}}
	said := func(client0, client1 string) transcript {
		return transcript{{}, {[]byte("+OK\r\n+OK\r\n+OK\r\nPONG\r\n"), []byte("PONG\r\n")}, {[]byte(client0), []byte(client1)}}
	}
	const msg1, msg2, msg3 = "MSG a 1 1\r\nx\r\n", "MSG a 2 1\r\nx\r\n", "MSG a 3 1\r\nx\r\n"
	base := said(msg1+msg2+msg3+"PONG\r\n", "PONG\r\n")
	for _, tc := range []struct {
		name  string
		other transcript
		same  bool
	}{
		{"itself", base, true},
		{"another order of subscriptions", said(msg2+msg3+msg1+"PONG\r\n", "PONG\r\n"), true},
		{"another member of the queue group", said(msg2+msg1+"PONG\r\n", msg1+"PONG\r\n"), true},
		{"a delivery less", said(msg1+msg3+"PONG\r\n", "PONG\r\n"), false},
		{"a delivery twice", said(msg1+msg1+msg2+msg3+"PONG\r\n", "PONG\r\n"), false},
		{"no member of the queue group", said(msg1+msg2+"PONG\r\n", "PONG\r\n"), false},
		{"both members of the queue group", said(msg1+msg2+msg3+"PONG\r\n", msg1+"PONG\r\n"), false},
		{"another payload", said(strings.ReplaceAll(msg1+msg2+msg3, "x", "y")+"PONG\r\n", "PONG\r\n"), false},
		{"an error more", said(msg1+msg2+msg3+"-ERR 'x'\r\nPONG\r\n", "PONG\r\n"), false},
		{"closed", said(msg1+msg2+msg3+closedMark, "PONG\r\n"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if difference := compare(p, base, tc.other); (difference == "") != tc.same {
				t.Errorf("difference %q, want same=%t", difference, tc.same)
			}
		})
	}
}
