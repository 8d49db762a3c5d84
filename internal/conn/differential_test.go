package conn

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

// differentialEnv is how many random streams TestDifferential compares; a few where it is not set.
const differentialEnv = "SLUICE_DIFFERENTIAL"

// TestDifferential sends the same random streams, valid and not, to Sluice and to nats-server, and compares what comes
// back.
func TestDifferential(t *testing.T) {
	reference := startReference(t, "")
	_, addr := startServer(t, account.Settings{}, nil)
	n := 300
	if v := os.Getenv(differentialEnv); v != "" {
		n, _ = strconv.Atoi(v)
	}
	seed := rand.Uint64()
	for i := range n {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		in := randomStream(random, fmt.Sprintf("d%d", i))
		got, want := transcript(t, addr, in), transcript(t, reference, in)
		if got != want {
			t.Errorf("seed %d, stream %d:\nin   %.2000q\ngot  %.1000q\nwant %.1000q", seed, i, in, got, want)
			if i > 20 {
				return
			}
		}
	}
}

// transcript sends a stream, ends its own direction, and reads until the server ends the other.
func transcript(t *testing.T, addr string, in []byte) string {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	out := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(nc)
		out <- b
	}()
	_, _ = nc.Write(in)
	_ = nc.(*net.TCPConn).CloseWrite()
	return canonical(<-out)
}

var (
	anyInfo      = regexp.MustCompile(`INFO \{[^\r\n]*\} ?\r\n`)
	noResponders = regexp.MustCompile(`HMSG (\S+) \S+ (\d+ \d+\r\nNATS/1.0 503)`)
)

// canonical makes transcripts comparable: INFO lines lose their contents, copies of one message to several
// subscriptions, whose order is free, are sorted, and it does not matter which of several hears of missing responders.
func canonical(b []byte) string {
	b = anyInfo.ReplaceAll(b, []byte("INFO\r\n"))
	b = noResponders.ReplaceAll(b, []byte("HMSG $1 sid $2"))
	// nats-server says this twice where TCP happens to cut a payload.
	const invalid = "-ERR 'Invalid Publish Subject'\r\n"
	for bytes.Contains(b, []byte(invalid+invalid)) {
		b = bytes.ReplaceAll(b, []byte(invalid+invalid), []byte(invalid))
	}
	var frames []string
	for len(b) > 0 {
		n := frame(b)
		frames = append(frames, string(b[:n]))
		b = b[n:]
	}
	for i := 0; i < len(frames); {
		j := i + 1
		for j < len(frames) && copyOf(frames[i]) != "" && copyOf(frames[i]) == copyOf(frames[j]) {
			j++
		}
		slices.Sort(frames[i:j])
		i = j
	}
	return strings.Join(frames, "")
}

// frame is the length of the first line, and of the payload that follows it.
func frame(b []byte) int {
	nl := bytes.IndexByte(b, '\n') + 1
	if nl == 0 {
		return len(b)
	}
	f := bytes.Fields(b[:nl])
	if len(f) > 3 && (string(f[0]) == "MSG" || string(f[0]) == "HMSG") {
		if size, err := strconv.Atoi(string(f[len(f)-1])); err == nil {
			nl += size + 2
		}
	}
	return min(nl, len(b))
}

// copyOf is a message without its subscription; "" for anything else.
func copyOf(s string) string {
	line, payload, _ := strings.Cut(s, "\r\n")
	f := strings.Split(line, " ")
	if len(f) < 4 || !strings.HasSuffix(f[0], "MSG") {
		return ""
	}
	return strings.Join(slices.Delete(f, 2, 3), " ") + payload
}

// randomStream makes operations, most of them sound, below a subject of their own.
func randomStream(random *rand.Rand, own string) []byte {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	rare := func(s string, list ...string) string {
		if random.IntN(40) == 0 {
			return pick(list...)
		}
		return s
	}
	// No carriage returns within lines: what they mean to nats-server depends on how TCP cuts the stream.
	blank := func() string { return rare(" ", "  ", "\t", " \t ", "", "\n") }
	end := func() string { return rare("\r\n", "\n", " \r\n", "") }
	subj := func() string {
		return own + "." + rare(pick("a", "b", "a.b", "b.a"), "a..b", "*", ">", "a.*", "", ".", "a b", strings.Repeat("x", 5000))
	}
	pattern := func() string {
		return rare(own+"."+pick("a", "b", "*", ">", "a.*", "*.a", "a.b"), own+"..a", own+".>.a", "", own+".a.")
	}
	number := func(n int) string {
		return rare(strconv.Itoa(n), "-1", "x", "", "0"+strconv.Itoa(n), strconv.Itoa(n+1), "99999999999", "2000000", "1048577")
	}
	verb := func(v string) string {
		if random.IntN(20) == 0 {
			v = strings.ToLower(v)
		}
		return rare(v, v[:len(v)-1], v+"X", "", "GET", "RS+", "MSG", "+OK", "-ERR")
	}
	var b strings.Builder
	if random.IntN(10) > 0 {
		fmt.Fprintf(&b, "CONNECT {\"verbose\":%s,\"pedantic\":%s,\"headers\":%s,\"no_responders\":%s,\"echo\":%s,\"protocol\":%s}%s",
			pick("false", "false", "true"), pick("false", "true"), pick("true", "true", "false"), pick("true", "true", "false"),
			pick("true", "true", "false"), rare("1", "0", "2"), end())
	}
	for range random.IntN(30) {
		switch random.IntN(10) {
		case 0, 1:
			queue := ""
			if random.IntN(3) == 0 {
				queue = blank() + fmt.Sprintf("q%d", b.Len()) // alone in its group, or chance decides
			}
			fmt.Fprintf(&b, "%s%s%s%s%s%d%s", verb("SUB"), blank(), pattern(), queue, blank(), random.IntN(5), end())
		case 2:
			max := ""
			if random.IntN(2) == 0 {
				max = blank() + number(random.IntN(4))
			}
			fmt.Fprintf(&b, "%s%s%d%s%s", verb("UNSUB"), blank(), random.IntN(5), max, end())
		case 3:
			fmt.Fprintf(&b, "%s%s", verb("PING"), end())
		case 4:
			fmt.Fprintf(&b, "%s%s", rare("PONG", "+OK", "INFO {}", "-ERR 'x'", "CONNECT {}"), end())
		case 5, 6:
			header := rare("NATS/1.0\r\nA: b\r\n\r\n", "", "xx")
			data := strings.Repeat("y", random.IntN(20))
			reply := rare(blank()+own+"."+pick("a", "b", "nobody"), "", blank()+"$JS.API.x", blank()+"_R_.y")
			fmt.Fprintf(&b, "%s%s%s%s%s%s%s%s%s%s%s%s", verb("HPUB"), blank(), subj(), reply, blank(), number(len(header)), blank(),
				number(len(header)+len(data)), end(), header, data, end())
		default:
			data := strings.Repeat("z", random.IntN(20))
			reply := ""
			if random.IntN(2) == 0 {
				reply = blank() + rare(own+"."+pick("a", "b", "nobody"), "$JS.ACK.x", "$SYS.x", "_INBOX.a", "_GR_.x")
			}
			fmt.Fprintf(&b, "%s%s%s%s%s%s%s%s%s", verb("PUB"), blank(), rare(subj(), "$GR.x", "$NRG.x", "_R_.x"), reply, blank(), number(len(data)), end(), data, end())
		}
	}
	return []byte(b.String())
}
