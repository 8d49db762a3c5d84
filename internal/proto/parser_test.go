package proto

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// run parses input in the given pieces, the way a connection does: what is left over stands before the next piece. It
// writes down what it sees.
func run(input []byte, pieces []int) (events []string) {
	p := &Parser{MaxControlLine: 64, MaxPayload: 100, Headers: true}
	var buf []byte
	for len(input) > 0 || len(pieces) > 0 {
		n := len(input)
		if len(pieces) > 0 {
			n = min(n, pieces[0])
			pieces = pieces[1:]
		}
		buf = append(buf, input[:n]...)
		input = input[n:]
		p.Feed(buf)
		for {
			op, err := p.Next()
			if err != nil {
				return append(events, "error "+kind(err))
			}
			if op == OpNone {
				break
			}
			events = append(events, event(p, op))
		}
		buf = bytes.Clone(p.Rest())
	}
	return events
}

func kind(err error) string {
	for _, k := range []error{ErrUnknownOperation, ErrMaxControlLine, ErrMaxPayload, ErrHeaders, ErrArguments} {
		if errors.Is(err, k) {
			return k.Error()
		}
	}
	return "unknown: " + err.Error()
}

func event(p *Parser, op Op) string {
	switch op {
	case OpPub:
		return fmt.Sprintf("pub %q reply %q header %q data %q wire %q", p.Pub.Subject, p.Pub.Reply(), p.Pub.Header(), p.Pub.Data(), p.Pub.Wire)
	case OpPing, OpPong, OpOK, OpIgnore:
		return fmt.Sprint("op ", op)
	}
	return fmt.Sprintf("op %d %q", op, p.Arg)
}

func TestParser(t *testing.T) {
	const max = "maximum control line exceeded"
	tests := []struct{ name, in, want string }{
		{"pub", "PUB a.b 2\r\nhi\r\n", `pub "a.b" reply "" header "" data "hi" wire "2\r\nhi\r\n"`},
		{"reply", "PUB a.b r 2\r\nhi\r\n", `pub "a.b" reply "r" header "" data "hi" wire "r 2\r\nhi\r\n"`},
		{"loose", "pub  a.b\t r  02 \nhi\r\n", `pub "a.b" reply "r" header "" data "hi" wire "r 02\r\nhi\r\n"`},
		{"line feed", "PUB a 2\nhi\r\n", `pub "a" reply "" header "" data "hi" wire "2\r\nhi\r\n"`},
		{"hpub", "HPUB a r 4 6\r\nHEADhi\r\n", `pub "a" reply "r" header "HEAD" data "hi" wire "r 4 6\r\nHEADhi\r\n"`},
		{"hpub without header", "HPUB a 0 2\r\nhi\r\n", `pub "a" reply "" header "" data "hi" wire "2\r\nhi\r\n"`},
		{"blank subject", "PUB  2\r\nhi\r\n", "error malformed arguments"},
		{"no arguments", "PUB \r\n\r\n", "error malformed arguments"},
		{"ten digits", "PUB a 0000000002\r\nhi\r\n", "error malformed arguments"},
		{"long payload", "PUB a 101\r\n", "error maximum payload exceeded"},
		{"long line", "PUB " + strings.Repeat("a", 63) + " 1\r\n", "error " + max},
		{"line that fits", "PUB " + strings.Repeat("a", 62) + " 0\r\n\r\n", `pub "` + strings.Repeat("a", 62) + `" reply "" header "" data "" wire "0\r\n\r\n"`},
		{"endless line", "SUB " + strings.Repeat("a", 200), "error " + max},
		{"endless blanks", "SUB " + strings.Repeat(" ", 200), "error " + max},
		{"endless ping", "PING" + strings.Repeat("x", 500) + "\n", "op 4"},
		{"sub", "SUB a b 1\r\n", `op 2 "a b 1"`},
		{"unsub", "unsub 1\n", `op 3 "1"`},
		{"connect", "CONNECT {}\r\n", `op 6 "{}"`},
		{"tight connect", "CONNECT{}\r\n", `op 6 "{}"`},
		{"garbage", "XYZ", "error unknown protocol operation"},
		{"almost a verb", "PUBX a", "error unknown protocol operation"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(run([]byte(tt.in), nil), "\n"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestNeed(t *testing.T) {
	p := &Parser{MaxControlLine: 64, MaxPayload: -1}
	p.Feed([]byte("PUB a 1000\r\nx"))
	if op, err := p.Next(); op != OpNone || err != nil {
		t.Fatal(op, err)
	}
	if got, want := p.Need(), len("PUB a 1000\r\n")+1000+2; got != want {
		t.Errorf("Need is %d, want %d", got, want)
	}
}

// FuzzParser checks that input means the same however it is cut, and that what is sent on is what was received.
func FuzzParser(f *testing.F) {
	for _, s := range []string{
		"PUB a 2\r\nhi\r\nPING\r\n", "HPUB a r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", "sub a  q 1\nUNSUB 1 5\r\n", "CONNECT {\"a\":1}\r\n+OK\r\n",
		"-ERR 'x'\r\n", "HMSG a b\r\n\r\n", "PUB a\rb 12\n\r\n", "PUB \n a 0\r\n\r\n", "PINGxx\nPONG\r\nINFO {}\r\n", "PUB a 99999999999\r\n",
	} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, input []byte, seed uint64) {
		whole := run(input, nil)
		random := rand.New(rand.NewPCG(seed, 0))
		var pieces []int
		for left := len(input); left > 0; {
			n := 1 + random.IntN(min(left, 1+random.IntN(40)))
			pieces = append(pieces, n)
			left -= n
		}
		cut := run(input, pieces)
		if strings.Join(whole, "\n") != strings.Join(cut, "\n") {
			t.Fatalf("whole: %q\ncut:   %q\npieces %v", whole, cut, pieces)
		}
	})
}

func TestBlank(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		s := make([]byte, random.IntN(30))
		for i := range s {
			s[i] = byte(random.IntN(256))
			if random.IntN(4) > 0 {
				s[i] = byte('!' + random.IntN(256-'!'))
			}
		}
		want := -1
		for i, c := range s {
			if c <= ' ' {
				want = i
				break
			}
		}
		if got := blank(s); got != want {
			t.Fatalf("blank(%q) is %d, want %d", s, got, want)
		}
	}
}

func BenchmarkParser(b *testing.B) {
	chunk := bytes.Repeat([]byte("PUB bench.s0 16\r\n0123456789abcdef\r\n"), 1800)
	p := &Parser{MaxControlLine: 4096, MaxPayload: 1 << 20}
	b.SetBytes(int64(len(chunk)))
	for range b.N / 1800 {
		p.Feed(chunk)
		for {
			op, err := p.Next()
			if err != nil {
				b.Fatal(err)
			}
			if op == OpNone {
				break
			}
		}
	}
}
