package consumer

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

var update = flag.Bool("update", false, "rewrite the expected output of the scenarios")

// TestScenarios runs the files of testdata. A file is a list of commands; what follows "----", up to an empty line, is
// what the command prints.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newScenario(t).run(string(raw))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(raw) {
				t.Errorf("the scenario went differently (run with -update to see the difference in the file):\n%s", firstDifference(got, string(raw)))
			}
		})
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			from := max(i-4, 0)
			return fmt.Sprintf("line %d:\n%s\ngot:  %s\nwant: %s", i+1, strings.Join(g[from:i], "\n"), g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, not %d", len(g), len(w))
}

type scenario struct {
	*world
	cfg  api.ConsumerConfig
	out  strings.Builder
	flow string   // reply subject of the last flow control message
	pins []string // ids, in the order in which they were given
	// The payloads that pull and the acknowledgements sent last.
	lastPull, lastAnswer string
}

func newScenario(t *testing.T) *scenario {
	s := &scenario{world: newWorld(t)}
	s.status = func(st Status) {
		if st.Reply != "" {
			s.flow = st.Reply
		}
		s.out.WriteString(statusText(st.To, string(st.Header)))
	}
	s.deliver = func(d *Dispatch) {
		pin := ""
		if d.Pinned {
			pin = ", pin " + s.pinName(d.PinID)
		}
		fmt.Fprintf(&s.out, "%s <- message %d, consumer sequence %d, delivery %d, %d pending%s\n", d.To, d.Seq, d.ConsumerSeq, d.Deliveries, d.Pending, pin)
	}
	s.advise = func(a *Advisory) {
		switch a.Kind {
		case MaxDeliveriesReached:
			fmt.Fprintf(&s.out, "advisory: max deliveries of %d: %d\n", a.StreamSeq, a.Deliveries)
		case Nacked:
			fmt.Fprintf(&s.out, "advisory: nak of %d, consumer sequence %d, %d deliveries\n", a.StreamSeq, a.ConsumerSeq, a.Deliveries)
		case Terminated:
			fmt.Fprintf(&s.out, "advisory: terminated %d, consumer sequence %d, %d deliveries, reason %q\n", a.StreamSeq, a.ConsumerSeq, a.Deliveries, a.Reason)
		case AckSampled:
			fmt.Fprintf(&s.out, "metric: ack of %d after %v, %d deliveries\n", a.StreamSeq, a.Delay, a.Deliveries)
		case PauseChanged:
			fmt.Fprintf(&s.out, "advisory: paused %v\n", a.Paused)
		case Pinned:
			fmt.Fprintf(&s.out, "advisory: group %s is pinned to %s\n", a.Group, s.pinName(a.PinID))
		case Unpinned:
			fmt.Fprintf(&s.out, "advisory: group %s is unpinned, %s\n", a.Group, a.Reason)
		}
	}
	return s
}

func (s *scenario) run(script string) string {
	var result strings.Builder
	lines := strings.Split(script, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || strings.HasPrefix(line, "#") {
			if line != "" || i+1 < len(lines) {
				result.WriteString(line + "\n")
			}
			continue
		}
		result.WriteString(line + "\n----\n")
		if i+1 < len(lines) && lines[i+1] == "----" {
			for i++; i+1 < len(lines) && lines[i+1] != ""; i++ {
			}
		}
		s.out.Reset()
		s.command(line)
		result.WriteString(s.out.String())
	}
	return result.String()
}

// command runs one line.
func (s *scenario) command(line string) {
	words := strings.Fields(line)
	args := words[1:]
	switch words[0] {
	case "stream":
		for _, a := range args {
			switch k, v, _ := strings.Cut(a, "="); k {
			case "max_per_subject":
				s.opts.MaxMsgsPerSubject = s.number(v)
			case "retains":
				s.opts.Retains = true
			case "max_payload":
				s.opts.MaxPayload = int(s.number(v))
			}
		}
	case "create", "update":
		s.configure(words[0], args)
	case "publish":
		n, size := int64(1), int64(10)
		for _, a := range args[1:] {
			if v, ok := strings.CutPrefix(a, "size="); ok {
				size = s.number(v)
			} else {
				n = s.number(a)
			}
		}
		for range n {
			s.publish(args[0], int(size))
		}
	case "pull":
		s.pull(args)
	case "ack", "nak", "term", "wpi", "next":
		s.answer(words[0], args)
	case "advance":
		d, err := time.ParseDuration(args[0])
		s.must(err)
		s.advance(d)
		if s.gone {
			fmt.Fprintln(&s.out, "inactive: delete me")
			s.gone = false
		}
	case "advance_clock": // before there is a consumer
		d, err := time.ParseDuration(args[0])
		s.must(err)
		s.now = s.now.Add(d)
	case "remove":
		s.remove(uint64(s.number(args[0])))
	case "purge":
		upTo := s.stream.last
		if len(args) > 0 {
			upTo = uint64(s.number(args[0]))
		}
		for _, m := range append([]fakeMessage(nil), s.stream.messages...) {
			if m.seq <= upTo {
				s.stream.remove(m.seq)
			}
		}
		s.c.Purged(s.now, &s.fx)
		s.settle()
	case "interest":
		s.left[s.cfg.DeliverSubject] = args[0] == "off"
		s.c.Interest(args[0] == "on", s.now)
		s.settle()
	case "leave":
		s.left[args[0]] = true
	case "flow":
		s.c.FlowControl([]byte(s.flow), flowHeader(args), s.now, &s.fx)
		s.settle()
	case "unpin":
		if err := s.c.Unpin(args[0], &s.fx); err != nil {
			fmt.Fprintln(&s.out, "error:", err)
		}
		s.settle()
	case "pause":
		d, err := time.ParseDuration(args[0])
		s.must(err)
		s.c.Pause(s.now.Add(d), s.now, &s.fx)
		s.settle()
	case "reset":
		if seq, err := s.c.Reset(uint64(s.number(args[0])), s.now); err != nil {
			fmt.Fprintln(&s.out, "error:", err)
		} else {
			fmt.Fprintln(&s.out, "reset to", seq)
		}
		s.settle()
	case "crash":
		lose := 0
		if len(args) > 0 {
			lose = int(s.number(args[0]))
		}
		s.crash(lose)
		s.settle()
	case "delete":
		s.c.Deleted(&s.fx)
		s.effects()
	case "settled":
		fmt.Fprintln(&s.out, sortedKeys(s.settled))
	case "needs":
		fmt.Fprintln(&s.out, s.c.NeedsAck(uint64(s.number(args[0]))))
	case "info":
		s.info()
	default:
		s.t.Fatalf("unknown command %q", line)
	}
	if s.c != nil {
		s.checkReplay()
	}
}

func (s *scenario) must(err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatal(err)
	}
}

func (s *scenario) number(v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	s.must(err)
	return n
}

// configure creates or updates from words like max_deliver=3; values are JSON, strings may go without quotes.
func (s *scenario) configure(what string, args []string) {
	fields := map[string]json.RawMessage{}
	if what == "update" {
		raw, err := json.Marshal(s.cfg)
		s.must(err)
		s.must(json.Unmarshal(raw, &fields))
	} else {
		fields["ack_policy"] = json.RawMessage(`"explicit"`)
		fields["durable_name"] = json.RawMessage(`"C"`)
	}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		fields[k] = scenarioValue(v)
	}
	raw, err := json.Marshal(fields)
	s.must(err)
	var cfg api.ConsumerConfig
	s.must(json.Unmarshal(raw, &cfg))
	cfg, err = CheckConfig(cfg, api.StreamConfig{Name: "S", Replicas: 1}, Limits{}, false)
	if err == nil && what == "update" {
		err = CheckUpdate(s.cfg, cfg, s.c.active)
	}
	if err != nil {
		fmt.Fprintln(&s.out, "error:", err)
		return
	}
	if what == "create" {
		s.cfg, s.log, s.settled, s.left = cfg, nil, map[uint64]int{}, map[string]bool{}
		s.create(cfg)
		return
	}
	var view Messages
	if !SameFilters(&s.cfg, &cfg) {
		s.view = &fakeView{s.stream, Filters(&cfg)}
		view = s.view
		s.opts.Messages = view
	}
	s.cfg, s.opts.Config = cfg, cfg
	s.c.UpdateConfig(cfg, view, s.now, &s.fx)
	s.settle()
}

// scenarioValue reads a duration, JSON, or a bare string.
func scenarioValue(v string) json.RawMessage {
	parts := strings.Split(v, ",")
	durations := make([]string, 0, len(parts))
	for _, p := range parts {
		d, err := time.ParseDuration(p)
		if err != nil || p == "0" {
			break
		}
		durations = append(durations, strconv.FormatInt(int64(d), 10))
	}
	switch {
	case len(durations) == 1 && len(parts) == 1:
		return json.RawMessage(durations[0])
	case len(durations) == len(parts):
		return json.RawMessage("[" + strings.Join(durations, ",") + "]")
	case json.Valid([]byte(v)):
		return json.RawMessage(v)
	}
	return json.RawMessage(strconv.Quote(v))
}

// pull makes a request: "pull R batch=2 expires=1s no_wait", or "pull R body=…" for the raw payload.
func (s *scenario) pull(args []string) {
	fields := map[string]json.RawMessage{}
	body := ""
	for i, a := range args[1:] {
		k, v, has := strings.Cut(a, "=")
		if k == "id" && strings.HasPrefix(v, "pin") { // one that was given
			n := int(s.number(v[3:]))
			if n > len(s.pins) {
				s.t.Fatalf("%s was not given", v)
			}
			v = s.pins[n-1]
		}
		if k == "body" {
			body = strings.TrimPrefix(strings.Join(args[1+i:], " "), "body=")
			break
		}
		if !has {
			v = "true"
		}
		fields[k] = scenarioValue(v)
	}
	if len(fields) > 0 {
		raw, err := json.Marshal(fields)
		s.must(err)
		body = string(raw)
	}
	s.lastPull = body
	s.c.Pull([]byte(args[0]), []byte(body), s.now, &s.fx)
	s.settle()
}

func (s *scenario) answer(what string, args []string) {
	body := map[string]string{"ack": "+ACK", "nak": "-NAK", "term": "+TERM", "wpi": "+WPI", "next": "+NXT"}[what]
	reply := "answer"
	if len(args) > 1 {
		body += " " + strings.Join(args[1:], " ")
	}
	if what == "next" {
		reply, body = args[1], strings.TrimSpace("+NXT "+strings.Join(args[2:], " "))
	}
	s.lastAnswer = body
	if s.world.ack(uint64(s.number(args[0])), body, reply) {
		fmt.Fprintln(&s.out, "answered")
	}
}

func (s *scenario) info() {
	i := s.c.Info(s.now, &s.fx)
	s.effects()
	s.out.WriteString(infoText(&i))
}

func infoText(i *api.ConsumerInfo) string {
	text := fmt.Sprintf("delivered %d/%d, ack floor %d/%d, ack pending %d, redelivered %d, waiting %d, pending %d",
		i.Delivered.Consumer, i.Delivered.Stream, i.AckFloor.Consumer, i.AckFloor.Stream, i.NumAckPending, i.NumRedelivered, i.NumWaiting, i.NumPending)
	if i.PushBound {
		text += ", bound"
	}
	for _, g := range i.PriorityGroups {
		text += ", group " + g.Group
		if g.PinnedClientID != "" && !g.PinnedTS.IsZero() {
			text += " (pinned)"
		}
	}
	if i.Paused {
		text += fmt.Sprintf(", paused for %v", i.PauseRemaining.Round(time.Second))
	}
	return text + "\n"
}

// pinName gives ids names that do not depend on chance.
func (s *scenario) pinName(id string) string {
	if id != "" && !slices.Contains(s.pins, id) {
		s.pins = append(s.pins, id)
	}
	return pinName(s.pins, id)
}

func pinName(pins []string, id string) string {
	if id == "" {
		return "-"
	}
	return fmt.Sprint("pin", slices.Index(pins, id)+1)
}

// flowHeader is the header of an answer to a flow control message: "flow 7 9" confirms consumer sequence 7, stream
// sequence 9.
func flowHeader(args []string) []byte {
	if len(args) < 2 {
		return nil
	}
	return fmt.Appendf(nil, "NATS/1.0\r\nNats-Last-Consumer: %s\r\nNats-Last-Stream: %s\r\n\r\n", args[0], args[1])
}

func sortedKeys(m map[uint64]int) []uint64 {
	var s seqSet
	for k := range m {
		s.add(k)
	}
	var keys []uint64
	for _, sp := range s.spans {
		for k := sp.lo; k <= sp.hi; k++ {
			keys = append(keys, k)
		}
	}
	return keys
}
