package engine

import (
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/wal"
)

// maxChunkBytes is when a chunk is handed to the log though more publishes wait: it bounds how long the first of them
// waits, and how much a read of one message has to fetch.
const maxChunkBytes = 256 << 10

// entry is what a stream hands to the log in one piece: either a chunk of messages with the publishers that wait for
// them, or control records with what is to happen once they are committed.
type entry struct {
	wal.Entry

	chunk *chunk
	acks  []pendingAck
	reply []byte // arena of the acks' reply subjects

	// loan is another stream's entry that goes to the log in one object with this one; nil: none.
	loan *loan

	// then runs on the owner once the entry is committed, or with the error that says it never will be.
	then []func(error)
}

// pendingAck is a publisher that waits for its message to be committed.
type pendingAck struct {
	seq       uint64
	begin     uint32 // of the reply subject in the arena
	end       uint32
	extra     uint32 // where further fields of the answer end, which stand behind the reply subject
	duplicate bool
	fast      bool // the message is part of a fast batch, as its reply subject says
}

// Committed implements wal.Sink. The log hands entries back in the order in which they were appended, so that their
// number says which.
func (s *Stream) Committed(entries []*wal.Entry) { s.inbox.commit(len(entries)) }

// newEntry starts an entry of control records.
func (s *Stream) newEntry(data []byte, records int, lazy bool) *entry {
	return &entry{Entry: wal.Entry{Data: data, Records: records, Lazy: lazy, Sink: s}}
}

// building is the chunk that takes the messages of this turn.
func (s *Stream) buildingEntry() *entry {
	if s.building == nil {
		// What is acknowledged already need not hurry: it goes with the next batch, or when the log's window is over.
		e := s.newEntry(nil, 0, s.asyncPersist)
		e.chunk = &chunk{}
		s.building = e
	}
	return s.building
}

// addMessage puts an accepted message into the chunk that is being built.
func (s *Stream) addMessage(m *record.StoredMessage) *entry {
	e := s.buildingEntry()
	if c := e.chunk; c.count > 0 {
		c.leaveOut(m.Seq)
		if m.Seq != c.first+uint64(c.count) {
			s.seal()
			e = s.buildingEntry()
		}
	}
	c := e.chunk
	if c.count == 0 {
		c.first = m.Seq
	}
	if cap(e.Data)-len(e.Data) < record.MessageSize(m) {
		e.Data = growChunk(e.Data, record.MessageSize(m), s.lastChunkBytes)
	}
	c.offsets = append(c.offsets, uint32(len(e.Data)))
	e.Data = record.AppendMessage(e.Data, s.id, m)
	e.Records++
	c.count++
	c.live++
	return e
}

// growChunk makes room for need more bytes. The last chunk's size is the best guess of this one's, since a chunk's
// spare capacity is memory that the tail's budget does not count.
func growChunk(data []byte, need, guess int) []byte {
	size := len(data) + need
	if len(data) == 0 {
		size = max(size, min(guess, maxChunkBytes))
	} else {
		size = max(size, 2*cap(data))
	}
	grown := make([]byte, len(data), size)
	copy(grown, data)
	return grown
}

// addAck notes a publisher that waits for seq.
func (e *entry) addAck(seq uint64, reply []byte, duplicate bool) {
	if len(reply) == 0 {
		return
	}
	begin := uint32(len(e.reply))
	e.reply = append(e.reply, reply...)
	end := uint32(len(e.reply))
	e.acks = append(e.acks, pendingAck{seq: seq, begin: begin, end: end, extra: end, duplicate: duplicate})
}

// extendAck adds fields to the answer that the last publisher waits for.
func (e *entry) extendAck(fields string) {
	if n := len(e.acks); n > 0 && int(e.acks[n-1].extra) == len(e.reply) {
		e.reply = append(e.reply, fields...)
		e.acks[n-1].extra = uint32(len(e.reply))
	}
}

// seal ends the chunk that is being built and sends it on its way.
func (s *Stream) seal() {
	if e := s.closeChunk(); e != nil && s.log != nil {
		s.inFlightBytes += len(e.Data)
		s.append(e)
	}
}

// closeChunk ends the chunk that is being built and gives its entry, or nil. Without a log, and with persist_mode:
// async, its messages are visible.
func (s *Stream) closeChunk() *entry {
	e := s.building
	if e == nil {
		return nil
	}
	s.building = nil
	s.lastChunkBytes = len(e.Data)
	if spare := cap(e.Data) - len(e.Data); spare > len(e.Data)/4 {
		e.Data = append(make([]byte, 0, len(e.Data)), e.Data...)
	}
	c := e.chunk
	c.bytes = len(e.Data)
	data := e.Data // a pointer to the entry's field would keep all of the entry as long as the chunk is in memory
	c.data.Store(&data)
	if s.log == nil || s.asyncPersist {
		s.tail.push(c)
		s.applyChunk(c)
		s.acknowledge(e)
		e.acks, e.reply = nil, nil
	}
	return e
}

// append hands an entry to the log. While the log is full, entries wait here in order, and no publish is accepted.
func (s *Stream) append(e *entry) {
	if len(s.unsent) > 0 || !s.mayPass(e) {
		s.unsent = append(s.unsent, e)
		return
	}
	if !s.trySend(e) {
		s.unsent = append(s.unsent, e)
	}
}

// lastOut is the newest entry that is not committed yet; there is one.
func (s *Stream) lastOut() *entry {
	if n := len(s.unsent); n > 0 {
		return s.unsent[n-1]
	}
	return s.sent[len(s.sent)-1]
}
