package metamorphic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/subject"
)

// streamNames and consumerNames are the world that operations are about.
var (
	streamNames   = []string{"S0", "S1", "S2"}
	consumerNames = []string{"C0", "C1", "C2", "C3"}
)

// pair is the reference and Sluice, which hear the same operations.
type pair struct {
	reference, sluice *side
	// settle is how long the two may take to show the same: nats-server works through some requests in the background.
	settle time.Duration

	pulls  int                    // inboxes used so far
	states map[string]streamState // the streams before the operation
	loose  map[string]seqSet      // by stream: what Sluice let go and may find again after it was killed
	firm   map[string]seqSet      // by consumer: what it was told is acknowledged, and may never deliver again
	there  map[string]bool        // the consumers that exist
	moved  map[string]bool        // streams that were purged or rolled up: see view.positions
	// subjects of messages, by stream and sequence.
	subjects *sync.Map
	stale    map[string]int // by consumer and inbox: how many deliveries are of a consumer that is gone
}

type seqSet map[uint64]bool

// streamState is what a run needs to know of a stream to choose what comes next.
type streamState struct {
	FirstSeq uint64   `json:"first_seq"`
	LastSeq  uint64   `json:"last_seq"`
	Deleted  []uint64 `json:"deleted"`
}

func (s streamState) has(seq uint64) bool {
	return seq >= s.FirstSeq && seq <= s.LastSeq && !slices.Contains(s.Deleted, seq)
}

func (p *pair) both(f func(s *side) error) error {
	second := make(chan error, 1)
	go func() { second <- f(p.sluice) }()
	err := f(p.reference)
	return errors.Join(err, <-second)
}

// reset empties both servers.
func (p *pair) reset() error {
	p.states, p.loose, p.firm = map[string]streamState{}, map[string]seqSet{}, map[string]seqSet{}
	p.subjects = &sync.Map{}
	p.there, p.stale, p.moved = map[string]bool{}, map[string]int{}, map[string]bool{}
	return p.both((*side).reset)
}

// run plays operations from an empty state and returns the first difference, or "". done is how many were played.
func (p *pair) run(ctx context.Context, ops []operation) (difference string, done int, err error) {
	if err := p.reset(); err != nil {
		return "", 0, err
	}
	for i, o := range ops {
		difference, err := p.step(ctx, o)
		if err != nil {
			return "", i + 1, fmt.Errorf("operation %d, %s: %w", i+1, o, err)
		}
		if difference != "" {
			return difference, i + 1, nil
		}
	}
	difference = p.compareContents()
	return difference, len(ops), nil
}

// step plays one operation and compares what follows from it.
func (p *pair) step(ctx context.Context, o operation) (string, error) {
	var difference string
	var err error
	if name, ok := o.moves(); ok {
		p.moved[name] = true
	}
	switch o.kind {
	case request, many:
		difference = p.request(o)
	case pull:
		err = p.pull(o)
	case ack:
		difference, err = p.ack(o)
	case listen:
		err = p.both(func(s *side) error {
			if s.listen[o.subject] != nil {
				return nil
			}
			return s.open(o.subject)
		})
	case silence:
		err = p.both(func(s *side) error { return s.shut(o.subject) })
	case restart:
		difference, err = p.restart(ctx, o)
	}
	if err != nil || difference != "" {
		return difference, err
	}
	difference, state := p.compareStates()
	if difference == "" {
		p.note(o, state)
	}
	return difference, nil
}

func (p *pair) request(o operation) string {
	for _, m := range o.messages {
		m = p.filled(m)
		var answers [2]string
		_ = p.both(func(s *side) error {
			at := &answers[0]
			if s == p.sluice {
				at = &answers[1]
			}
			switch {
			case m.mute:
				*at = fmt.Sprint(s.nc.PublishMsg(m.msg()))
			case o.kind == many:
				*at = s.askMany(m)
			default:
				*at = s.ask(m)
			}
			return nil
		})
		if strings.Contains(m.subject, ".CONSUMER.") || strings.Contains(m.subject, ".STREAM.UPDATE.") {
			answers[0], answers[1] = withoutState(answers[0]), withoutState(answers[1])
		}
		if answers[0] != answers[1] {
			return fmt.Sprintf("the answers to %s %s differ:\n%s", m.subject, m.data, contrast(answers[0], answers[1]))
		}
	}
	return ""
}

func (p *pair) pull(o operation) error {
	p.pulls++
	inbox := fmt.Sprintf("pull.%s.%s.%d", o.stream, o.consumer, p.pulls)
	return p.both(func(s *side) error {
		if err := s.open(inbox); err != nil {
			return err
		}
		msg := o.messages[0].msg()
		msg.Reply = inbox
		return s.nc.PublishMsg(msg)
	})
}

// place is where a delivery was heard.
type place struct {
	inbox    string
	index    int
	consumer uint64 // its consumer sequence
}

// deliveries are the places of what a consumer delivered, the newest first.
func (p *pair) deliveries(stream, consumer string) []place {
	var out []place
	for inbox, lines := range p.reference.heardBy() {
		for i := p.stale[stream+"/"+consumer+" "+inbox]; i < len(lines); i++ {
			t := ackTokens(p.reference.delivery(inbox, i).Reply)
			if t == nil || t[2] != stream || t[3] != consumer {
				continue
			}
			seq, _ := strconv.ParseUint(t[6], 10, 64) // the servers write numbers
			out = append(out, place{inbox, i, seq})
		}
	}
	slices.SortFunc(out, func(a, b place) int { return int(b.consumer) - int(a.consumer) })
	return out
}

// ackTokens takes an acknowledgement subject apart: $JS.ACK.<stream>.<consumer>.<deliveries>.<seq>.<consumer seq>.<time>.<pending>.
func ackTokens(subject string) []string {
	if t := strings.Split(subject, "."); len(t) == 9 && t[0] == "$JS" && t[1] == "ACK" {
		return t
	}
	return nil
}

// ack settles a delivery on both sides, and waits until both have heard: where no answer is asked for, that of a sign of
// life that follows it.
func (p *pair) ack(o operation) (string, error) {
	places := p.deliveries(o.stream, o.consumer)
	if len(places) == 0 {
		return "", nil
	}
	at := places[o.pick%len(places)]
	next := strings.HasPrefix(o.body, "+NXT")
	inbox := ""
	if next {
		p.pulls++
		inbox = fmt.Sprintf("pull.%s.%s.%d", o.stream, o.consumer, p.pulls)
	}
	var answers [2]string
	err := p.both(func(s *side) error {
		to := s.delivery(at.inbox, at.index).Reply
		answer := &answers[0]
		if s == p.sluice {
			answer = &answers[1]
		}
		switch {
		case next:
			if err := s.open(inbox); err != nil {
				return err
			}
			if err := s.nc.PublishRequest(to, inbox, []byte(o.body)); err != nil {
				return err
			}
			*answer = s.ask(message{subject: signOfLife(o.stream, o.consumer)})
		case o.confirm:
			*answer = s.ask(message{subject: to, data: o.body})
		default:
			if err := s.nc.Publish(to, []byte(o.body)); err != nil {
				return err
			}
			*answer = s.ask(message{subject: signOfLife(o.stream, o.consumer), data: "+WPI"})
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if answers[0] != answers[1] {
		return fmt.Sprintf("the answers to %s of %s differ: %q of nats-server, %q of Sluice", o.body, p.reference.delivery(at.inbox, at.index).Reply, answers[0], answers[1]), nil
	}
	if o.confirm && answers[0] == "" && settles(o.body) {
		t := ackTokens(p.sluice.delivery(at.inbox, at.index).Reply)
		seq, _ := strconv.ParseUint(t[5], 10, 64) // the servers write numbers
		key := o.stream + "/" + o.consumer
		if p.firm[key] == nil {
			p.firm[key] = seqSet{}
		}
		p.firm[key][seq] = true
	}
	return "", nil
}

func settles(body string) bool {
	return body == "" || body == "+ACK" || strings.HasPrefix(body, "+TERM")
}

// signOfLife is an acknowledgement subject of no message of a consumer: what is said there changes nothing, and the
// answer comes after all that was said before. Sluice answers when the consumer's progress is stored.
func signOfLife(stream, consumer string) string {
	return fmt.Sprintf("$JS.ACK.%s.%s.1.999999.999999.0.0", stream, consumer)
}

var placeholder = regexp.MustCompile(`\{(first|last):(\w+)([+-]\d+)\}`)

// filled puts sequences where a message has places for them.
func (p *pair) filled(m message) message {
	fill := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(found string) string {
			part := placeholder.FindStringSubmatch(found)
			seq := int64(p.states[part[2]].LastSeq)
			if part[1] == "first" {
				seq = int64(p.states[part[2]].FirstSeq)
			}
			off, _ := strconv.ParseInt(part[3], 10, 64) // the expression allows numbers only
			return strconv.FormatInt(max(0, seq+off), 10)
		})
	}
	header := slices.Clone(m.header)
	for i := range header {
		header[i] = fill(header[i])
	}
	return message{subject: m.subject, header: header, data: fill(m.data), mute: m.mute}
}

// view is all that a server tells of itself: by what was asked, or by inbox.
type view map[string]string

func (s *side) view() view {
	v := view{}
	list := s.ask(message{subject: "$JS.API.STREAM.NAMES"})
	v["streams"] = list
	for _, name := range streamNames {
		if !strings.Contains(list, `"`+name+`"`) {
			continue
		}
		v["stream "+name] = s.ask(message{subject: "$JS.API.STREAM.INFO." + name, data: `{"deleted_details":true,"subjects_filter":">"}`})
		v["consumers of "+name] = s.ask(message{subject: "$JS.API.CONSUMER.LIST." + name})
	}
	for inbox, lines := range s.heardBy() {
		v["inbox "+inbox] = strings.Join(lines, "\n")
	}
	return v
}

// withoutState is an answer without what the comparison of states looks at more closely: consumers' positions, and what a
// stream holds after an update, where Sluice lets go in the background of what a new retention does not keep.
func withoutState(answer string) string {
	var v map[string]any
	if json.Unmarshal([]byte(answer), &v) != nil {
		return answer
	}
	list, _ := v["consumers"].([]any)
	for _, c := range append(list, v) {
		if c, ok := c.(map[string]any); ok {
			delete(c, "delivered")
			delete(c, "ack_floor")
			delete(c, "state")
		}
	}
	return fields(v).json()
}

// positions rewrites what servers tell of consumers' places in a stream, where nats-server is not consistent:
//   - Messages that are not there, or do not pass the filter, make no difference: nats-server moves some consumers over
//     what a purge, a rollup or a limit removed, or over what it looked at in vain, and leaves others where they were.
//   - When a purge or a rollup moves a floor, nats-server may move its consumer sequence beyond what is unacknowledged.
//   - When a consumer gives a message up, nats-server notices now or with the next pull.
//   - When a rollup removes what is unacknowledged, only Sluice tells.
func (p *pair) positions(v view) view {
	for name, state := range v.states() {
		var answer map[string]any
		if json.Unmarshal([]byte(v["consumers of "+name]), &answer) != nil {
			continue
		}
		consumers, _ := answer["consumers"].([]any)
		for _, c := range consumers {
			c, _ := c.(map[string]any)
			filters := filtersOf(c)
			cfg, _ := c["config"].(map[string]any)
			if most, _ := cfg["max_deliver"].(float64); most > 0 {
				delete(c, "ack_floor")
				delete(c, "num_ack_pending")
				delete(c, "num_redelivered")
			}
			for _, field := range []string{"delivered", "ack_floor"} {
				position, ok := c[field].(map[string]any)
				if !ok {
					continue
				}
				at, _ := position["stream_seq"].(float64)
				seq := uint64(at)
				for seq < state.LastSeq && !(state.has(seq+1) && p.passes(name, seq+1, filters)) {
					seq++
				}
				position["stream_seq"] = seq
				if field == "ack_floor" && p.moved[name] {
					delete(position, "consumer_seq")
				}
			}
		}
		v["consumers of "+name] = fields(answer).json()
	}
	for key, text := range v {
		of, ok := strings.CutPrefix(key, "inbox $JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.")
		if !ok {
			continue
		}
		lines := strings.Split(text, "\n")
		slices.Sort(lines) // several that one operation removes come in any order
		lines = slices.DeleteFunc(lines, func(line string) bool {
			return p.moved[of[:2]] && strings.Contains(line, "Unacknowledged message was deleted")
		})
		if v[key] = strings.Join(lines, "\n"); v[key] == "" {
			delete(v, key)
		}
	}
	return v
}

// filtersOf are the subjects that a consumer's info says it filters by; none takes all.
func filtersOf(info map[string]any) (filters []string) {
	cfg, _ := info["config"].(map[string]any)
	if f, ok := cfg["filter_subject"].(string); ok {
		filters = append(filters, f)
	}
	list, _ := cfg["filter_subjects"].([]any)
	for _, f := range list {
		text, _ := f.(string)
		filters = append(filters, text)
	}
	return filters
}

// passes reports whether a message, which the reference is asked for once, passes one of the filters.
func (p *pair) passes(stream string, seq uint64, filters []string) bool {
	if len(filters) == 0 {
		return true
	}
	key := fmt.Sprint(stream, " ", seq)
	of, ok := p.subjects.Load(key)
	if !ok {
		var answer struct {
			Message struct {
				Subject string `json:"subject"`
			} `json:"message"`
		}
		text := p.reference.ask(message{subject: "$JS.API.STREAM.MSG.GET." + stream, data: fmt.Sprintf(`{"seq":%d}`, seq)})
		if json.Unmarshal([]byte(text), &answer) != nil || answer.Message.Subject == "" {
			return true // it is gone meanwhile; the next look tells
		}
		of = answer.Message.Subject
		p.subjects.Store(key, of)
	}
	return slices.ContainsFunc(filters, func(f string) bool { return subject.Match([]byte(of.(string)), f) })
}

// compareStates waits until both servers tell the same of themselves. It returns what Sluice tells.
func (p *pair) compareStates() (string, view) {
	for until := time.Now().Add(p.settle); ; {
		var views [2]view
		_ = p.both(func(s *side) error {
			if s == p.sluice {
				views[1] = s.view()
			} else {
				views[0] = s.view()
			}
			return nil
		})
		difference := differ(p.positions(views[0]), p.positions(views[1]))
		if difference == "" || time.Now().After(until) {
			return difference, views[1]
		}
		time.Sleep(time.Millisecond) // between two looks at what comes by itself
	}
}

func differ(a, b view) string {
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if a[key] != b[key] {
			return fmt.Sprintf("%s:\n%s", key, contrast(a[key], b[key]))
		}
	}
	return ""
}

// note remembers what the next operations and a kill need to know.
func (p *pair) note(o operation, v view) {
	states := v.states()
	for name := range p.states {
		if _, ok := states[name]; !ok {
			p.subjects = &sync.Map{} // another stream of that name has other messages
		}
	}
	for name, now := range states {
		before := p.states[name]
		for seq := before.FirstSeq; seq != 0 && seq <= before.LastSeq; seq++ {
			if before.has(seq) && !now.has(seq) && !o.isFirm() {
				if p.loose[name] == nil {
					p.loose[name] = seqSet{}
				}
				p.loose[name][seq] = true
			}
		}
	}
	p.states = states
	for _, stream := range streamNames {
		for _, consumer := range consumerNames {
			key := stream + "/" + consumer
			was := p.there[key]
			p.there[key] = strings.Contains(v["consumers of "+stream], `"name":"`+consumer+`"`)
			if was && !p.there[key] {
				p.forget(key)
			}
		}
	}
}

// forget ends what a consumer that is gone owes, and what of its deliveries can be acknowledged.
func (p *pair) forget(key string) {
	delete(p.firm, key)
	for inbox, lines := range p.reference.heardBy() {
		p.stale[key+" "+inbox] = len(lines)
	}
}

// isFirm reports whether what an operation removed is gone for good: all but acknowledgements without an answer, and
// deliveries that need none.
func (o operation) isFirm() bool {
	switch o.kind {
	case pull, listen, silence, restart:
		return false
	case ack:
		return o.confirm
	}
	return !strings.HasPrefix(o.messages[0].subject, "s") // a publish may be delivered at once
}

// moves names the stream that an operation purges or rolls up.
func (o operation) moves() (string, bool) {
	for _, m := range o.messages {
		if name, ok := strings.CutPrefix(m.subject, "$JS.API.STREAM.PURGE."); ok {
			return name, true
		}
		if slices.Contains(m.header, "Nats-Rollup") {
			return "S" + m.subject[1:2], true
		}
	}
	return "", false
}

func (v view) states() map[string]streamState {
	out := map[string]streamState{}
	for _, name := range streamNames {
		var info struct {
			State streamState `json:"state"`
		}
		if json.Unmarshal([]byte(v["stream "+name]), &info) == nil {
			out[name] = info.State
		}
	}
	return out
}

// compareContents reads every message of both servers.
func (p *pair) compareContents() string {
	for _, name := range slices.Sorted(maps.Keys(p.states)) {
		state := p.states[name]
		for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
			get := message{subject: "$JS.API.STREAM.MSG.GET." + name, data: fmt.Sprintf(`{"seq":%d}`, seq)}
			if difference := p.request(operation{messages: []message{get}}); difference != "" {
				return difference
			}
		}
	}
	return ""
}
