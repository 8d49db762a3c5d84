package segment

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// Writer writes one segment. It is not safe for concurrent use. What it holds is one row group (about three times
// GroupBytes, or the largest message's) and the index so far: about 12 bytes a message and 100 a subject beside its name.
// It owns no goroutine and no file: to give up, drop it.
type Writer struct {
	options Options
	table   *table
	seal    *seal // nil of a plain segment
	index   *indexBuilder
	info    Info
	err     error // the first failure; nothing works afterwards

	group    []Message // alias arena
	arena    []byte
	inGroup  uint64 // sum of [Message.Size] in it
	isBinary bool   // a subject was not UTF-8

	maxGroups int // MaxGroups; tests take less
}

// rowBytes is what a message counts against GroupBytes beside its size: sequence and time.
const rowBytes = 16

// NewWriter begins a segment on w, which gets every byte in order and is never read.
func NewWriter(w io.Writer, o Options) (*Writer, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t, err := newTable(w, &o)
	if err != nil {
		return nil, fmt.Errorf("segment: begin: %w", err)
	}
	sw := &Writer{options: o, table: t, index: newIndexBuilder(), maxGroups: MaxGroups}
	if o.Key != nil {
		if sw.seal, err = newSeal(o.Key, t.unique); err != nil {
			return nil, err
		}
	}
	return sw, nil
}

// Add takes a message, whose sequence is above the one before. Its bytes are copied. ErrOrder, ErrTooLarge and ErrFull
// leave the writer as it was; any other error is final.
func (w *Writer) Add(m Message) error {
	if w.err != nil {
		return w.err
	}
	size := m.Size()
	switch {
	case len(m.Subject) == 0 || len(m.Subject) > MaxSubjectBytes || size > MaxMessageBytes:
		return fmt.Errorf("%w: sequence %d: subject of %d bytes, %d in all", ErrTooLarge, m.Seq, len(m.Subject), size)
	case w.info.Messages > 0 && m.Seq <= w.info.Last:
		return fmt.Errorf("%w: %d after %d", ErrOrder, m.Seq, w.info.Last)
	case w.info.Messages == math.MaxUint32:
		return fmt.Errorf("%w: %d messages", ErrFull, w.info.Messages)
	}
	held := w.inGroup + rowBytes*uint64(len(w.group))
	if len(w.group) > 0 && held+size+rowBytes > uint64(w.options.GroupBytes) {
		if len(w.index.groups)+1 >= w.maxGroups {
			return fmt.Errorf("%w: %d row groups", ErrFull, w.maxGroups)
		}
		if err := w.endGroup(); err != nil {
			w.err = err
			return err
		}
	}
	if w.info.Messages == 0 {
		w.info.First, w.info.FirstTime = m.Seq, m.Time
	}
	w.info.Last, w.info.LastTime = m.Seq, m.Time
	w.info.Messages++
	w.info.Bytes += size
	w.inGroup += size
	w.isBinary = w.isBinary || !utf8.Valid(m.Subject)
	w.index.add(&m)
	m.Subject, m.Header, m.Data = w.keep(m.Subject), w.keep(m.Header), w.keep(m.Data)
	w.group = append(w.group, m)
	return nil
}

// keep copies b into the group's arena; nil stays nil. An arena that is full is left to the messages that alias it.
func (w *Writer) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	if cap(w.arena)-len(w.arena) < len(b) {
		w.arena = make([]byte, 0, max(len(b), w.options.GroupBytes))
	}
	at := len(w.arena)
	w.arena = append(w.arena, b...)
	return w.arena[at:len(w.arena):len(w.arena)]
}

func (w *Writer) endGroup() error {
	number := len(w.index.groups)
	at, lengths, crc, err := w.table.group(w.group)
	if err != nil {
		return fmt.Errorf("segment: write group %d: %w", number, err)
	}
	w.index.endGroup(Group{
		Number: number, First: w.group[0].Seq, Last: w.group[len(w.group)-1].Seq, FirstTime: w.group[0].Time,
		Rows: uint32(len(w.group)), Bytes: w.inGroup, Offset: at, Lengths: lengths, CRC: crc,
	})
	clear(w.group)
	w.group, w.inGroup = w.group[:0], 0
	if cap(w.arena) > 2*w.options.GroupBytes { // a large message's
		w.arena = nil
	}
	w.arena = w.arena[:0]
	return nil
}

// Close ends the segment and tells what a manifest keeps of it. Nothing is valid without it. ErrEmpty where there was no
// message. The writer is done afterwards.
func (w *Writer) Close() (Info, error) {
	if w.err != nil {
		return Info{}, w.err
	}
	info, err := w.close()
	w.err = err
	if err == nil {
		w.err = fmt.Errorf("segment: the writer is closed")
	}
	return info, err
}

func (w *Writer) close() (Info, error) {
	if w.info.Messages == 0 {
		return Info{}, ErrEmpty
	}
	if err := w.endGroup(); err != nil {
		return Info{}, err
	}
	if w.isBinary {
		if err := w.table.binarySubjects(); err != nil {
			return Info{}, fmt.Errorf("segment: end: %w", err)
		}
	}
	h := &header{indexAt: w.table.sink.at}
	if w.seal != nil {
		h.encrypted, h.unique = true, w.seal.unique
	}
	index, err := packSections(h, w.seal, w.index.sections(&w.info))
	if err != nil {
		return Info{}, err
	}
	footer, err := w.table.footer([][2]string{
		{metaFormat, strconv.Itoa(FormatVersion)},
		{metaAccount, w.options.Account},
		{metaStream, w.options.Stream},
		{metaIndex, fmt.Sprintf("%d %d", h.indexAt, h.indexSize)},
	})
	if err != nil {
		return Info{}, fmt.Errorf("segment: end: %w", err)
	}
	h.footerSize, h.footerCRC = int64(len(footer)), checksum(footer)
	h.append(index[:0])
	w.info.IndexChecksum, w.info.DirectorySize = checksum(index), h.directorySize()
	for _, part := range [][]byte{index, footer} {
		if _, err := w.table.sink.Write(part); err != nil {
			return Info{}, fmt.Errorf("segment: end: %w", err)
		}
	}
	w.info.Size, w.info.IndexAt, w.info.IndexSize, w.info.Checksum = w.table.sink.at, h.indexAt, h.indexSize, w.table.sink.crc
	return w.info, nil
}
