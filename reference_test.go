package sluice_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice"
)

// The files of testdata/api are conversations: raw requests to the JetStream API, and what nats-server answers. Sluice
// must answer the same, but for times and ids. A line is
//
//	# a remark
//	> subject [Header:Value ...] [body]       a request, answered by one message
//	>> subject [Header:Value ...] [body]      a request, answered by messages up to one with a status
//	< answer                                  what the reference answered: a body, or headers | data
//	- answer                                  what Sluice answers instead, with the reason in the remark before
//
// With SLUICE_NATS_SERVER set to the path of a nats-server, its answers are compared with those in the files; with
// -record they are written there, too.

var record = flag.Bool("record", false, "write what SLUICE_NATS_SERVER answers into testdata/api")

// exchange is a request with its answers.
type exchange struct {
	before  []string // remarks
	line    string   // the request as it stands in the file
	subject string
	header  nats.Header
	body    string
	many    bool
	want    []string
	instead []string
}

func TestAnswersAreThoseOfTheReference(t *testing.T) {
	files, err := filepath.Glob("testdata/api/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			talk := parseTalk(t, file)
			if binary := os.Getenv("SLUICE_NATS_SERVER"); binary != "" {
				answers := hold(t, connectReference(t, binary), talk)
				if *record {
					for i := range talk {
						talk[i].want = answers[i]
					}
					writeTalk(t, file, talk)
				}
				for i := range talk {
					compareAnswers(t, "nats-server", &talk[i], answers[i], talk[i].want)
				}
			}
			srv, _ := start(t, sluice.Options{Name: "n", Port: sluice.NoPort, Store: "mem://"})
			nc, _ := connect(t, srv)
			for i, got := range hold(t, nc, talk) {
				want := talk[i].want
				if len(talk[i].instead) > 0 {
					want = talk[i].instead
				}
				compareAnswers(t, "sluice", &talk[i], got, want)
			}
		})
	}
}

func compareAnswers(t *testing.T, who string, e *exchange, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s, %s\n got %s\nwant %s", who, e.line, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// connectReference starts a nats-server that ends with the test.
func connectReference(t *testing.T, binary string) *nats.Conn {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", dir, "-n", "n", "--ports_file_dir", dir)
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	portsFile := filepath.Join(dir, fmt.Sprintf("%s_%d.ports", filepath.Base(binary), cmd.Process.Pid))
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var ports struct{ Nats []string }
		raw, err := os.ReadFile(portsFile)
		if err == nil {
			err = json.Unmarshal(raw, &ports)
		}
		if err == nil && len(ports.Nats) > 0 {
			nc, err := nats.Connect(ports.Nats[0])
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			return nc
		}
		if time.Now().After(deadline) {
			t.Fatalf("nats-server does not come up: %v", err)
		}
	}
}

// hold sends all requests of a conversation, one after the other, and gives the answers.
func hold(t *testing.T, nc *nats.Conn, talk []exchange) (answers [][]string) {
	t.Helper()
	for i := range talk {
		e := &talk[i]
		inbox := nc.NewInbox()
		sub, err := nc.SubscribeSync(inbox)
		if err == nil {
			err = nc.PublishMsg(&nats.Msg{Subject: e.subject, Reply: inbox, Header: e.header, Data: []byte(e.body)})
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for more := true; more; {
			m, err := sub.NextMsg(5 * time.Second)
			if err != nil {
				got = append(got, err.Error())
				break
			}
			got = append(got, show(m))
			more = e.many && m.Header.Get("Status") == ""
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, got)
	}
	return answers
}

var (
	anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	noTime  = "0001-01-01T00:00:00Z"
	// anyType is a Go type in an error of the JSON decoder.
	anyID   = regexp.MustCompile(`(\$JS\.SNAPSHOT\.RESTORE\.\w+)\.\w+`)
	anyType = regexp.MustCompile(`(of type|Go struct field) [\w.]+`)
)

// show is an answer in one line: JSON with its fields in order, headers in order, no times.
func show(m *nats.Msg) string {
	var b strings.Builder
	keys := make([]string, 0, len(m.Header))
	for k := range m.Header {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		for _, v := range m.Header[k] {
			fmt.Fprintf(&b, "%s:%s ", k, v)
		}
	}
	if len(m.Header) > 0 {
		b.WriteString("| ")
	}
	var v any
	decode := json.NewDecoder(bytes.NewReader(m.Data))
	decode.UseNumber()
	if err := decode.Decode(&v); err == nil && len(m.Data) > 2 {
		if raw, err := json.Marshal(v); err == nil {
			b.Write(raw)
		}
	} else {
		b.Write(m.Data)
	}
	text := anyID.ReplaceAllString(b.String(), "$1.ID")
	return strings.TrimSpace(anyTime.ReplaceAllStringFunc(anyType.ReplaceAllString(text, "$1 TYPE"), func(s string) string {
		if s == noTime {
			return s
		}
		return "TIME"
	}))
}

func parseTalk(t *testing.T, file string) (talk []exchange) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var remarks []string
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		mark, rest, _ := strings.Cut(line, " ")
		switch mark {
		case ">", ">>":
			e := exchange{before: remarks, line: line, many: mark == ">>"}
			remarks = nil
			e.subject, rest, _ = strings.Cut(rest, " ")
			for e.body = rest; ; e.body = rest {
				word, after, _ := strings.Cut(rest, " ")
				key, value, ok := strings.Cut(word, ":")
				if !ok || strings.ContainsAny(word, `{["`) {
					break
				}
				if e.header == nil {
					e.header = nats.Header{}
				}
				e.header[key] = append(e.header[key], value)
				rest = after
			}
			if strings.HasPrefix(e.body, `"`) && strings.HasSuffix(e.body, `"`) && len(e.body) > 1 {
				if e.body, err = strconv.Unquote(e.body); err != nil {
					t.Fatalf("%s: %q: %v", file, line, err)
				}
			}
			talk = append(talk, e)
		case "<":
			e := &talk[len(talk)-1]
			e.want = append(e.want, rest)
		case "-":
			e := &talk[len(talk)-1]
			e.instead = append(e.instead, rest)
		default:
			remarks = append(remarks, line)
		}
	}
	return talk
}

func writeTalk(t *testing.T, file string, talk []exchange) {
	t.Helper()
	var b strings.Builder
	for _, e := range talk {
		for _, r := range e.before {
			fmt.Fprintln(&b, r)
		}
		fmt.Fprintln(&b, e.line)
		for _, a := range e.want {
			fmt.Fprintln(&b, strings.TrimRight("< "+a, " "))
		}
		for _, a := range e.instead {
			fmt.Fprintln(&b, strings.TrimRight("- "+a, " "))
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
