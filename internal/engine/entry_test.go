package engine

import (
	"runtime"
	"testing"
	"weak"

	"github.com/sluicemq/sluice/internal/record"
)

// A chunk stays in memory for as long as the tail's budget allows. The entry that took it to the log, with the reply
// subjects of its publishers, must not: no budget counts that.
func TestChunkOutlivesItsEntry(t *testing.T) {
	s := &Stream{log: struct{ Log }{}}
	e := s.addMessage(&record.StoredMessage{Seq: 1, Subject: []byte("s"), Data: []byte("data")})
	e.addAck(1, []byte("_INBOX.publisher"), false)
	c := e.chunk
	e = s.closeChunk()
	s.building = nil
	entry := weak.Make(e)
	e = nil
	runtime.GC()
	if entry.Value() != nil {
		t.Error("the chunk keeps its entry in memory")
	}
	if m, err := c.message(*c.data.Load(), 1); err != nil || string(m.Data) != "data" {
		t.Errorf("the chunk holds %q: %v", m.Data, err)
	}
	runtime.KeepAlive(s)
}
