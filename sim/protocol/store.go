package protocol

import "fmt"

// requestKind is what a request changes.
type requestKind uint8

const (
	putLog requestKind = iota + 1
	putHead
	putManifest
	putSegment
	deleteLog
	deleteSegment
)

// condition is what a put asks of the key.
type condition uint8

const (
	always condition = iota
	ifAbsent
	ifMatch
)

// request is a write. Reads need no requests of their own: what a process read a while ago is in its memory.
type request struct {
	kind      requestKind
	condition condition
	etag      uint8
	by        uint8 // the process
	log       logID
	at        uint8 // an offset, a node or a segment's key
	object    object
	head      head
	manifest  manifest
	segment   history
}

// answer is what the caller of a write hears.
type answer uint8

const (
	done    answer = iota
	refused        // precondition failed
	unknown        // a timeout: it has landed, or will, or never will
)

// fate is what becomes of a write on its way. All but the first cost a fault.
type fate uint8

const (
	passes   fate = iota
	lost          // it lands, the answer does not come back
	late          // the caller gives up waiting; it lands at any later time, or never
	twice         // it lands, and lands again at any later time
	repeated      // it lands, a layer below repeats it, and the caller hears that the key is taken, by itself
	fates
)

// send makes a write, with every fate that it can have.
func (r *run) send(req request) answer {
	f := passes
	if r.w.faults > 0 && r.faulty {
		f = fate(r.pick(int(fates)))
	}
	if f != passes {
		r.w.faults--
	}
	if f == late {
		r.postpone(req)
		r.say("%s: times out, may land later", req)
		return unknown
	}
	a := r.land(req)
	switch {
	case f == passes:
		r.say("%s: %s", req, a)
		return a
	case a == refused:
		r.impossible = true // the caller reads back in any case: as if it had passed
		return a
	case f == twice:
		r.postpone(req)
		r.say("%s: done, but a copy may land later", req)
		return done
	case f == repeated && req.condition != always:
		r.say("%s: done, but a repetition of it is answered %q", req, "precondition failed")
		return refused
	case f == repeated:
		r.impossible = true
	}
	r.say("%s: done, but the answer is lost", req)
	return unknown
}

// postpone keeps a write for later. The set is sorted, so that its order makes no two states of one.
func (r *run) postpone(req request) {
	w := r.w
	if int(w.nLate) == maxLate {
		r.impossible = true
		return
	}
	i := int(w.nLate)
	for ; i > 0 && req.before(&w.late[i-1]); i-- {
		w.late[i] = w.late[i-1]
	}
	w.late[i] = req
	w.nLate++
}

func (q *request) before(o *request) bool {
	a := [...]uint8{uint8(q.kind), q.by, uint8(q.log), q.at, q.etag, q.head.counter, q.manifest.n}
	b := [...]uint8{uint8(o.kind), o.by, uint8(o.log), o.at, o.etag, o.head.counter, o.manifest.n}
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// landLate lets one of the writes that are late land.
func (r *run) landLate() bool {
	w := r.w
	if w.nLate == 0 {
		return false
	}
	i := r.pick(int(w.nLate))
	req := w.late[i]
	copy(w.late[i:], w.late[i+1:w.nLate])
	w.nLate--
	w.late[w.nLate] = request{}
	a := r.land(req)
	r.say("the late %s lands: %s", req, a)
	return a == done
}

// land applies a write to the store, under its condition as it is now.
func (r *run) land(q request) answer {
	w := r.w
	switch q.kind {
	case putLog:
		slot := &w.logs[q.log][q.at]
		if q.condition == ifAbsent && slot.kind != nothing {
			return refused
		}
		*slot = q.object
		if b := q.object.record; q.object.kind == batchObject {
			r.noteBatch(q.log, q.at, b)
		}
	case putHead:
		h := &w.heads[q.at]
		if q.condition == ifMatch && h.counter != q.etag || q.condition == ifAbsent && h.epoch != 0 {
			return refused
		}
		*h = q.head
		r.forgetHopeless()
	case putManifest:
		if q.condition == ifMatch && w.manifest.counter != q.etag {
			return refused
		}
		w.manifest = q.manifest
		r.forgetHopeless()
	case putSegment:
		if q.condition == ifAbsent && w.disk.segments[q.at].n != 0 {
			return refused
		}
		w.disk.segments[q.at] = q.segment
		r.noteSegment(q.at, q.segment)
	case deleteLog:
		w.logs[q.log][q.at] = object{}
	case deleteSegment:
		w.disk.segments[q.at] = history{}
	}
	return done
}

// forgetHopeless drops late writes that can never land any more: those of a version that has been replaced. Counters
// only grow, so it does not come back.
func (r *run) forgetHopeless() {
	w := r.w
	kept := uint8(0)
	for _, q := range w.late[:w.nLate] {
		hopeless := false
		switch h := &w.heads[q.at%maxNodes]; {
		case q.kind == putHead && q.condition == ifMatch:
			hopeless = h.counter > q.etag
		case q.kind == putHead && q.condition == ifAbsent:
			hopeless = h.epoch != 0
		case q.kind == putManifest && q.condition == ifMatch:
			hopeless = w.manifest.counter > q.etag
		}
		if !hopeless {
			w.late[kept] = q
			kept++
		}
	}
	for i := kept; i < w.nLate; i++ {
		w.late[i] = request{}
	}
	w.nLate = kept
}

// String names a request as a person would.
func (q request) String() string {
	how := [...]string{"", " if absent", fmt.Sprintf(" if it is still version %d", q.etag)}[q.condition]
	switch q.kind {
	case putLog:
		return fmt.Sprintf("put of %s at %s/%d%s", q.object, q.log, q.at, how)
	case putHead:
		return fmt.Sprintf("put of heads/%s %s%s", nodeName(q.at), q.head, how)
	case putManifest:
		return fmt.Sprintf("put of the manifest %s%s", q.manifest, how)
	case putSegment:
		return fmt.Sprintf("put of segment %s with %s%s", segmentName(q.at), q.segment, how)
	case deleteLog:
		return fmt.Sprintf("delete of %s/%d", q.log, q.at)
	case deleteSegment:
		return fmt.Sprintf("delete of segment %s", segmentName(q.at))
	}
	return "no request"
}

// String gives the answer in the words of package store.
func (a answer) String() string { return [...]string{"done", "precondition failed", "unknown"}[a] }
