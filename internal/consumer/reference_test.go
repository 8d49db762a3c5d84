package consumer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/proto"
)

// TestReference runs the scripts of testdata/reference against a nats-server and against the state machine, and
// compares every status, every acknowledgement subject and the numbers of the consumer info. It needs the server's
// binary: in SLUICE_NATS_SERVER, or nats-server on the path.
func TestReference(t *testing.T) {
	addr := startReference(t, referenceBinary(t))
	files, _ := filepath.Glob("testdata/reference/*.txt")
	if len(files) == 0 {
		t.Fatal("no scripts")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// The server works through publishes and requests on several goroutines, so that now and then two of them swap
			// places. What differs each time is a difference.
			difference := ""
			for range 3 {
				if difference = compareScript(newScenario(t), newReference(t, addr), string(raw)); difference == "" {
					return
				}
			}
			t.Fatalf("%s:%s", file, difference)
		})
	}
}

// compareScript runs a script on both sides and gives the first difference.
func compareScript(ours *scenario, theirs *reference, script string) string {
	for n, line := range strings.Split(script, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		ours.out.Reset()
		ours.command(line)
		want := theirs.command(line, ours)
		got := slices.Sorted(strings.Lines(ours.out.String()))
		slices.Sort(want)
		if !slices.Equal(got, want) {
			return fmt.Sprintf("%d: %s\nhere:\n%s\nnats-server:\n%s", n+1, line, strings.Join(got, ""), strings.Join(want, ""))
		}
	}
	return ""
}

func referenceBinary(t *testing.T) string {
	binary := os.Getenv("SLUICE_NATS_SERVER")
	if binary == "" {
		binary, _ = exec.LookPath("nats-server")
	}
	if binary == "" || testing.Short() {
		t.Skip("no nats-server, or a short run")
	}
	return binary
}

// startReference runs a server until the test ends.
func startReference(t *testing.T, binary string) string {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), binary, "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", dir, "--ports_file_dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	ports := filepath.Join(dir, fmt.Sprintf("%s_%d.ports", filepath.Base(binary), cmd.Process.Pid))
	for start := time.Now(); time.Since(start) < 10*time.Second; {
		var p struct{ Nats []string }
		if raw, err := os.ReadFile(ports); err == nil && json.Unmarshal(raw, &p) == nil && len(p.Nats) > 0 {
			return strings.TrimPrefix(p.Nats[0], "nats://")
		}
		time.Sleep(10 * time.Millisecond) // the file is the only sign that the server gives
	}
	t.Fatal("the server does not start")
	return ""
}

// reference drives a consumer of a real server with the commands of scenarios.
type reference struct {
	t       *testing.T
	conn    net.Conn
	in      *bufio.Reader
	acks    map[uint64]string
	lines   []string
	answers map[string]string // by reply subject of requests
	next    int
	flow    string   // reply subject of the last flow control message
	subs    []string // subject by subscription id, less 2
	pins    []string // ids, in the order in which they were first seen
	doing   string   // the command whose results are awaited
}

func newReference(t *testing.T, addr string) *reference {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := &reference{t: t, conn: conn, in: bufio.NewReader(conn), acks: map[uint64]string{}, answers: map[string]string{}}
	r.send("CONNECT {\"headers\":true,\"verbose\":false,\"no_responders\":true}\r\nSUB A.req.> 1\r\nPING\r\n")
	r.request("$JS.API.STREAM.DELETE.S", "")
	r.request("$JS.API.STREAM.CREATE.S", `{"name":"S","subjects":["a","b","x","y","a.*","b.*"],"retention":"limits","storage":"memory","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"num_replicas":1}`)
	return r
}

func (r *reference) send(s string) {
	r.conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(r.conn, s); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reference) pub(subj, reply, body string) {
	r.send(fmt.Sprintf("PUB %s %s %d\r\n%s\r\n", subj, reply, len(body), body))
}

// listen subscribes to a reply subject, once.
func (r *reference) listen(name string) string {
	if !slices.Contains(r.subs, name) {
		r.subs = append(r.subs, name)
		r.send(fmt.Sprintf("SUB %s %d\r\n", name, len(r.subs)+1))
	}
	return name
}

// request waits for an answer.
func (r *reference) request(subj, body string) string {
	r.next++
	reply := "A.req." + strconv.Itoa(r.next)
	r.pub(subj, reply, body)
	for {
		if answer, ok := r.answers[reply]; ok {
			return answer
		}
		r.read()
	}
}

// read takes one message in.
func (r *reference) read() {
	line, err := r.in.ReadString('\n')
	if err != nil {
		r.t.Fatalf("%s: reading from nats-server: %v; so far:\n%s", r.doing, err, strings.Join(r.lines, ""))
	}
	words := strings.Fields(line)
	switch {
	case len(words) > 0 && words[0] == "PING":
		r.send("PONG\r\n")
		return
	case len(words) < 4 || words[0] != "MSG" && words[0] != "HMSG":
		return
	}
	to, numbers := words[1], words[3:]
	if sid, _ := strconv.Atoi(words[2]); sid >= 2 {
		to = r.subs[sid-2]
	}
	reply := ""
	if hasReply := len(numbers) - map[string]int{"MSG": 1, "HMSG": 2}[words[0]]; hasReply > 0 {
		reply, numbers = numbers[0], numbers[1:]
	}
	size, _ := strconv.Atoi(numbers[len(numbers)-1])
	header := 0
	if words[0] == "HMSG" {
		header, _ = strconv.Atoi(numbers[0])
	}
	raw := make([]byte, size+2)
	if _, err := io.ReadFull(r.in, raw); err != nil {
		r.t.Fatal(err)
	}
	if strings.HasPrefix(to, "A.req.") {
		r.answers[to] = string(raw[header:size])
		return
	}
	if a, ok := ParseAckSubject([]byte(reply)); ok {
		r.acks[a.StreamSeq] = reply
		r.lines = append(r.lines, fmt.Sprintf("%s <- message %d, consumer sequence %d, delivery %d, %d pending%s\n",
			to, a.StreamSeq, a.ConsumerSeq, a.Deliveries, a.Pending, r.pinText(raw[:header])))
		return
	}
	if reply != "" {
		r.flow = reply
	}
	r.lines = append(r.lines, statusText(to, string(raw[:header])))
}

// pinText tells of the pin in a delivery's header.
func (r *reference) pinText(header []byte) string {
	id, ok := proto.Header(header).Get("Nats-Pin-Id")
	if !ok {
		return ""
	}
	if len(id) > 0 && !slices.Contains(r.pins, string(id)) {
		r.pins = append(r.pins, string(id))
	}
	return ", pin " + pinName(r.pins, string(id))
}

// pull is the body of a request, with the server's pins in the place of ours.
func (r *reference) pull(body string, ours []string) string {
	for i, id := range ours[:min(len(ours), len(r.pins))] {
		body = strings.ReplaceAll(body, id, r.pins[i])
	}
	return body
}

var flowID = regexp.MustCompile(`(\$JS\.FC\.S\.C\.)\w{4}`)

func statusText(to, header string) string {
	header = flowID.ReplaceAllString(header, "${1}*")
	return fmt.Sprintf("%s <- %s\n", to, strings.Join(strings.Split(strings.TrimSuffix(strings.TrimPrefix(header, "NATS/1.0 "), "\r\n\r\n"), "\r\n"), " | "))
}

// command does what the scenario did, and gives what came back, once that is as much as there.
func (r *reference) command(line string, ours *scenario) []string {
	words := strings.Fields(line)
	r.lines = nil
	switch words[0] {
	case "create", "update":
		cfg := ours.cfg
		if words[0] == "create" {
			r.request("$JS.API.CONSUMER.DELETE.S.C", "")
		}
		raw, _ := json.Marshal(map[string]any{"stream_name": "S", "config": cfg})
		raw = []byte(strings.Replace(string(raw), `,"pause_until":"0001-01-01T00:00:00Z"`, "", 1))
		if answer := r.request("$JS.API.CONSUMER.CREATE.S.C", string(raw)); strings.Contains(answer, `"error"`) {
			r.t.Fatalf("%s: %s", raw, answer)
		}
	case "publish":
		n, size := 1, 10
		for _, a := range words[2:] {
			if v, ok := strings.CutPrefix(a, "size="); ok {
				size, _ = strconv.Atoi(v)
			} else {
				n, _ = strconv.Atoi(a)
			}
		}
		for range n {
			r.request(words[1], strings.Repeat("x", size))
		}
	case "pull":
		r.pub("$JS.API.CONSUMER.MSG.NEXT.S.C", r.listen(words[1]), r.pull(ours.lastPull, ours.pins))
	case "ack", "nak", "term", "wpi":
		seq, _ := strconv.ParseUint(words[1], 10, 64)
		if answered := strings.Contains(ours.out.String(), "answered\n"); answered {
			r.request(r.acks[seq], ours.lastAnswer)
			r.lines = append(r.lines, "answered\n")
		} else {
			r.pub(r.acks[seq], "", ours.lastAnswer)
		}
	case "next":
		seq, _ := strconv.ParseUint(words[1], 10, 64)
		r.pub(r.acks[seq], r.listen(words[2]), ours.lastAnswer)
	case "interest":
		if words[1] == "on" {
			r.listen(ours.cfg.DeliverSubject)
		} else if i := slices.Index(r.subs, ours.cfg.DeliverSubject); i >= 0 {
			r.subs[i] = ""
			r.send(fmt.Sprintf("UNSUB %d\r\n", i+2))
		}
	case "flow":
		header := flowHeader(words[1:])
		if len(header) == 0 {
			header = []byte("NATS/1.0\r\n\r\n")
		}
		r.send(fmt.Sprintf("HPUB %s %d %d\r\n%s\r\n", r.flow, len(header), len(header), header))
	case "unpin":
		var a api.JSApiConsumerUnpinResponse
		if err := json.Unmarshal([]byte(r.request("$JS.API.CONSUMER.UNPIN.S.C", fmt.Sprintf(`{"group":%q}`, words[1]))), &a); err != nil {
			r.t.Fatal(err)
		}
		if a.Error != nil {
			r.lines = append(r.lines, fmt.Sprintf("error: %s (%d)\n", a.Error.Description, a.Error.ErrCode))
		}
	case "advance":
		d, _ := time.ParseDuration(words[1])
		time.Sleep(d) // a real server's time passes no faster
	case "remove":
		r.request("$JS.API.STREAM.MSG.DELETE.S", fmt.Sprintf(`{"seq":%s}`, words[1]))
	case "purge":
		body := ""
		if len(words) > 1 {
			upTo, _ := strconv.Atoi(words[1])
			body = fmt.Sprintf(`{"seq":%d}`, upTo+1)
		}
		r.request("$JS.API.STREAM.PURGE.S", body)
	case "pause":
		d, _ := time.ParseDuration(words[1])
		r.request("$JS.API.CONSUMER.PAUSE.S.C", fmt.Sprintf(`{"pause_until":%q}`, time.Now().Add(d).Format(time.RFC3339Nano)))
	case "reset":
		var a api.JSApiConsumerResetResponse
		if err := json.Unmarshal([]byte(r.request("$JS.API.CONSUMER.RESET.S.C", fmt.Sprintf(`{"seq":%s}`, words[1]))), &a); err != nil {
			r.t.Fatal(err)
		}
		if a.Error != nil {
			r.lines = append(r.lines, fmt.Sprintf("error: %s (%d)\n", a.Error.Description, a.Error.ErrCode))
		} else {
			r.lines = append(r.lines, fmt.Sprintln("reset to", a.ResetSeq))
		}
	case "info":
		var i api.JSApiConsumerInfoResponse
		if err := json.Unmarshal([]byte(r.request("$JS.API.CONSUMER.INFO.S.C", "")), &i); err != nil || i.ConsumerInfo == nil {
			r.t.Fatalf("info: %v", err)
		}
		r.lines = append(r.lines, infoText(i.ConsumerInfo))
	case "delete":
		r.request("$JS.API.CONSUMER.DELETE.S.C", "")
	}
	// Advisories are not asked for here.
	expected := slices.DeleteFunc(slices.Collect(strings.Lines(ours.out.String())), func(l string) bool {
		return strings.HasPrefix(l, "advisory: ") || strings.HasPrefix(l, "metric: ")
	})
	ours.out.Reset()
	ours.out.WriteString(strings.Join(expected, ""))
	r.doing = line
	for len(r.lines) < len(expected) {
		r.read()
	}
	// What the server sends too much is seen by now or with the next command.
	r.request("$JS.API.INFO", "")
	return r.lines
}
