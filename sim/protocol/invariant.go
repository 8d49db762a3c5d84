package protocol

import (
	"fmt"
	"hash/maphash"
)

// rule is an invariant, by how it is broken.
type rule uint8

const (
	forgotten   rule = iota + 1 // an acknowledged record is not recovered at its sequence
	behindBack                  // a record is acknowledged that a later owner has not recovered
	twoAtOne                    // two records are acknowledged at one sequence
	misplaced                   // a log holds a record that does not follow the one before
	gap                         // an object that is needed is missing
	fenceInside                 // a fence lies within a range
	segmentGone                 // a manifest lists a segment that is missing
	unappended                  // a record was recovered that nobody appended, or twice
	otherBatch                  // two batches were put at one offset
	otherBytes                  // two segments were put at one key
	twoOwners                   // two processes own the stream in one generation
	lostClaim                   // a recovery with nothing to hinder it does not come to an end
)

// violation is a broken invariant and its circumstances.
type violation struct {
	rule    rule
	a, b, c uint8
	last    bool // found by the last recovery, not by a process
}

// fail notes a violation; the first one stands. It gives false, for the caller to return.
func (r *run) fail(rule rule, a, b, c uint8) bool {
	if r.w.broken.rule == 0 {
		r.w.broken = violation{rule, a, b, c, r.who > maxProcesses}
	}
	return false
}

// String says what is wrong.
func (v violation) String() string {
	text := ""
	switch v.rule {
	case forgotten:
		text = fmt.Sprintf("%s was acknowledged as sequence %d; what is recovered there is %s", record(v.a), v.b, record(v.c))
	case behindBack:
		text = fmt.Sprintf("%s was acknowledged as sequence %d after %s had read the log without it",
			record(v.a), v.b, processName(v.c))
	case twoAtOne:
		text = fmt.Sprintf("%s and %s were both acknowledged as sequence %d", record(v.a), record(v.c), v.b)
	case misplaced:
		text = fmt.Sprintf("the log holds %s with sequence %d where sequence %d is due", record(v.a), v.b, v.c)
	case gap:
		text = fmt.Sprintf("%s/%d is needed and missing", logID(v.a), v.b)
	case fenceInside:
		text = fmt.Sprintf("%s/%d holds a fence, within the log", logID(v.a), v.b)
	case segmentGone:
		text = fmt.Sprintf("segment %s is listed and missing", segmentName(v.a))
	case unappended:
		text = fmt.Sprintf("%s is recovered as sequence %d: twice, or never appended", record(v.a), v.b)
	case otherBatch:
		text = fmt.Sprintf("%s/%d held %s before", logID(v.a), v.b, record(v.c))
	case otherBytes:
		text = fmt.Sprintf("segment %s held something else before", segmentName(v.a))
	case twoOwners:
		text = fmt.Sprintf("%s and %s both own the stream", processName(v.a), processName(v.b))
	case lostClaim:
		text = "recovery does not come to an end"
	default:
		return "nothing"
	}
	if v.last {
		return "if all die now: " + text
	}
	return text
}

// noteBatch looks at a batch that lands.
func (r *run) noteBatch(log logID, at uint8, b record) {
	ever := &r.w.batches[log][at]
	if *ever != 0 && *ever != b {
		r.fail(otherBatch, uint8(log), at, uint8(*ever))
	}
	*ever = b
}

// noteSegment looks at a segment that lands.
func (r *run) noteSegment(key uint8, s history) {
	ever := &r.w.ghosts.segments[key]
	if ever.n != 0 && *ever != s {
		r.fail(otherBytes, key, 0, 0)
	}
	*ever = s
}

// judgeAck looks at an acknowledgement.
func (r *run) judgeAck(p *process, rec record, seq uint8) {
	w := r.w
	if before := w.acknowledged[seq]; before != 0 && before != rec {
		r.fail(twoAtOne, uint8(rec), seq, uint8(before))
	}
	w.acknowledged[seq] = rec
	for i := range w.processes {
		q := &w.processes[i]
		if q.phase == serving && q.generation > p.generation && (seq >= q.recovered.n || q.recovered.records[seq] != rec) {
			r.fail(behindBack, uint8(rec), seq, q.id)
		}
	}
}

// judgeRecovery looks at what a process has recovered: all that earlier owners acknowledged, at its place, and everything
// once. A process that was itself succeeded while it read need not see what its successors acknowledge.
func (r *run) judgeRecovery(p *process) {
	h := &p.recovered
	for seq, rec := range r.w.acknowledged {
		if rec == 0 || r.w.processes[rec.process()].generation > p.generation {
			continue
		}
		if got := h.records[seq]; got != rec {
			r.fail(forgotten, uint8(rec), uint8(seq), uint8(got))
			return
		}
	}
	next := [maxProcesses]int{} // of each process, the record that comes next: they are recovered without holes
	for seq, rec := range h.list() {
		q := rec.process()
		if rec.number() != next[q] || r.w.processes[q].phase != serving {
			r.fail(unappended, uint8(rec), uint8(seq), 0)
			return
		}
		next[q]++
	}
}

// judgeOwner looks at a process that begins to own the stream.
func (r *run) judgeOwner(p *process) {
	for i := range r.w.processes {
		if q := &r.w.processes[i]; q.id != p.id && q.phase == serving && q.generation == p.generation {
			r.fail(twoOwners, q.id, p.id, 0)
		}
	}
}

// judgeStore looks at a state's store: the manifest's segments are there, and if everybody died now and nothing that is
// late ever landed, one more node that adopts all the others would recover what was acknowledged. It runs the same
// code, on a copy. What follows from a store is looked at once for all states that have it.
func (x *explorer) judgeStore(w *world) {
	type question struct {
		disk         disk
		acknowledged [maxRecords]record
	}
	if !x.judged.add(maphash.Comparable(x.seed, question{w.disk, w.acknowledged})) {
		return
	}
	copied := *w
	copied.late, copied.nLate = [maxLate]request{}, 0
	r := &run{w: &copied, setting: x.run.setting, missing: x.run.missing, tracing: x.run.tracing}
	verifier := process{id: maxProcesses + 1, node: maxNodes - 1, adopts: 1<<(maxNodes-1) - 1, phase: taking}
	if !r.has(FreezeFirst) {
		verifier.phase = reading
	}
	for range 100 {
		r.who = verifier.id
		if verifier.phase >= serving || copied.broken.rule != 0 {
			break
		}
		r.claim(&verifier)
	}
	if verifier.phase != serving {
		r.fail(lostClaim, 0, 0, 0)
	}
	for _, key := range w.manifest.segments[:w.manifest.n] {
		if w.disk.segments[key] != w.ghosts.segments[key] || w.disk.segments[key].n == 0 {
			r.fail(segmentGone, key, 0, 0)
		}
	}
	w.broken = copied.broken
	x.run.said = append(x.run.said, r.said...)
}
