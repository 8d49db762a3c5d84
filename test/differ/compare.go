package differ

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// compare returns a description of the first difference of two transcripts of one plan, or "".
func compare(p plan, a, b transcript) string {
	for n := range min(len(a), len(b)) {
		ca, qa := p.canonical(n, a[n])
		cb, qb := p.canonical(n, b[n])
		for c := range connections {
			if !slices.Equal(ca[c], cb[c]) {
				return fmt.Sprintf("client %d hears something else after step %d of %d:\n%s\n--- A:\n%s\n--- B:\n%s", c, n, len(p.steps), p.describe(n), quote(ca[c]), quote(cb[c]))
			}
		}
		if !slices.Equal(qa, qb) {
			return fmt.Sprintf("queue groups receive something else after step %d of %d:\n%s\n--- A:\n%s\n--- B:\n%s", n, len(p.steps), p.describe(n), quote(qa), quote(qb))
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("A answered %d steps, B %d", len(a), len(b))
	}
	return ""
}

// canonical rewrites what the clients heard in a step so that two servers that do the same hear the same:
//   - INFO loses its contents;
//   - deliveries of one message to several subscriptions of a client are sorted;
//   - what may have come through a queue group is taken out and gathered for all clients, without its sid and headers;
//   - "no responders" loses its sid, since one subscription of several is chosen;
//   - "Invalid Publish Subject" several times in a row counts once: nats-server says it again when it looks again at a
//     publish that did not come in one piece. After damage it does not count at all: nats-server says it when it has read
//     the line, even if no payload follows.
func (p plan) canonical(n int, said [connections][]byte) (out [connections][]string, queued []string) {
	broken := n > 0 && p.steps[n-1].broken
	for c, bytesSaid := range said {
		frames := split(bytesSaid)
		for i := 0; i < len(frames); {
			f := frames[i]
			if f.sid == "" {
				text := lineText(f.text)
				i++
				if last := len(out[c]) - 1; text == invalidPublish && (broken || last >= 0 && out[c][last] == text) {
					continue
				}
				out[c] = append(out[c], text)
				continue
			}
			if noResponders.Match(f.text) {
				out[c] = append(out[c], f.key)
				i++
				continue
			}
			// A run of deliveries of one message.
			j := i
			var run []string
			for ; j < len(frames) && frames[j].sid != "" && frames[j].key == f.key; j++ {
				if p.mayBeQueued(c, frames[j].sid) {
					queued = append(queued, f.core)
				} else {
					run = append(run, string(frames[j].text))
				}
			}
			slices.Sort(run)
			out[c] = append(out[c], run...)
			i = j
		}
	}
	slices.Sort(queued)
	return out, queued
}

const invalidPublish = "-ERR 'Invalid Publish Subject'\r\n"

var noResponders = regexp.MustCompile(`^HMSG [^\r]*\r\nNATS/1\.0 503\r\nNats-Subject: `)

func lineText(b []byte) string {
	if bytes.HasPrefix(b, []byte("INFO {")) {
		return "INFO"
	}
	return string(b)
}

// mayBeQueued tells whether a client ever used the sid for a queue subscription.
func (p plan) mayBeQueued(client int, sid string) bool {
	for _, s := range p.steps {
		if s.client != client {
			continue
		}
		for line := range bytes.Lines(s.bytes()) {
			f := bytes.Fields(line)
			if len(f) == 4 && bytes.EqualFold(f[0], []byte("SUB")) && string(f[3]) == sid {
				return true
			}
		}
	}
	return false
}

// describe renders the plan up to a step.
func (p plan) describe(until int) string {
	var b strings.Builder
	for i, c := range p.connects {
		fmt.Fprintf(&b, "client %d: %q\n", i, c)
	}
	for n, s := range p.steps {
		if n >= until {
			break
		}
		broken := ""
		if s.broken {
			broken = " (damaged)"
		}
		fmt.Fprintf(&b, "step %d, client %d%s:", n+1, s.client, broken)
		for _, f := range s.fragments {
			b.WriteString(" " + clip(string(f)))
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func quote(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(clip(l) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// clip quotes text, the middle of which is left out if it is long.
func clip(text string) string {
	const most = 600
	if len(text) <= most {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q…%d bytes…%q", text[:most/2], len(text)-most, text[len(text)-most/2:])
}

// Round plays the round of a seed on both servers at once and returns the first difference, or "".
func Round(seed uint64, addrA, addrB string) string {
	p := newPlan(seed)
	type result struct {
		t   transcript
		err error
	}
	results := make(chan result, 1)
	go func() {
		t, err := play(p, addrA)
		results <- result{t, err}
	}()
	b, errB := play(p, addrB)
	a := <-results
	if difference := compare(p, a.t, b); difference != "" {
		return difference
	}
	if (a.err == nil) != (errB == nil) {
		return fmt.Sprintf("A: %v\nB: %v\n%s", a.err, errB, p.describe(len(p.steps)))
	}
	return ""
}
