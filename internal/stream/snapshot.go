package stream

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
)

// snapshotVersion is the first byte of a snapshot. Its layout, with u for an unsigned and i for a signed varint
// (encoding/binary), and text for u length and that many bytes:
//
//	version (1 byte)
//	i created, ns        text configuration, JSON
//	u first sequence     u last sequence     i time of the last message, ns     text its Nats-Msg-Id
//	u subjects, each in bytewise order: u bytes shared with the one before, text the rest
//	u messages, u 1 if they have places, each in order: u sequence - the one before, i time - the one before,
//	    u size, u subject's position, u place if they have places
//	u message ids, each: 16 bytes digest, u sequence - the one before, i time - the one before
//	u messages with a TTL, each in order: u sequence - the one before, i when it is over, ns
//	u messages that never expire, each in order: u sequence - the one before
//	u delete markers, likewise
//	u schedules, each in order: u sequence - the one before, i when it fires next, ns
//	CRC-32C of all of it (4 bytes, little-endian)
const snapshotVersion = 2

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot appends the visible state in a compact form: everything but the messages' bytes and what is in flight.
// It takes about 8 bytes a message.
func (s *State) Snapshot(dst []byte) ([]byte, error) {
	cfg, err := json.Marshal(s.cfg)
	if err != nil {
		return dst, fmt.Errorf("stream: encoding the configuration of %s: %w", s.cfg.Name, err)
	}
	start := len(dst)
	b := append(dst, snapshotVersion)
	b = binary.AppendVarint(b, s.created.UnixNano())
	b = appendText(b, cfg)
	b = binary.AppendUvarint(b, s.firstSeq)
	b = binary.AppendUvarint(b, s.lastSeq)
	b = binary.AppendVarint(b, s.lastTime)
	b = appendText(b, s.lastID)
	b, positions := s.appendSubjects(b)
	b = s.appendMessages(b, positions)
	b = s.dedup.appendTo(b, s.lastSeq)
	b = s.appendLifetimes(b)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli)), nil
}

func appendText(b, text []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// appendSubjects writes the subjects of visible messages and gives their positions by id.
func (s *State) appendSubjects(b []byte) (_ []byte, positions []uint32) {
	positions = make([]uint32, s.names.rows.n)
	b = binary.AppendUvarint(b, uint64(s.visible))
	n := uint32(0)
	var before []byte
	s.names.tree.walk(func(id subjectID) int {
		row := s.names.row(id)
		if row.count == 0 {
			return walkOn
		}
		text := s.names.text(id)
		shared := 0
		for shared < min(len(before), len(text)) && before[shared] == text[shared] {
			shared++
		}
		b = binary.AppendUvarint(b, uint64(shared))
		b = appendText(b, text[shared:])
		positions[id] = n
		n++
		before = append(before[:0], text...)
		return walkOn
	})
	return b, positions
}

func (s *State) appendMessages(b []byte, positions []uint32) []byte {
	places := uint64(0)
	if s.log.placed() {
		places = 1
	}
	b = binary.AppendUvarint(b, s.log.live)
	b = binary.AppendUvarint(b, places)
	var seq uint64
	var time int64
	for c, ok := s.log.first(); ok; c, ok = s.log.after(c) {
		nextSeq, nextTime := s.log.seq(c), s.log.time(c)
		b = binary.AppendUvarint(b, nextSeq-seq)
		b = binary.AppendVarint(b, nextTime-time)
		b = binary.AppendUvarint(b, s.log.size(c))
		b = binary.AppendUvarint(b, uint64(positions[s.log.subject(c)]))
		if places == 1 {
			b = binary.AppendUvarint(b, uint64(s.log.place(c)))
		}
		seq, time = nextSeq, nextTime
	}
	return b
}

// appendTo writes what is remembered of messages up to last.
func (d *dedup) appendTo(b []byte, last uint64) []byte {
	to := d.head
	for to != d.tail && d.at(to).seq <= last {
		to++
	}
	return d.appendRange(b, d.head, to)
}

// appendRange writes what is remembered at positions from to, but not including, to: their number, and of each the digest,
// and sequence and time as the distance from those before.
func (d *dedup) appendRange(b []byte, from, to uint64) []byte {
	b = binary.AppendUvarint(b, to-from)
	var seq uint64
	var time int64
	for pos := from; pos != to; pos++ {
		r := d.at(pos)
		b = binary.LittleEndian.AppendUint64(b, r.id.hi)
		b = binary.LittleEndian.AppendUint64(b, r.id.lo)
		b = binary.AppendUvarint(b, r.seq-seq)
		b = binary.AppendVarint(b, r.time-time)
		seq, time = r.seq, r.time
	}
	return b
}

// appendLifetimes writes what is known of the messages that are there.
func (s *State) appendLifetimes(b []byte) []byte {
	gone := func(seq uint64) bool { return !s.Has(seq) }
	deadlines := slices.DeleteFunc(slices.Clone(s.life.deadlines), func(d deadline) bool { return gone(d.seq) })
	slices.SortFunc(deadlines, func(x, y deadline) int { return cmp.Compare(x.seq, y.seq) })
	b = binary.AppendUvarint(b, uint64(len(deadlines)))
	var seq uint64
	for _, d := range deadlines {
		b = binary.AppendUvarint(b, d.seq-seq)
		b = binary.AppendVarint(b, d.at)
		seq = d.seq
	}
	for _, set := range []seqSet{s.life.never, s.life.markers} {
		live := slices.DeleteFunc(slices.Clone(set), gone)
		b = binary.AppendUvarint(b, uint64(len(live)))
		seq = 0
		for _, next := range live {
			b = binary.AppendUvarint(b, next-seq)
			seq = next
		}
	}
	plans := s.plans.list()
	b = binary.AppendUvarint(b, uint64(len(plans)))
	seq = 0
	for _, p := range plans {
		b = binary.AppendUvarint(b, p.seq-seq)
		b = binary.AppendVarint(b, p.at)
		seq = p.seq
	}
	return b
}
