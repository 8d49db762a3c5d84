package protocol

import (
	"fmt"
	"strings"
)

// say tells what a step does; only while a trace is written.
func (r *run) say(format string, args ...any) {
	if r.tracing {
		r.said = append(r.said, processName(r.who)+"  "+fmt.Sprintf(format, args...))
	}
}

// processName gives the letter of a process: A, B, C; V is the last recovery.
func processName(id uint8) string {
	switch {
	case id == 0:
		return "-"
	case id > maxProcesses:
		return "V"
	}
	return string(rune('A' + id - 1))
}

func nodeName(node uint8) string { return string(rune('x' + node)) }

// String names a record by its process: a0, a1.
func (r record) String() string {
	if r == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%s%d", strings.ToLower(processName(uint8(r.process()+1))), r.number())
}

// String gives node and epoch.
func (l logID) String() string {
	return fmt.Sprintf("wal/%s/%d", nodeName(uint8(l)/maxEpochs), uint8(l)%maxEpochs+1)
}

func segmentName(key uint8) string {
	if key == 0 {
		return "none"
	}
	return fmt.Sprintf("%s-%d", processName((key-1)/maxSegments+1), (key-1)%maxSegments+1)
}

// String names the segments.
func (s segmentSet) String() string {
	var names []string
	for key := range uint8(segmentKeys) {
		if s.has(key) {
			names = append(names, segmentName(key))
		}
	}
	return strings.Join(names, " ")
}

// String tells what lies at an offset.
func (o object) String() string {
	switch o.kind {
	case batchObject:
		return fmt.Sprintf("batch[%s]", o.record)
	case fenceObject:
		return "the fence of " + processName(o.by)
	}
	return "nothing"
}

// String tells the range and where it comes from.
func (r logRange) String() string {
	end := "open"
	if !r.open {
		end = fmt.Sprint(r.end)
	}
	text := fmt.Sprintf("%s %d..%s", r.log, r.start, end)
	if r.from != 0 {
		text += " from " + nodeName(r.from-1)
	}
	return text
}

// String tells what matters of a head.
func (h head) String() string {
	var logs []string
	for _, l := range h.ranges() {
		logs = append(logs, l.String())
	}
	text := fmt.Sprintf("{v%d epoch %d of %s", h.counter, h.epoch, processName(h.instance))
	if h.taker != 0 {
		text += ", taken by " + processName(h.taker)
	}
	if h.released {
		text += ", released"
	}
	return text + ": " + strings.Join(logs, ", ") + "}"
}

// String tells what a manifest lists.
func (m manifest) String() string {
	var names []string
	for _, k := range m.segments[:m.n] {
		names = append(names, segmentName(k))
	}
	return fmt.Sprintf("{v%d by %s: segments [%s], replay from sequence %d}",
		m.counter, processName(m.by), strings.Join(names, " "), m.through)
}

// String lists the records.
func (h history) String() string {
	var names []string
	for _, r := range h.list() {
		names = append(names, r.String())
	}
	return "[" + strings.Join(names, " ") + "]"
}

// trim leaves out how the last recovery gets at the heads: that is the same each time.
func trim(said []string) (rest []string) {
	for _, line := range said {
		if !strings.HasPrefix(line, "V  put of heads") {
			rest = append(rest, line)
		}
	}
	return rest
}

// trace replays the way to a state and tells it step by step.
func (x *explorer) trace(way []uint64, end violation) string {
	var b strings.Builder
	w := x.initial()
	fmt.Fprintf(&b, "%s\n", end)
	fmt.Fprintf(&b, "  at first: heads/x is %s, the manifest is %s\n", w.heads[0], w.manifest)
	x.run.tracing = true
	defer func() { x.run.tracing = false }()
	for i, next := range way {
		found := false
		x.successors(&w, func(to *world) bool {
			if x.hash(to) != next {
				return true
			}
			found = true
			said := x.run.said
			if i == len(way)-1 {
				x.judged.clear()
				x.run.said = nil
				x.judge(to)
				said = append(said, x.run.said...)
			}
			for _, line := range trim(said) {
				fmt.Fprintf(&b, "  %s\n", line)
			}
			w = *to
			return false
		})
		if !found {
			fmt.Fprintf(&b, "  (the way is lost at step %d)\n", i)
			break
		}
	}
	return b.String()
}
