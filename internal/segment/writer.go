package segment

import (
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Writer writes one segment. It is not safe for concurrent use. What it holds is one row group as it came and as it is
// stored (about three times GroupBytes, or the largest message's), the Parquet footer so far (about 270 bytes and two
// subjects a group), and the index so far: about 12 bytes a message, 30 a subject beside its name, and the notes. The
// index is at most MaxIndexBytes by a cautious count: 46 bytes a message, 48 and the name a subject, 16 and the note a
// note. It owns no goroutine and no file: to give up, drop it.
type Writer struct {
	options Options
	table   *table
	seal    *seal // nil of a plain segment
	index   *indexBuilder
	info    Info
	err     error // the first failure; nothing works afterwards

	maxGroups int // MaxGroups; tests take less
	maxIndex  int // what the index may take beside the groups; tests take less
}

// rowBytes is what a message counts against GroupBytes beside its size: sequence and time.
const rowBytes = 16

// NewWriter begins a segment on w, which gets every byte in order and is never read.
func NewWriter(w io.Writer, o Options) (*Writer, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	sw := &Writer{options: o, index: newIndexBuilder(), maxGroups: MaxGroups, maxIndex: MaxIndexBytes - groupsIndexBytes}
	var err error
	if o.Key != nil {
		if sw.seal, err = newSeal(o.Key, newUnique()); err != nil {
			return nil, err
		}
	}
	if sw.table, err = newTable(w, &o, sw.seal); err != nil {
		return nil, fmt.Errorf("segment: begin: %w", err)
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
	case len(m.Note) > MaxNoteBytes:
		return fmt.Errorf("%w: sequence %d: note of %d bytes", ErrTooLarge, m.Seq, len(m.Note))
	case w.info.Messages > 0 && m.Seq <= w.info.Last:
		return fmt.Errorf("%w: %d after %d", ErrOrder, m.Seq, w.info.Last)
	case w.index.bytes+m.indexRoom() > w.maxIndex:
		return fmt.Errorf("%w: an index of %d messages", ErrFull, w.info.Messages)
	}
	rows := &w.table.rows
	held := rows.bytes + rowBytes*uint64(rows.rows())
	if rows.rows() > 0 && held+size+rowBytes > uint64(w.options.GroupBytes) {
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
	newToFile, newToGroup := w.index.add(&m)
	if newToFile && !utf8.Valid(m.Subject) {
		w.table.binarySubjects = true
	}
	rows.add(&m, newToGroup)
	return nil
}

func (w *Writer) endGroup() error {
	rows := &w.table.rows
	g := Group{
		Number: len(w.index.groups), First: uint64(rows.seqs[0]), Last: uint64(rows.seqs[rows.rows()-1]), FirstTime: rows.times[0],
		Rows: uint32(rows.rows()), Bytes: rows.bytes,
	}
	var err error
	if g.Offset, g.Lengths, g.CRC, err = w.table.group(2 * w.options.GroupBytes); err != nil {
		return fmt.Errorf("segment: write group %d: %w", g.Number, err)
	}
	w.index.endGroup(g)
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
		if err := w.table.sink.write(part); err != nil {
			return Info{}, fmt.Errorf("segment: end: %w", err)
		}
	}
	w.info.Size, w.info.IndexAt, w.info.IndexSize, w.info.Checksum = w.table.sink.at, h.indexAt, h.indexSize, w.table.sink.crc
	return w.info, nil
}
