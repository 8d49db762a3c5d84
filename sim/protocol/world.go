package protocol

// The sizes of the world. Everything is an array of bytes, so that a state is one comparable value.
const (
	maxProcesses = 3 // explored; the verifier is one more
	maxNodes     = 3
	maxEpochs    = 4 // of a node
	maxOffsets   = 7 // of a log
	maxRanges    = 7 // of a head
	maxRecords   = 8 // of the stream
	maxAppends   = 3 // of a process
	maxSegments  = 3 // that a process writes, and that a manifest lists
	maxLate      = 4 // requests that have yet to land

	segmentKeys = maxProcesses*maxSegments + 1 // key 0 is none
)

// record is one message that a process appends: 0 is none. A batch of the model holds one record, and the record stands
// for the batch's put id as well.
type record uint8

func recordOf(process, n int) record { return record(process*maxAppends + n + 1) }

// process and number take a record apart.
func (r record) process() int { return int(r-1) / maxAppends }
func (r record) number() int  { return int(r-1) % maxAppends }

// logID names a log: a node and an epoch of it.
type logID uint8

func logOf(node, epoch uint8) logID { return logID(node*maxEpochs + epoch - 1) }

// objectKind is what lies at an offset.
type objectKind uint8

const (
	nothing objectKind = iota
	batchObject
	fenceObject
)

// object is what lies at an offset of a log.
type object struct {
	kind   objectKind
	record record // of a batch
	seq    uint8  // of the record in the stream, from 0
	by     uint8  // of a fence: who put it
}

// logRange is the part of a log that a head lists.
type logRange struct {
	log        logID
	start, end uint8
	open       bool
	from       uint8 // 1 + the node whose head may still list the range; 0: none
}

func (r logRange) empty() bool { return !r.open && r.start >= r.end }

// head is a node's head. Its counter is its ETag, since no two contents share one.
type head struct {
	epoch, counter uint8 // epoch 0: there is no head
	instance       uint8 // the claim that holds it; 0: none
	released       bool
	taker          uint8 // the claim that takes its logs over; 0: none
	takerNode      uint8
	// generation counts the owners of the stream; 0: the node's logs hold nothing of it. It stands for what fences and
	// the manifest say about owners and heirs.
	generation uint8
	n          uint8
	logs       [maxRanges]logRange
}

func (h *head) ranges() []logRange { return h.logs[:h.n] }

func (h *head) lists(log logID) bool {
	for _, r := range h.ranges() {
		if r.log == log {
			return true
		}
	}
	return false
}

// keep leaves only the ranges that ok likes.
func (h *head) keep(ok func(logRange) bool) {
	all, n := h.logs, h.n
	h.logs, h.n = [maxRanges]logRange{}, 0
	for _, r := range all[:n] {
		if ok(r) {
			h.logs[h.n] = r
			h.n++
		}
	}
}

// insert puts a range before the one at i.
func (h *head) insert(i int, r logRange) {
	copy(h.logs[i+1:], h.logs[i:h.n])
	h.logs[i] = r
	h.n++
}

// without gives a head that lists only what taker does not.
func (h head) without(taker *head) head {
	h.keep(func(r logRange) bool { return !taker.lists(r.log) })
	return h
}

// manifest lists the segments that make the stream up to a sequence, which is the place from which to replay. Its
// counter is its ETag.
type manifest struct {
	counter  uint8
	by       uint8 // the process that wrote it
	swap     uint8 // which of its swaps that was: a number that no other has
	through  uint8 // records below it are in the segments
	n        uint8
	segments [maxSegments]uint8 // keys
}

func (m *manifest) lists(key uint8) bool {
	for _, k := range m.segments[:m.n] {
		if k == key {
			return true
		}
	}
	return false
}

// history is records in the order of the stream.
type history struct {
	n       uint8
	records [maxRecords]record
}

func (h *history) add(r record) bool {
	if h.n == maxRecords {
		return false
	}
	h.records[h.n] = r
	h.n++
	return true
}

func (h *history) list() []record { return h.records[:h.n] }

// disk is everything in the store.
type disk struct {
	heads    [maxNodes]head
	logs     [maxNodes * maxEpochs][maxOffsets]object
	manifest manifest
	segments [segmentKeys]history // empty: no object
}

// ghosts are what only the judge sees: what was promised, and what ever lay at a key.
type ghosts struct {
	acknowledged [maxRecords]record // by sequence
	batches      [maxNodes * maxEpochs][maxOffsets]record
	segments     [segmentKeys]history
}

// world is one state of everything.
type world struct {
	disk
	ghosts
	late      [maxLate]request
	nLate     uint8
	faults    uint8 // that may still happen
	processes [maxProcesses]process
	broken    violation
}
