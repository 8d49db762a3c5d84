package wire_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// scenario is a conversation of one connection with a fresh server: the bytes that a client sends, and the bytes that
// nats-server answers. The files under testdata hold them:
//
//	=== title
//	conf max_payload: 100
//	> CONNECT {"verbose":false}\r\n
//	> PING\r\n
//	< INFO\r\n
//	< PONG\r\n
//	< closed
//
// "conf" lines go to the configuration. A line of ">" sends its text once the lines of "<" above it have arrived, so a
// conversation may go back and forth. Text is escaped as in a Go string. "> 5000*x" sends x 5000 times. INFO stands for
// an INFO line with any content, and "closed" for the end of the connection. A line that starts with # is a comment.
type scenario struct {
	file     string
	title    string
	comments []string
	conf     []string
	steps    []step
}

type step struct {
	send []string // escaped, as written
	want []byte   // normalised
}

const closedMark = "closed"

func readScenarios(t *testing.T, path string) []scenario {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []scenario
	var comments []string
	for n, line := range strings.Split(string(b), "\n") {
		fail := func(err error) { t.Fatalf("%s:%d: %v", path, n+1, err) }
		line = strings.TrimRight(line, "\r ")
		if title, ok := strings.CutPrefix(line, "=== "); ok {
			out = append(out, scenario{file: path, title: title, comments: comments})
			comments = nil
			continue
		}
		if strings.HasPrefix(line, "#") {
			comments = append(comments, line)
			continue
		}
		if line == "" {
			continue
		}
		if len(out) == 0 {
			fail(fmt.Errorf("%q before any ===", line))
		}
		s := &out[len(out)-1]
		kind, text, _ := strings.Cut(line, " ")
		last := len(s.steps) - 1
		switch kind {
		case "conf":
			s.conf = append(s.conf, text)
		case ">":
			if _, err := expand(text); err != nil {
				fail(err)
			}
			if last < 0 || s.steps[last].want != nil {
				s.steps = append(s.steps, step{})
				last++
			}
			s.steps[last].send = append(s.steps[last].send, text)
		case "<":
			if last < 0 {
				s.steps = append(s.steps, step{})
				last++
			}
			want, err := expand(text)
			if err != nil {
				fail(err)
			}
			if text == closedMark {
				want = []byte(closedMark)
			}
			s.steps[last].want = append(s.steps[last].want, want...)
		default:
			fail(fmt.Errorf("unknown line %q", line))
		}
	}
	return out
}

var repeated = regexp.MustCompile(`^(\d+)\*(.*)$`)

// expand turns the escaped text of a line into bytes.
func expand(text string) ([]byte, error) {
	n := 1
	if m := repeated.FindStringSubmatch(text); m != nil {
		n, _ = strconv.Atoi(m[1])
		text = m[2]
	}
	s, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return bytes.Repeat([]byte(s), n), nil
}

func (s step) bytes() []byte {
	var out []byte
	for _, line := range s.send {
		b, _ := expand(line) // readScenarios has expanded it once
		out = append(out, b...)
	}
	return out
}

// escape is the inverse of expand, one line of text per line of the protocol.
func escape(b []byte) []string {
	var out []string
	for line := range bytes.Lines(b) {
		q := strconv.QuoteToASCII(string(line))
		out = append(out, strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`))
	}
	return out
}

var infoLine = regexp.MustCompile(`(?m)^INFO \{[^\n]*\}[ \t]*\r\n`)

// normalise takes out of a server's bytes what is different each time.
func normalise(b []byte) []byte { return infoLine.ReplaceAll(b, []byte("INFO\r\n")) }

// write renders scenarios as readScenarios reads them.
func writeScenarios(path string, all []scenario) error {
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteString("\n")
		}
		for _, c := range s.comments {
			b.WriteString(c + "\n")
		}
		b.WriteString("=== " + s.title + "\n")
		for _, c := range s.conf {
			b.WriteString("conf " + c + "\n")
		}
		for _, st := range s.steps {
			for _, line := range st.send {
				b.WriteString("> " + line + "\n")
			}
			want, closed := bytes.CutSuffix(st.want, []byte(closedMark))
			for _, line := range escape(want) {
				b.WriteString("< " + line + "\n")
			}
			if closed {
				b.WriteString("< " + closedMark + "\n")
			}
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
