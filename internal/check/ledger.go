package check

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/wal"
)

// ledger is what the logs say of a stream: a shallow replay. It keeps which sequences are where, no messages.
//
// The newest checkpoint says which messages there are at its place, and all of these must be in a segment, or in the log
// before it. Earlier checkpoints may list messages that were deleted since and are gone with their batches. Whatever the
// stream has from later on is in the log, which has no gaps.
type ledger struct {
	id            record.StreamID
	node          *node
	account, name string

	created   bool // its configuration counts: it does not lie before the manifest's place
	unsettled bool // a checkpoint has begun whose state has not come
	deleted   bool
	restoring bool
	from      bool // the checkpoint that the manifest names was seen

	messages uint64
	last     uint64 // sequence of the last message
	logged   runs   // of messages in the log
	need     runs   // what the newest checkpoint says is there and the log has not
	faults   []Finding
}

// spot is where a record lies.
type spot struct {
	node  *node
	log   int // index in the node's ranges
	batch *wal.Batch
	byte  uint32
}

func (p spot) key() string { return p.batch.ID.Key(p.batch.Offset) }

var errUnknownRecord = errors.New("a kind that this version does not know")

// apply replays a record. The error is that of a record that no replay can read.
func (s *survey) apply(p spot, rec record.Record) error {
	l := s.ledgers[rec.Stream]
	if l == nil {
		l = &ledger{id: rec.Stream, node: p.node}
		s.ledgers[rec.Stream] = l
	}
	if l.node != p.node {
		l.fault(Finding{Severity: Error, Kind: "stream-split", Key: p.key(), What: fmt.Sprintf("records of stream %016x, of which the logs of %s have others", uint64(l.id), l.node.key),
			Means: "Each node would recover a part of it", Do: "Compare both heads with older versions of them"})
		return nil
	}
	switch rec.Kind {
	case record.Message:
		return l.message(p, rec.Body)
	case record.StreamConfig:
		var body record.StreamConfigBody
		if err := record.ParseJSON(rec.Body, &body); err != nil {
			return err
		}
		s.config(l, p, &body)
		return nil
	case record.StreamState:
		st, err := record.ParseStreamState(rec.Body)
		if err == nil && l.created && !l.deleted {
			l.state(p, &st)
		}
		return err
	case record.StreamDelete:
		l.deleted, l.logged, l.need, l.faults = true, nil, nil, nil
		return nil
	case record.StreamRestore:
		l.restoring = true
		return nil
	}
	return parseRest(rec)
}

// parseRest reads records of which the ledger keeps nothing.
func parseRest(rec record.Record) (err error) {
	switch rec.Kind {
	case record.StreamSources:
		err = record.ParseJSON(rec.Body, new(record.StreamSourcesBody))
	case record.StreamIDs:
		err = parseIDs(rec.Body)
	case record.MessageDelete:
		_, err = record.ParseSeqs(rec.Body)
	case record.Purge:
		_, err = record.ParsePurge(rec.Body)
	case record.Expire:
		_, err = record.ParseExpire(rec.Body)
	case record.ConsumerConfig:
		err = record.ParseJSON(rec.Body, new(record.ConsumerConfigBody))
	case record.ConsumerProgress, record.ConsumerState:
		_, _, err = record.ParseConsumer(rec.Body)
	case record.ConsumerDelete:
	default:
		return errUnknownRecord
	}
	return err
}

// parseIDs reads the message ids of a checkpoint: their number, and of each 16 bytes, an uvarint and a varint.
func parseIDs(b []byte) error {
	fail := fmt.Errorf("%w: message ids of %d bytes", record.ErrMalformed, len(b))
	const digestBytes = 16
	n, w := binary.Uvarint(b)
	if w <= 0 {
		return fail
	}
	for b = b[w:]; n > 0; n-- {
		if len(b) < digestBytes {
			return fail
		}
		b = b[digestBytes:]
		_, w := binary.Uvarint(b)
		if w <= 0 {
			return fail
		}
		b = b[w:]
		if _, w = binary.Varint(b); w <= 0 {
			return fail
		}
		b = b[w:]
	}
	if len(b) > 0 {
		return fail
	}
	return nil
}

func (l *ledger) fault(f Finding) {
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, f)
	}
}

func (l *ledger) message(p spot, body []byte) error {
	m, err := record.ParseMessage(body)
	if err != nil || l.deleted {
		return err
	}
	if m.Seq <= l.last {
		l.fault(Finding{Severity: Error, Kind: "sequence-order", Key: p.key(), What: fmt.Sprintf("stream %016x: message %d at byte %d follows %d", uint64(l.id), m.Seq, p.byte, l.last),
			Means: p.node.key + " cannot start", Do: "Keep the object, and report this"})
		return nil
	}
	l.last = m.Seq
	l.messages++
	if len(m.Subject) > 0 { // else only its sequence was taken
		l.logged.add(m.Seq, m.Seq)
	}
	return nil
}

// config replays a configuration, as a recovery would.
func (s *survey) config(l *ledger, p spot, body *record.StreamConfigBody) {
	if l.deleted || l.created {
		l.from = l.from || s.isFrom(l, p)
		return
	}
	if s.outdated(l, p) || body.Update {
		return
	}
	l.from = s.isFrom(l, p)
	l.account, l.name, l.created, l.unsettled = body.Account, body.Config.Name, true, body.Checkpoint
	if !body.Checkpoint && len(l.logged) > 0 {
		l.fault(Finding{Severity: Error, Kind: "stream-uncreated", Key: p.key(), What: fmt.Sprintf("stream %s is created here, and has messages before: %v", l.name, l.logged),
			Means: p.node.key + " cannot start", Do: "Keep the object, and report this"})
	}
	l.restoring = false
}

// place gives a manifest's place in the order of a node's logs. What is in none of them was trimmed: it lies before all.
func (n *node) place(node string, epoch, offset uint64) (log int, at wal.Offset) {
	i, ok := n.index[wal.LogID{Kind: wal.WriteAhead, Node: node, Epoch: wal.Epoch(epoch)}]
	if !ok {
		return -1, wal.Offset(offset)
	}
	return i, wal.Offset(offset)
}

// outdated reports whether a record lies before the checkpoint that the stream's manifest names.
func (s *survey) outdated(l *ledger, p spot) bool {
	m := s.manifests[l.id]
	if m == nil || m.err != nil {
		return false
	}
	log, at := p.node.place(m.from.Node, m.from.Epoch, m.from.Offset)
	switch {
	case p.log != log:
		return p.log < log
	case p.batch.Offset != at:
		return p.batch.Offset < at
	}
	return p.byte < m.from.Byte
}

// isFrom reports whether the checkpoint that the manifest names begins here.
func (s *survey) isFrom(l *ledger, p spot) bool {
	m := s.manifests[l.id]
	if m == nil || m.err != nil {
		return false
	}
	log, at := p.node.place(m.from.Node, m.from.Epoch, m.from.Offset)
	return p.log == log && p.batch.Offset == at && p.byte == m.from.Byte
}

// state compares what a checkpoint says is there with what the log has of it.
func (l *ledger) state(p spot, st *record.StreamStateBody) {
	l.unsettled = false
	if l.last > st.Last {
		l.fault(Finding{Severity: Error, Kind: "sequence-order", Key: p.key(), What: fmt.Sprintf("stream %s: the checkpoint ends at sequence %d, before %d, which the log has", l.name, st.Last, l.last),
			Means: p.node.key + " cannot start", Do: "Keep the object, and report this"})
	}
	l.last = max(l.last, st.Last)
	var there runs
	at := st.First
	for _, g := range st.Gaps {
		if g.First > at {
			there.add(at, g.First-1)
		}
		at = g.Last + 1
	}
	if at <= st.Last && at > 0 {
		there.add(at, st.Last)
	}
	l.need = there.minus(l.logged)
}
