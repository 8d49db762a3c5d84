package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// place is where a value stands in a file.
type place struct {
	file         string
	line, column int
}

// token is how the parser hands over a value whose place it knows.
type token interface {
	Value() any
	Line() int
	Position() int
	SourceFile() string
	IsUsedVariable() bool
}

// value is one value of the file. v is a string, bool, int64, float64, time.Time, []any or map[string]any; the members
// of the last two are tokens, or bare where they come from an environment variable.
type value struct {
	name string // the full name as the file spells it, such as "jetstream.limits.max_ack_pending"
	path string // the same of canonical names
	v    any
	at   place
	// variable says that some $name refers to it, so that a name that is no setting is meant.
	variable bool
}

// member makes a value of a member of parent, whose name goes on with suffix.
func (parent value) member(suffix string, v any) value {
	m := value{name: parent.name + suffix, path: parent.path + suffix, v: v, at: parent.at}
	if t, ok := v.(token); ok {
		m.v, m.variable = t.Value(), t.IsUsedVariable()
		m.at = place{file: t.SourceFile(), line: t.Line(), column: t.Position()}
		if m.at.file == "" {
			m.at.file = parent.at.file
		}
	}
	return m
}

// list returns the members of a list, or of a single value taken as a list of one.
func (v value) list() []value {
	items, ok := v.v.([]any)
	if !ok {
		return []value{v}
	}
	members := make([]value, len(items))
	for i, item := range items {
		m := v.member(fmt.Sprintf("[%d]", i), item)
		m.at = m.start()
		members[i] = m
	}
	return members
}

// start is where a block in a list begins: the parser gives such a block the place of its closing brace.
func (v value) start() place {
	first := v.at
	block, _ := v.v.(map[string]any)
	for key, m := range block {
		at := v.member("."+key, m).at
		if at.file == first.file && (at.line < first.line || at.line == first.line && at.column < first.column) {
			first = at
		}
	}
	return first
}

// decoder gathers what is wrong and what is remarkable while it reads.
type decoder struct {
	faults   []*Fault
	warnings []string
	// places of the settings that were read, by canonical path, for faults that only show once all is read.
	places map[string]value
}

func (d *decoder) fault(v value, format string, args ...any) {
	d.faults = append(d.faults, &Fault{File: v.at.file, Line: v.at.line, column: v.at.column, Setting: v.name,
		Reason: fmt.Sprintf(format, args...)})
}

func (d *decoder) warn(v value, format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf("%s:%d: %s: %s", v.at.file, v.at.line, v.name, fmt.Sprintf(format, args...)))
}

// claim notes that v sets target, and refuses a second, different value for it: the order in a file has no meaning in
// NATS's syntax, so neither could be said to win.
func (d *decoder) claim(target string, v value, is any) bool {
	if first, ok := d.places[target]; ok && !reflect.DeepEqual(first.v, is) {
		d.fault(v, "sets again what %s on line %d set", first.name, first.at.line)
		return false
	}
	d.places[target] = value{name: v.name, v: is, at: v.at}
	return true
}

// setter takes the value of one setting.
type setter func(value)

// setting is an entry of a block's table.
type setting struct {
	canonical string
	set       setter
}

// settings of one kind of block, by name in lower case.
type settings map[string]setting

// add enters a setting under its canonical name and its aliases.
func (s settings) add(set setter, canonical string, aliases ...string) {
	s[canonical] = setting{canonical, set}
	for _, a := range aliases {
		s[a] = setting{canonical, set}
	}
}

// refuse enters names that nats-server knows and Sluice does not support, for one reason.
func (s settings) refuse(d *decoder, reason string, names ...string) {
	for _, n := range names {
		s[n] = setting{n, func(v value) { d.fault(v, "not supported: %s", reason) }}
	}
}

// inert enters names that are accepted though they have no effect here, which a warning says.
func (s settings) inert(d *decoder, reason string, names ...string) {
	for _, n := range names {
		s[n] = setting{n, func(v value) { d.warn(v, "has no effect: %s", reason) }}
	}
}

// block reads the members of v, which must be a block, in the order in which they stand.
func (d *decoder) block(v value, table settings) {
	members, ok := d.members(v)
	if !ok {
		return
	}
	for _, m := range members {
		s, known := table[strings.ToLower(m.key)]
		if known {
			m.path = v.path + v.dot() + s.canonical
		}
		switch {
		case known && d.claim(m.path, m.value, m.v):
			s.set(m.value)
		case !known && !m.variable:
			d.fault(m.value, "unknown setting")
		}
	}
}

type member struct {
	key string
	value
}

// members returns the members of a block in the order in which they stand.
func (d *decoder) members(v value) ([]member, bool) {
	m, ok := v.v.(map[string]any)
	if !ok {
		d.fault(v, "expected a block { … }, got %s", describe(v.v))
		return nil, false
	}
	members := make([]member, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		members = append(members, member{key, v.member(v.dot()+key, m[key])})
	}
	slices.SortStableFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.at.line, b.at.line), cmp.Compare(a.at.column, b.at.column))
	})
	return members, true
}

// dot stands between the name of a block and that of its member; the file itself has no name.
func (v value) dot() string {
	if v.name == "" {
		return ""
	}
	return "."
}

// describe names a value for a message. Strings are not quoted back: they may be secrets.
func describe(v any) string {
	switch v := v.(type) {
	case string:
		return "a string"
	case bool:
		return fmt.Sprintf("the boolean %v", v)
	case int64, float64:
		return fmt.Sprintf("the number %v", v)
	case time.Time:
		return "a date"
	case []any:
		return "a list"
	case map[string]any:
		return "a block"
	default:
		return fmt.Sprintf("a %T", v)
	}
}
