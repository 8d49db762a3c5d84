package stream

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/internal/subject"
)

// Filter chooses messages by subject: those that one of its patterns reaches, or all when it has none. It remembers
// what it found in the State that it is used with, in at most a few kilobytes, so it belongs to that State's owner
// and each reader (a consumer, a request) has its own.
type Filter struct {
	patterns []pattern
	all      bool // a pattern is ">", or there is none
	literal  bool // no pattern has a wildcard
	memo     memo
}

type pattern struct {
	text    []byte
	literal bool
}

// CompileFilter makes a filter of subjects and patterns. A subject that is not valid is an error.
func CompileFilter(subjects ...string) (*Filter, error) {
	f := &Filter{all: len(subjects) == 0, literal: true}
	for _, s := range subjects {
		if !subject.Valid(s) {
			return nil, fmt.Errorf("%w: %q", errNoSubject, s)
		}
		p := pattern{text: []byte(s), literal: !subject.HasWildcard(s)}
		f.all = f.all || s == ">"
		f.literal = f.literal && p.literal
		f.patterns = append(f.patterns, p)
	}
	return f, nil
}

// All reports whether every subject passes.
func (f *Filter) All() bool { return f == nil || f.all }

// Subjects lists the patterns; empty when there is none.
func (f *Filter) Subjects() []string {
	if f == nil {
		return nil
	}
	out := make([]string, len(f.patterns))
	for i := range f.patterns {
		out[i] = string(f.patterns[i].text)
	}
	return out
}

// Match reports whether messages of a subject pass. A nil Filter lets everything pass.
func (f *Filter) Match(text []byte) bool {
	if f == nil || f.all {
		return true
	}
	for i := range f.patterns {
		if f.patterns[i].match(text) {
			return true
		}
	}
	return false
}

func (p *pattern) match(text []byte) bool {
	if p.literal {
		return bytes.Equal(p.text, text)
	}
	return matchFrom(p.text, text) == matched
}

// matched is what matchFrom answers when a pattern reaches a text.
const matched = -1

// matchFrom answers matched, or the position of the first byte of text because of which no text that begins like it,
// up to and with that byte, is reached.
func matchFrom(pattern, text []byte) int {
	p, t := 0, 0
	for {
		// At the start of a token of both.
		switch {
		case t >= len(text):
			return len(text)
		case text[t] == '.':
			return t
		case pattern[p] == '>' && p+1 == len(pattern):
			return matched // tokens further on are not empty in what a stream stores
		case pattern[p] == '*' && (p+1 == len(pattern) || pattern[p+1] == '.'):
			p++
			for t < len(text) && text[t] != '.' {
				t++
			}
		default:
			for p < len(pattern) && pattern[p] != '.' {
				if t >= len(text) || text[t] != pattern[p] {
					return t
				}
				p, t = p+1, t+1
			}
			if t < len(text) && text[t] != '.' {
				return t
			}
		}
		switch {
		case p == len(pattern) && t == len(text):
			return matched
		case p == len(pattern) || t == len(text):
			return t
		}
		p, t = p+1, t+1
	}
}

// memo is what a filter with wildcards remembers of a State.
type memo struct {
	of *State
	// verdicts: by the lowest bits of a subject id, id<<1 | 1 when it passes. They hold while no id was freed.
	verdicts []uint32
	freed    uint64
	// covers: the configuration's subjects all pass. It holds for one edit of the configuration.
	covers bool
	edits  uint64
	// few lists the subjects that passed when the last sequence was through, unless there were too many: then only
	// tooMany is set. It says nothing about later messages.
	few     []subjectID
	tooMany bool
	through uint64
	walked  int // subjects that were looked at to make the list
}

// budget is how many messages may be looked at before making the list again pays.
func (m *memo) budget() uint64 { return uint64(max(scanAhead, m.walked)) }

const verdictSlots = 256

// attach forgets what is not of this State.
func (f *Filter) attach(s *State) {
	if f.memo.of == s {
		return
	}
	f.memo = memo{of: s, edits: s.edits - 1}
}

// passes reports whether the subject with this id passes.
func (f *Filter) passes(s *State, id subjectID) bool {
	m := &f.memo
	if m.verdicts == nil {
		m.verdicts = make([]uint32, verdictSlots)
	}
	if m.freed != s.names.freed {
		clear(m.verdicts)
		m.freed = s.names.freed
	}
	slot := &m.verdicts[id%verdictSlots]
	if *slot>>1 == id {
		return *slot&1 == 1
	}
	pass := f.Match(s.names.text(id))
	*slot = id << 1
	if pass {
		*slot |= 1
	}
	return pass
}

// everything reports whether all messages of the State pass, which a filter over the whole of a stream's subjects
// often finds without looking at them.
func (f *Filter) everything(s *State) bool {
	if f.All() {
		return true
	}
	f.attach(s)
	if f.memo.edits != s.edits {
		f.memo.edits = s.edits
		subjects := make([]string, len(f.patterns))
		for i := range f.patterns {
			subjects[i] = string(f.patterns[i].text)
		}
		f.memo.covers = coveredBy(s.cfg.Subjects, subjects)
	}
	return f.memo.covers && !s.stray
}

// walk visits the subjects with visible messages that pass, each once, in order of text for a single pattern. visit
// answers whether to go on. The result is how many subjects were looked at.
func (f *Filter) walk(s *State, visit func(id subjectID, row name) bool) (looked int) {
	if f.everything(s) {
		s.names.tree.walk(func(id subjectID) int { return visitVisible(s, id, visit) })
		return s.names.count
	}
	for i := range f.patterns {
		p, earlier := &f.patterns[i], f.patterns[:i]
		stopped := false
		look := func(id subjectID) int {
			looked++
			text := s.names.text(id)
			if at := matchFrom(p.text, text); at != matched {
				return at
			}
			if anyMatch(earlier, text) {
				return walkOn
			}
			answer := visitVisible(s, id, visit)
			stopped = answer == walkStop
			return answer
		}
		if !p.literal {
			s.names.tree.walk(look)
		} else if id := s.names.find(p.text); id != 0 {
			look(id)
		}
		if stopped {
			break
		}
	}
	return looked
}

func anyMatch(ps []pattern, text []byte) bool {
	return slices.ContainsFunc(ps, func(p pattern) bool { return p.match(text) })
}

func visitVisible(s *State, id subjectID, visit func(subjectID, name) bool) int {
	if row := s.names.row(id); row.count > 0 && !visit(id, row) {
		return walkStop
	}
	return walkOn
}
