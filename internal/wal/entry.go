package wal

// Entry is what one caller appends at once: records that are committed together.
type Entry struct {
	// Data holds the encoded records, one after the other. It belongs to the log from Append until Committed, and is
	// never changed again by anybody: the caller may go on reading it, also meanwhile.
	Data []byte
	// Records is how many records Data holds, 1 or more.
	Records int
	// Lazy entries do not start a commit until LazyWindow has passed since the first of them was appended; they ride
	// along with the next batch.
	Lazy bool
	// Sink hears what became of the entry; nil if nobody wants to know.
	Sink Sink

	// Position is where the entry lies; set before Committed, valid when Err is nil.
	Position Position
	// Err, when set before Committed, says that the entry was not committed by this log: whether it is in the store is
	// not known, whoever replays the log decides.
	Err error
}

// Sink hears what became of entries. Implementations are comparable (pointers).
type Sink interface {
	// Committed hands entries back, each exactly once, in the order in which they were appended: a run of entries of
	// this sink that follow each other in the log. They are committed, or all of them have Err set. It is called by
	// the log's own goroutine and must not wait for anything, least of all for Append to get room. The slice is the
	// log's and valid during the call.
	Committed(entries []*Entry)
}

// Position is the place of an entry's data in the log that it was appended to.
type Position struct {
	Epoch  Epoch
	Offset Offset
	Byte   uint32 // where the data begins in the batch's body
}

// handBack tells the sinks of entries, one call per run of one sink.
func handBack(entries []*Entry) {
	for len(entries) > 0 {
		sink, n := entries[0].Sink, 1
		for n < len(entries) && entries[n].Sink == sink {
			n++
		}
		if sink != nil {
			sink.Committed(entries[:n])
		}
		entries = entries[n:]
	}
}
