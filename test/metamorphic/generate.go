package metamorphic

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
)

// generator makes a run's operations from a seed. It knows nothing of the servers: what it remembers are the
// configurations that it asked for.
type generator struct {
	rand      *rand.Rand
	streams   map[string]fields // by stream
	settled   map[string]bool   // consumers that were asked for
	payloads  int
	style     style
	filtersOf map[string]fields // by consumer
	pushed    map[string]bool   // consumers that push
}

// style keeps apart what nats-server does not get right together:
//   - A consumer of the last message per subject, when one of those is removed, counts wrong and may not deliver what
//     follows.
//   - A pull that waits for max_ack_pending does not notice that a purge made room.
//   - A message that is removed counts as acknowledged, and with ack_policy all so do those before it, which are there.
//   - A purge by a subject that overlaps with a consumer's filter in part leaves its count of pending messages, and so does
//     a rollup of the whole stream by a message that does not pass the filter. There are none of these.
type style int

const (
	removing   style = iota // purges and rollups
	preserving              // max_ack_pending, deletes, and consumers that look once at the last message of each subject
	keeping                 // max_ack_pending, ack_policy all, last per subject, and nothing that removes messages
)

// fields are a JSON object's.
type fields map[string]any

func (f fields) json() string {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // texts, numbers and booleans can be written
	}
	return string(b)
}

func choose[T any](g *generator, of ...T) T { return of[g.rand.IntN(len(of))] }

func (g *generator) chance(percent int) bool { return g.rand.IntN(100) < percent }

// generate makes the operations of a seed. Some runs restart the servers.
func generate(seed uint64, length int) []operation {
	g := &generator{rand: rand.New(rand.NewPCG(seed, 0)), streams: map[string]fields{}, settled: map[string]bool{}, filtersOf: map[string]fields{}, pushed: map[string]bool{}}
	restarts := g.chance(30)
	g.style = style(g.rand.IntN(3))
	var ops []operation
	for i := range 1 + g.rand.IntN(3) {
		ops = append(ops, g.createStream(streamNames[i]))
		for range g.rand.IntN(4) {
			ops = append(ops, g.createConsumer(streamNames[i]))
		}
	}
	for len(ops) < length {
		if restarts && g.chance(3) {
			ops = append(ops, operation{kind: restart, signal: choose(g, "TERM", "KILL", "KILL"), quiet: g.chance(50)})
		}
		ops = append(ops, g.next()...)
	}
	return ops
}

func api(subject, data string) operation {
	return operation{messages: []message{{subject: "$JS.API." + subject, data: data}}}
}

// next is one operation, or a few of the same kind.
func (g *generator) next() []operation {
	stream := choose(g, "S0", "S0", "S1", "S2")
	if _, ok := g.streams[stream]; !ok {
		stream = "S0"
	}
	n := g.rand.IntN(100)
	switch {
	case n < 34:
		var ops []operation
		for range 1 + g.rand.IntN(3) {
			ops = append(ops, g.publish(stream))
		}
		return ops
	case n < 36:
		return []operation{g.batch(stream)}
	case n < 50:
		return []operation{g.pull(stream)}
	case n < 65:
		return []operation{g.ack(stream)}
	case n < 70:
		return []operation{g.createConsumer(stream)}
	case n < 72:
		consumer := choose(g, consumerNames...)
		return []operation{api(fmt.Sprintf("CONSUMER.%s.%s.%s", choose(g, "INFO", "DELETE"), stream, consumer), "")}
	case n < 75:
		subject := g.inbox(stream, choose(g, consumerNames...))
		return []operation{{kind: choose(g, listen, listen, silence), subject: subject}}
	case n < 76 && g.style == preserving && g.streams[stream]["retention"] == "limits":
		return g.watch(stream)
	case n < 79 && g.style != keeping:
		return []operation{api("STREAM.MSG.DELETE."+stream, fmt.Sprintf(`{"seq":%s}`, g.sequence(stream)))}
	case n < 82 && g.style < preserving:
		return []operation{g.purge(stream)}
	case n < 87:
		return []operation{g.get(stream)}
	case n < 91:
		return []operation{g.direct(stream)}
	case n < 94:
		return []operation{g.updateStream(stream)}
	case n < 96:
		return []operation{api("STREAM.INFO."+stream, choose(g, "", `{"deleted_details":true}`, fmt.Sprintf(`{"subjects_filter":%q}`, g.filter(stream))))}
	case n < 97:
		return []operation{api(choose(g, "STREAM.NAMES", "STREAM.LIST"), choose(g, "", fmt.Sprintf(`{"subject":%q}`, g.filter(stream))))}
	case n < 98:
		return []operation{api(choose(g, "CONSUMER.NAMES.", "CONSUMER.LIST.")+stream, "")}
	case n < 99:
		return []operation{g.createStream(choose(g, streamNames...))}
	default:
		if g.chance(50) {
			return []operation{g.updateStream(stream)}
		}
		return []operation{api("STREAM.DELETE."+stream, "")}
	}
}

// sequence is a place in a stream, mostly one that exists.
func (g *generator) sequence(stream string) string {
	switch g.rand.IntN(6) {
	case 0:
		return fmt.Sprint(g.rand.IntN(30))
	case 1, 2:
		return fmt.Sprintf("{last:%s%+d}", stream, 1-g.rand.IntN(6))
	case 3, 4:
		return fmt.Sprintf("{first:%s%+d}", stream, g.rand.IntN(6)-1)
	default:
		return fmt.Sprintf("{first:%s%+d}", stream, g.rand.IntN(20))
	}
}

// own is the first token of a stream's subjects.
func own(stream string) string { return "s" + stream[1:] }

// subject to publish to; the stream may not take it.
func (g *generator) subject(stream string) string {
	return own(stream) + choose(g, ".a", ".a", ".b", ".c", ".a.x", ".a.y", ".b.x", ".b.x.z")
}

// filter is a pattern of a stream's subjects.
func (g *generator) filter(stream string) string {
	if g.style < preserving {
		return g.purged(stream)
	}
	return own(stream) + choose(g, ".>", ".a", ".b", ".*", ".a.*", ".*.x", ".a.>", ".b.x", ".c")
}

// purged is a pattern to purge by.
func (g *generator) purged(stream string) string {
	return own(stream) + choose(g, ".>", ".a", ".b", ".*", ".a.*", ".b.x", ".c")
}

func (g *generator) inbox(stream, consumer string) string { return "push." + stream + "." + consumer }

func (g *generator) payload() string {
	g.payloads++
	text := fmt.Sprintf("payload %d", g.payloads)
	if g.chance(8) {
		text += fmt.Sprintf("%*d", g.rand.IntN(600), 0)
	}
	return text
}

// publish is a publish with whatever headers a stream looks at.
func (g *generator) publish(stream string) operation {
	m := message{subject: g.subject(stream), data: g.payload()}
	cfg := g.streams[stream]
	if cfg["allow_msg_counter"] == true && g.chance(95) {
		m.data = ""
		m.header = append(m.header, "Nats-Incr", choose(g, "+1", "1", "-2", "+10", "0", "x"))
	}
	m.header = append(m.header, g.conditions(stream)...)
	return operation{messages: []message{m}}
}

func (g *generator) conditions(stream string) (header []string) {
	if g.chance(12) {
		header = append(header, "Nats-Msg-Id", fmt.Sprint("id", g.rand.IntN(6)))
	}
	if g.chance(8) {
		header = append(header, "Nats-Expected-Last-Sequence", choose(g, g.sequence(stream), fmt.Sprintf("{last:%s+0}", stream), "0"))
	}
	if g.chance(8) {
		header = append(header, "Nats-Expected-Last-Subject-Sequence", choose(g, g.sequence(stream), fmt.Sprintf("{last:%s+0}", stream), "0"))
		if g.chance(30) {
			header = append(header, "Nats-Expected-Last-Subject-Sequence-Subject", g.filter(stream))
		}
	}
	if g.chance(3) {
		header = append(header, "Nats-Expected-Stream", choose(g, streamNames...))
	}
	if g.chance(3) {
		header = append(header, "Nats-Expected-Last-Msg-Id", fmt.Sprint("id", g.rand.IntN(6)))
	}
	if g.chance(5) && g.style < preserving {
		header = append(header, "Nats-Rollup", choose(g, "sub", "sub", "sub", "x"))
	}
	if g.chance(10) {
		header = append(header, "Own", choose(g, "one", "two words", ""))
	}
	return header
}

// batch is an atomic batch, sometimes one with a hole or without an end.
func (g *generator) batch(stream string) operation {
	id := fmt.Sprint("batch", g.rand.IntN(1_000_000))
	n := 1 + g.rand.IntN(5)
	var o operation
	seq := 1
	for i := range n {
		m := message{subject: g.subject(stream), data: g.payload(), mute: i > 0 && i < n-1 && g.chance(70)}
		m.header = append(m.header, "Nats-Batch-Id", id, "Nats-Batch-Sequence", fmt.Sprint(seq))
		if i == n-1 {
			m.header = append(m.header, "Nats-Batch-Commit", choose(g, "1", "1", "1", "1", "eob", "x"))
		}
		if g.chance(30) {
			m.header = append(m.header, g.conditions(stream)...)
		}
		o.messages = append(o.messages, m)
		seq++
		if g.chance(3) {
			seq++
		}
	}
	return o
}

func (g *generator) purge(stream string) operation {
	ask := fields{}
	if g.chance(60) {
		ask["filter"] = g.purged(stream)
	}
	o := "{}"
	switch g.rand.IntN(4) {
	case 0:
		ask["keep"] = g.rand.IntN(4)
	case 1:
		o = fmt.Sprintf(`{"seq":%s}`, g.sequence(stream))
		if f, ok := ask["filter"]; ok {
			o = fmt.Sprintf(`{"filter":%q,"seq":%s}`, f, g.sequence(stream))
		}
		return api("STREAM.PURGE."+stream, o)
	}
	return api("STREAM.PURGE."+stream, ask.json())
}

// get reads one message by the API.
func (g *generator) get(stream string) operation {
	return api("STREAM.MSG.GET."+stream, g.one(stream))
}

func (g *generator) one(stream string) string {
	switch g.rand.IntN(5) {
	case 0, 1:
		return fmt.Sprintf(`{"seq":%s}`, g.sequence(stream))
	case 2:
		return fmt.Sprintf(`{"last_by_subj":%q}`, g.filter(stream))
	case 3:
		return fmt.Sprintf(`{"next_by_subj":%q}`, g.filter(stream))
	default:
		return fmt.Sprintf(`{"seq":%s,"next_by_subj":%q}`, g.sequence(stream), g.filter(stream))
	}
}

// direct reads messages without the API: one, a batch, or the last of several subjects.
func (g *generator) direct(stream string) operation {
	switch g.rand.IntN(5) {
	case 0:
		return api("DIRECT.GET."+stream+"."+g.subject(stream), "")
	case 1, 2:
		return api("DIRECT.GET."+stream, g.one(stream))
	}
	o := api("DIRECT.GET."+stream, "")
	o.kind = many
	if g.chance(50) {
		o.messages[0].data = fmt.Sprintf(`{"seq":%s,"next_by_subj":%q,"batch":%d}`, g.sequence(stream), g.filter(stream), 1+g.rand.IntN(6))
		if g.chance(30) {
			o.messages[0].data = fmt.Sprintf(`{"seq":%s,"batch":%d,"max_bytes":%d}`, g.sequence(stream), 1+g.rand.IntN(10), 50+g.rand.IntN(500))
		}
		return o
	}
	ask := fields{"multi_last": []string{g.filter(stream), g.filter(stream)}[:1+g.rand.IntN(2)]}
	if g.chance(40) {
		ask["batch"] = 1 + g.rand.IntN(5)
	}
	o.messages[0].data = ask.json()
	if g.chance(30) {
		o.messages[0].data = fmt.Sprintf(`{"multi_last":[%q],"up_to_seq":%s}`, g.filter(stream), fmt.Sprintf("{last:%s-%d}", stream, g.rand.IntN(5)))
	}
	return o
}

func (g *generator) pull(stream string) operation {
	consumer := choose(g, consumerNames...)
	ask := fields{"batch": 1 + g.rand.IntN(6)}
	if g.chance(75) {
		ask["no_wait"] = true
	} else {
		ask["expires"] = int64(3600e9)
	}
	if g.chance(10) {
		ask["max_bytes"] = 50 + g.rand.IntN(800)
	}
	o := api(fmt.Sprintf("CONSUMER.MSG.NEXT.%s.%s", stream, consumer), ask.json())
	o.kind, o.stream, o.consumer = pull, stream, consumer
	return o
}

// watch looks at the last message of each subject, as a watcher of a key-value bucket does.
func (g *generator) watch(stream string) []operation {
	name := "W"
	cfg := fields{"name": name, "ack_policy": "none", "deliver_policy": "last_per_subject", "replay_policy": "instant", "inactive_threshold": int64(3600e9),
		"filter_subject": g.filter(stream), "deliver_subject": g.inbox(stream, name)}
	return []operation{
		{kind: listen, subject: g.inbox(stream, name)},
		api(fmt.Sprintf("CONSUMER.CREATE.%s.%s", stream, name), fields{"stream_name": stream, "config": cfg}.json()),
		api(fmt.Sprintf("CONSUMER.DELETE.%s.%s", stream, name), ""),
	}
}

func (g *generator) ack(stream string) operation {
	return operation{
		kind: ack, stream: stream, consumer: choose(g, consumerNames...), pick: g.rand.IntN(choose(g, 1, 4, 10)), confirm: g.chance(70),
		body: choose(g, "+ACK", "+ACK", "+ACK", "", "-NAK", "-NAK", "+TERM", "+TERM because", "+WPI", "+NXT", `+NXT {"batch":2,"no_wait":true}`, `-NAK {"delay":3600000000000}`),
	}
}

// with copies fields.
func (f fields) with(more fields) fields {
	out := maps.Clone(f)
	maps.Copy(out, more)
	return out
}
