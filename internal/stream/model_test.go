package stream

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/subject"
)

// model is the stream as one would write it without caring for time or memory: a slice of messages.
type model struct {
	cfg    api.StreamConfig
	msgs   []modelMessage // visible
	flight []modelMessage
	first  uint64
	last   uint64
	next   uint64
	clock  int64
	ids    []modelID
	// visibleID is the message id of the last visible message.
	visibleID string
}

type modelMessage struct {
	seq     uint64
	time    int64
	subject string
	header  string
	data    int
	size    uint64
	id      string
	rollup  string
	ttl     string
	marker  bool
	place   Place
}

// lives is how many seconds a message says it stays; -1: for ever, 0: nothing is said.
func (x modelMessage) lives() int64 {
	switch x.ttl {
	case "":
		return 0
	case "never":
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(x.ttl, "s"), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

type modelID struct {
	id   string
	seq  uint64
	time int64
}

func newModel(cfg api.StreamConfig) *model {
	next := max(cfg.FirstSeq, 1)
	return &model{cfg: cfg, first: next, last: next - 1, next: next}
}

func (m *model) sizeOf(subj, header string, data int) uint64 {
	n := uint64(len(subj) + len(header) + data)
	if m.cfg.Storage == api.MemoryStorage {
		return n + 16
	}
	if header != "" {
		return n + 34
	}
	return n + 30
}

// modelPublish is a publish with what its headers say.
type modelPublish struct {
	subject, id, rollup, stream, lastID  string
	expectLast, expectSubject, ofSubject string
	ttl                                  string
	kvPurge                              bool
	data                                 int
}

func (p modelPublish) header() string {
	var b strings.Builder
	add := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "Nats-%s: %s\r\n", key, value)
		}
	}
	add("Msg-Id", p.id)
	add("Rollup", p.rollup)
	add("Expected-Stream", p.stream)
	add("Expected-Last-Msg-Id", p.lastID)
	add("Expected-Last-Sequence", p.expectLast)
	add("Expected-Last-Subject-Sequence", p.expectSubject)
	add("Expected-Last-Subject-Sequence-Subject", p.ofSubject)
	add("TTL", p.ttl)
	if p.kvPurge {
		b.WriteString("KV-Operation: PURGE\r\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return "NATS/1.0\r\n" + b.String() + "\r\n"
}

// accept gives the sequence and whether it is a duplicate, or the text of the error.
func (m *model) accept(p modelPublish, now int64) (seq uint64, duplicate bool, refusal string) {
	now = max(now, m.clock)
	header := p.header()
	if n := (modelMessage{ttl: p.ttl}).lives(); n > 0 && n < int64(m.cfg.SubjectDeleteMarkerTTL.Seconds()) && m.cfg.MaxMsgsPer != 1 {
		// The raised TTL comes last, where header puts it, except behind what is not the stream's.
		p.ttl = strconv.Itoa(int(m.cfg.SubjectDeleteMarkerTTL.Seconds()))
		raised := p
		raised.ttl = ""
		end := "Nats-TTL: " + p.ttl + "\r\n\r\n"
		if header = strings.TrimSuffix(raised.header(), "\r\n"); header == "" {
			header = "NATS/1.0\r\n"
		}
		header += end
	}
	size := m.sizeOf(p.subject, header, p.data)
	accepted := slices.Concat(m.msgs, m.flight)
	switch {
	case m.cfg.Sealed:
		return 0, false, "invalid operation on sealed stream"
	case m.cfg.MaxMsgSize >= 0 && len(p.header())+p.data > int(m.cfg.MaxMsgSize):
		return 0, false, "message size exceeds maximum allowed"
	case p.stream != "" && p.stream != m.cfg.Name:
		return 0, false, "expected stream does not match"
	case p.ttl != "" && !m.cfg.AllowMsgTTL:
		return 0, false, "per-message TTL is disabled"
	}
	if p.expectSubject != "" {
		of := p.subject
		if p.ofSubject != "" {
			of = p.ofSubject
		}
		var last uint64
		for _, x := range m.rollUp(accepted) {
			if subject.Match(x.subject, of) {
				last = x.seq
			}
		}
		if of == ">" && last != m.next-1 {
			last = 0
		}
		if p.expectSubject != fmt.Sprint(last) {
			return 0, false, fmt.Sprintf("wrong last sequence: %d", last)
		}
	} else if p.ofSubject != "" {
		return 0, false, "missing sequence for expected last sequence per subject"
	}
	if p.expectLast != "" && p.expectLast != fmt.Sprint(m.next-1) {
		return 0, false, fmt.Sprintf("wrong last sequence: %d", m.next-1)
	}
	if p.id != "" {
		for _, r := range m.ids {
			if r.id == p.id && now-r.time < m.cfg.Duplicates.Nanoseconds() {
				return r.seq, true, ""
			}
		}
	}
	if p.lastID != "" && p.lastID != m.lastID() {
		return 0, false, "wrong last msg ID: " + m.lastID()
	}
	if p.rollup != "" {
		if !m.cfg.RollupAllowed || m.cfg.DenyPurge {
			return 0, false, "rollup not permitted"
		}
		if p.rollup != "sub" && p.rollup != "all" {
			return 0, false, fmt.Sprintf("rollup value invalid: %q", p.rollup)
		}
	}
	if text := m.room(p, size); text != "" {
		return 0, false, text
	}
	x := modelMessage{seq: m.next, time: now, subject: p.subject, header: header, data: p.data, size: size, id: p.id, rollup: p.rollup, ttl: p.ttl, marker: p.kvPurge}
	m.next++
	m.clock = now
	m.flight = append(m.flight, x)
	if p.id != "" {
		m.ids = append(m.ids, modelID{p.id, x.seq, x.time})
	}
	return x.seq, false, ""
}

// lastID of what was accepted last.
func (m *model) lastID() string {
	if n := len(m.flight); n > 0 {
		return m.flight[n-1].id
	}
	return m.visibleID
}

// room is the check of discard: new against the state that everything in flight leads to.
func (m *model) room(p modelPublish, size uint64) string {
	if m.cfg.Discard != api.DiscardNew {
		return ""
	}
	v := slices.Clone(m.msgs)
	for _, x := range m.flight {
		v, _ = m.enforce(append(v, x), x)
	}
	var bytes, oldest uint64
	perSubject := int64(0)
	for _, x := range v {
		bytes += x.size
		if x.subject == p.subject {
			if perSubject == 0 {
				oldest = x.size
			}
			perSubject++
		}
	}
	atLimit := m.cfg.MaxMsgsPer > 0 && perSubject >= m.cfg.MaxMsgsPer
	switch {
	case atLimit && m.cfg.DiscardNewPer && p.rollup == "":
		return textMaxMsgsPerSubject
	case m.cfg.MaxMsgs > 0 && int64(len(v)) >= m.cfg.MaxMsgs && !atLimit:
		return textMaxMsgs
	case m.cfg.MaxBytes > 0 && int64(bytes+size) > m.cfg.MaxBytes && (!atLimit || oldest < size):
		return textMaxBytes
	}
	return ""
}

// rollUp leaves out what a later message rolls up.
func (m *model) rollUp(msgs []modelMessage) []modelMessage {
	if !m.cfg.RollupAllowed {
		return msgs
	}
	var kept []modelMessage
	for _, x := range msgs {
		switch x.rollup {
		case "all":
			kept = nil
		case "sub":
			kept = slices.DeleteFunc(kept, func(y modelMessage) bool { return y.subject == x.subject })
		}
		kept = append(kept, x)
	}
	return kept
}

// enforce removes from msgs, whose last is x, what the limits do not allow.
func (m *model) enforce(msgs []modelMessage, x modelMessage) (kept, removed []modelMessage) {
	drop := func(which func(modelMessage) bool) {
		for i := 0; i < len(msgs); i++ {
			if which(msgs[i]) {
				removed = append(removed, msgs[i])
				msgs = slices.Delete(msgs, i, i+1)
				i--
			}
		}
	}
	if limit := m.cfg.MaxMsgsPer; limit > 0 {
		n := int64(0)
		for _, y := range msgs {
			if y.subject == x.subject {
				n++
			}
		}
		drop(func(y modelMessage) bool {
			if y.subject == x.subject && n > limit {
				n--
				return true
			}
			return false
		})
	}
	msgs, more := m.enforceTotals(msgs)
	removed = append(removed, more...)
	if !m.cfg.RollupAllowed {
		return msgs, removed
	}
	switch x.rollup {
	case "all":
		drop(func(y modelMessage) bool { return y.seq != x.seq })
	case "sub":
		drop(func(y modelMessage) bool { return y.seq != x.seq && y.subject == x.subject })
	}
	return msgs, removed
}

func (m *model) enforceTotals(msgs []modelMessage) (kept, removed []modelMessage) {
	if m.cfg.Discard != api.DiscardOld {
		return msgs, nil
	}
	var bytes uint64
	for _, y := range msgs {
		bytes += y.size
	}
	for len(msgs) > 0 && (m.cfg.MaxMsgs > 0 && int64(len(msgs)) > m.cfg.MaxMsgs || m.cfg.MaxBytes > 0 && int64(bytes) > m.cfg.MaxBytes) {
		bytes -= msgs[0].size
		removed = append(removed, msgs[0])
		msgs = msgs[1:]
	}
	return msgs, removed
}

// apply makes the oldest in flight visible.
func (m *model) apply() (x modelMessage, removed []modelMessage) {
	x, m.flight = m.flight[0], m.flight[1:]
	m.visibleID = x.id
	m.last = x.seq
	m.msgs, removed = m.enforce(append(m.msgs, x), x)
	m.bound()
	return x, removed
}

func (m *model) bound() {
	m.first = m.last + 1
	if len(m.msgs) > 0 {
		m.first = m.msgs[0].seq
	}
}

func (m *model) remove(which func(modelMessage) bool) (removed []modelMessage) {
	m.msgs = slices.DeleteFunc(m.msgs, func(x modelMessage) bool {
		gone := which(x)
		if gone {
			removed = append(removed, x)
		}
		return gone
	})
	m.bound()
	return removed
}

// due gives what goes at a time, and what is to be replaced by a marker, as the sequences of both.
func (m *model) due(now int64) (gone, marked []uint64) {
	count := map[string]int{}
	for _, x := range slices.Concat(m.msgs, m.flight) {
		count[x.subject]++
	}
	markers := m.cfg.SubjectDeleteMarkerTTL > 0
	if markers && m.cfg.Sealed {
		return nil, nil
	}
	decide := func(which func(modelMessage) bool) {
		for _, x := range m.msgs {
			if !which(x) || slices.Contains(gone, x.seq) || slices.Contains(marked, x.seq) {
				continue
			}
			if count[x.subject]--; count[x.subject] == 0 && markers && !x.marker {
				marked = append(marked, x.seq)
			} else {
				gone = append(gone, x.seq)
			}
		}
	}
	if m.cfg.MaxAge > 0 {
		decide(func(x modelMessage) bool { return x.time <= now-m.cfg.MaxAge.Nanoseconds() && x.lives() >= 0 })
	}
	if m.cfg.AllowMsgTTL {
		decide(func(x modelMessage) bool { return x.lives() > 0 && x.time+x.lives()*int64(time.Second) <= now })
	}
	return gone, marked
}

// mark accepts the delete marker of a message's subject.
func (m *model) mark(seq uint64, now int64) modelMessage {
	i := slices.IndexFunc(m.msgs, func(x modelMessage) bool { return x.seq == seq })
	ttl := m.cfg.SubjectDeleteMarkerTTL.String()
	header := "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: " + ttl + "\r\nNats-Rollup: sub\r\n\r\n"
	m.clock = max(m.clock, now)
	x := modelMessage{seq: m.next, time: m.clock, subject: m.msgs[i].subject, header: header, size: m.sizeOf(m.msgs[i].subject, header, 0),
		rollup: "sub", ttl: ttl, marker: true}
	m.next++
	m.flight = append(m.flight, x)
	return x
}

func (m *model) purge(p Purge) (removed []modelMessage) {
	if p.Upto == 1 {
		return nil
	}
	all := p.Subject == "" || p.Subject == ">"
	n := uint64(0)
	for _, x := range m.msgs {
		if all || subject.Match(x.subject, p.Subject) {
			n++
		}
	}
	left := n
	if p.Keep > 0 {
		left = n - min(n, p.Keep)
	}
	removed = m.remove(func(x modelMessage) bool {
		if left == 0 || !all && !subject.Match(x.subject, p.Subject) || p.Upto > 0 && x.seq >= p.Upto {
			return false
		}
		left--
		return true
	})
	if all && p.Keep == 0 && p.Upto > m.last+1 {
		m.last = p.Upto - 1
		m.next = max(m.next, p.Upto)
		m.bound()
	}
	return removed
}

func (m *model) update(cfg api.StreamConfig) (removed []modelMessage) {
	old := m.cfg
	m.cfg = cfg
	m.msgs, removed = m.enforceTotals(m.msgs)
	if limit := cfg.MaxMsgsPer; limit > 0 && (old.MaxMsgsPer <= 0 || limit < old.MaxMsgsPer) {
		count := map[string]int64{}
		for _, x := range m.msgs {
			count[x.subject]++
		}
		removed = append(removed, m.remove(func(x modelMessage) bool {
			count[x.subject]--
			return count[x.subject] >= limit
		})...)
	}
	m.bound()
	return removed
}

// The reads.

func (m *model) passing(f *Filter) []modelMessage {
	return slices.DeleteFunc(slices.Clone(m.msgs), func(x modelMessage) bool { return !modelMatch(f, x.subject) })
}

func modelMatch(f *Filter, subj string) bool {
	patterns := f.Subjects()
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return subject.Match(subj, p) })
}

func (m *model) lastPerSubject(f *Filter, upto uint64) []uint64 {
	last := map[string]uint64{}
	for _, x := range m.passing(f) {
		if x.seq <= upto {
			last[x.subject] = x.seq
		}
	}
	var seqs []uint64
	for _, seq := range last {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

func (m *model) subjects(f *Filter) []SubjectCount {
	count := map[string]uint64{}
	for _, x := range m.passing(f) {
		count[x.subject]++
	}
	var out []SubjectCount
	for s, n := range count {
		out = append(out, SubjectCount{s, n})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Subject < out[j].Subject })
	return out
}

// compare tells every difference between the model and a State in what is visible.
func (m *model) compare(s *State, rng *rand.Rand, kept ...*Filter) error {
	var errs []error
	diff := func(what string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			errs = append(errs, fmt.Errorf("%s is %v, want %v", what, got, want))
		}
	}
	var bytes uint64
	for _, x := range m.msgs {
		bytes += x.size
	}
	diff("Msgs", s.Msgs(), len(m.msgs))
	diff("Bytes", s.Bytes(), bytes)
	diff("FirstSeq", s.FirstSeq(), m.first)
	diff("LastSeq", s.LastSeq(), m.last)
	diff("NumSubjects", s.NumSubjects(), len(m.subjects(nil)))
	diff("NumDeleted", s.NumDeleted(), m.last+1-m.first-uint64(len(m.msgs)))
	gone := uint64(0)
	s.Deleted(func(first, last uint64) bool {
		gone += last - first + 1
		if i := sort.Search(len(m.msgs), func(i int) bool { return m.msgs[i].seq >= first }); i < len(m.msgs) && m.msgs[i].seq <= last {
			errs = append(errs, fmt.Errorf("Deleted yields %d to %d", first, last))
		}
		return true
	})
	diff("Deleted", gone, s.NumDeleted())
	for range 2 {
		m.compareFilter(s, randomFilter(rng), m.randomSeq(rng), diff)
	}
	for _, f := range kept {
		m.compareFilter(s, f, m.randomSeq(rng), diff)
	}
	m.compareMessage(s, rng, diff)
	return errors.Join(errs...)
}

func (m *model) randomSeq(rng *rand.Rand) uint64 {
	switch rng.IntN(6) {
	case 0:
		return 0
	case 1:
		return m.last + rng.Uint64N(3)
	}
	span := m.last + 2 - min(m.first, m.last+1)
	return m.first + rng.Uint64N(span)
}

func (m *model) compareFilter(s *State, f *Filter, at uint64, diff func(string, any, any)) {
	name := func(what string) string { return fmt.Sprintf("%s(%v, %d)", what, f.Subjects(), at) }
	passing := m.passing(f)
	i := sort.Search(len(passing), func(i int) bool { return passing[i].seq >= at })
	var next, last modelMessage
	if i < len(passing) {
		next = passing[i]
	}
	got, _ := s.Next(f, at)
	diff(name("Next"), got.describe(), next.describe())
	diff(name("Pending"), s.Pending(f, at), len(passing)-i)
	upto := at
	if at == 0 {
		upto = math.MaxUint64
	}
	for _, x := range passing {
		if x.seq <= upto {
			last = x
		}
	}
	got, _ = s.Last(f, at)
	diff(name("Last"), got.describe(), last.describe())
	seqs, err := s.LastPerSubject(nil, f, at, 0)
	want := m.lastPerSubject(f, upto)
	diff(name("LastPerSubject"), seqs, want)
	diff(name("LastPerSubject error"), err, nil)
	if len(want) > 1 {
		_, err := s.LastPerSubject(nil, f, at, len(want)-1)
		diff(name("LastPerSubject, too many"), err, ErrTooMany)
	}
	counts := m.subjects(f)
	page, total := s.Subjects(f, 1, 3)
	diff(name("Subjects total"), total, len(counts))
	if len(f.patterns) < 2 {
		diff(name("Subjects"), page, counts[min(1, len(counts)):min(4, len(counts))])
	}
}

func (m *model) compareMessage(s *State, rng *rand.Rand, diff func(string, any, any)) {
	seq := m.randomSeq(rng)
	var want modelMessage
	for _, x := range m.msgs {
		if x.seq == seq {
			want = x
		}
	}
	got, ok := s.Meta(seq)
	diff(fmt.Sprintf("Meta(%d)", seq), got.describe(), want.describe())
	diff(fmt.Sprintf("Has(%d)", seq), s.Has(seq), ok)
	at := m.clock - rng.Int64N(int64(10*time.Second))
	after := m.last + 1
	for _, x := range slices.Backward(m.msgs) {
		if x.time >= at {
			after = x.seq
		}
	}
	diff(fmt.Sprintf("SeqAt(%d)", at), s.SeqAt(at), after)
}

func (x Meta) describe() string {
	return fmt.Sprint(x.Seq, x.Time, x.Size, string(x.Subject), x.Place)
}

func (x modelMessage) describe() string {
	return fmt.Sprint(x.seq, x.time, x.size, x.subject, x.place)
}

func describeRemoved(e *Effects) string {
	var out []string
	for _, r := range e.Removed {
		out = append(out, fmt.Sprint(r.Seq, string(r.Subject), r.Size, r.Place))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func describeModelRemoved(ms []modelMessage) string {
	var out []string
	for _, x := range ms {
		out = append(out, fmt.Sprint(x.seq, x.subject, x.size, x.place))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func refusalOf(err *jserr.Error) string {
	if err == nil {
		return ""
	}
	return err.Description
}

var modelTokens = []string{"a", "b", "c", "ab", "abc", "d"}

// rarePatterns reach subjects that are few among many messages.
var rarePatterns = []string{"z.>", "z.*.q", "*.*.q", "*.1.q", "z.2.*"}

func randomSubject(rng *rand.Rand) string {
	if rng.IntN(300) == 0 {
		return fmt.Sprintf("z.%d.q", rng.IntN(4))
	}
	s := modelTokens[rng.IntN(len(modelTokens))]
	for range rng.IntN(3) {
		s += "." + modelTokens[rng.IntN(len(modelTokens))]
	}
	return s
}

func randomPattern(rng *rand.Rand) string {
	switch rng.IntN(8) {
	case 0:
		return ">"
	case 1:
		return rarePatterns[rng.IntN(len(rarePatterns))]
	}
	tokens := strings.Split(randomSubject(rng), ".")
	for i := range tokens {
		switch rng.IntN(6) {
		case 0, 1:
			tokens[i] = "*"
		case 2:
			if i == len(tokens)-1 {
				tokens[i] = ">"
			}
		}
	}
	return strings.Join(tokens, ".")
}

func randomFilter(rng *rand.Rand) *Filter {
	var patterns []string
	for range rng.IntN(4) {
		patterns = append(patterns, randomPattern(rng))
	}
	f, err := CompileFilter(patterns...)
	if err != nil {
		panic(err)
	}
	return f
}
