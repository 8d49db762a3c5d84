package archive

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/jsm.go/api"
)

// Read reads an archive of either form to its end.
func Read(r io.Reader, to Target) error {
	return readPlain(s2.NewReader(r), to)
}

// readPlain reads what was decompressed.
func readPlain(r io.Reader, to Target) error {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(len(magic))
	if err != nil {
		return truncated(err)
	}
	if string(head) != magic {
		return readTar(in, to)
	}
	if _, err := in.Discard(len(magic)); err != nil {
		return truncated(err)
	}
	e := entries{in: in, to: to}
	return e.read()
}

// truncated is what an error of the underlying reader means.
func truncated(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrTruncated
	case errors.Is(err, s2.ErrCorrupt), errors.Is(err, s2.ErrCRC), errors.Is(err, s2.ErrUnsupported), errors.Is(err, s2.ErrTooLarge):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return fmt.Errorf("archive: reading: %w", err)
}

// entries reads the form of nats-server 2.15.
type entries struct {
	in  *bufio.Reader
	to  Target
	buf []byte
}

// entryHeader begins an entry.
type entryHeader struct {
	name         string
	at           int64
	seq          uint64
	header, data int
}

func (e *entries) read() error {
	h, body, err := e.next(maxMeta)
	if err != nil {
		return err
	}
	if h.name != stateName || h.seq != 0 {
		return fmt.Errorf("%w: it does not begin with a state", ErrCorrupt)
	}
	var state api.StreamState
	if err := json.Unmarshal(body, &state); err != nil {
		return fmt.Errorf("%w: state: %w", ErrCorrupt, err)
	}
	if err := checkState(&state); err != nil {
		return err
	}
	if err := e.to.State(state); err != nil {
		return err
	}
	for range state.Consumers {
		if err := e.consumer(); err != nil {
			return err
		}
	}
	return e.messages(max(state.FirstSeq, 1) - 1)
}

// checkState refuses a state whose numbers contradict each other.
func checkState(s *api.StreamState) error {
	empty := s.FirstSeq == 0 && s.LastSeq == 0 || s.FirstSeq > 0 && s.FirstSeq-1 == s.LastSeq
	switch {
	case s.Consumers < 0:
		return fmt.Errorf("%w: invalid stream state: negative consumer count", ErrCorrupt)
	case empty && s.Msgs != 0, !empty && (s.FirstSeq == 0 || s.FirstSeq > s.LastSeq):
		return fmt.Errorf("%w: invalid stream state: inconsistent message count or sequence range", ErrCorrupt)
	case !empty && s.Msgs > s.LastSeq-s.FirstSeq+1:
		return fmt.Errorf("%w: invalid stream state: message count exceeds sequence range", ErrCorrupt)
	}
	return nil
}

func (e *entries) consumer() error {
	h, body, err := e.next(maxMeta)
	if err != nil {
		return err
	}
	name, ok := strings.CutPrefix(h.name, consumerPrefix)
	if !ok {
		return fmt.Errorf("%w: expected consumer, found %q", ErrCorrupt, h.name)
	}
	var c struct {
		Config *api.ConsumerConfig `json:"config"`
		State  *ConsumerState      `json:"state"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return fmt.Errorf("%w: consumer %q: %w", ErrCorrupt, name, err)
	}
	if c.Config == nil || c.State == nil {
		return fmt.Errorf("%w: consumer %q lacks its configuration or its state", ErrCorrupt, name)
	}
	return e.to.Consumer(Consumer{Name: name, Config: *c.Config, State: *c.State})
}

// messages reads the messages behind sequence last, and the end.
func (e *entries) messages(last uint64) error {
	for {
		h, body, err := e.next(MaxMessage)
		if err != nil {
			return err
		}
		switch {
		case h == entryHeader{}:
			return nil
		case h.seq == 0:
			return fmt.Errorf("%w: expected message sequence", ErrCorrupt)
		case h.seq <= last:
			return fmt.Errorf("%w: message sequence %d out of order", ErrCorrupt, h.seq)
		}
		last = h.seq
		m := Message{Seq: h.seq, Time: h.at, Subject: h.name, Header: body[:h.header:h.header], Data: body[h.header:]}
		if err := e.to.Message(m); err != nil {
			return err
		}
	}
}

// next reads an entry of at most most bytes. The body holds until the next call.
func (e *entries) next(most uint64) (h entryHeader, body []byte, err error) {
	name, err := binary.ReadUvarint(e.in)
	if err == nil {
		h.at, err = binary.ReadVarint(e.in)
	}
	if err == nil {
		h.seq, err = binary.ReadUvarint(e.in)
	}
	var header, data uint64
	if err == nil {
		header, err = binary.ReadUvarint(e.in)
	}
	if err == nil {
		data, err = binary.ReadUvarint(e.in)
	}
	if err != nil {
		return h, nil, varintFault(err)
	}
	if name > maxName || h.seq > 0 && name > maxSubject || header > most || data > most-header {
		return h, nil, fmt.Errorf("%w: entry of %d, %d and %d bytes", ErrTooLarge, name, header, data)
	}
	raw, err := e.take(int(name))
	if err != nil {
		return h, nil, err
	}
	h.name, h.header, h.data = string(raw), int(header), int(data)
	body, err = e.take(h.header + h.data)
	return h, body, err
}

// varintFault tells a number that is too long from an archive that ends.
func varintFault(err error) error {
	if e := truncated(err); errors.Is(e, ErrTruncated) || errors.Is(e, ErrCorrupt) {
		return e
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// takeStep is how much is allocated at once for what an entry only announces.
const takeStep = 1 << 20

// take reads n bytes into the buffer, which grows with what is really there.
func (e *entries) take(n int) ([]byte, error) {
	e.buf = e.buf[:0]
	for len(e.buf) < n {
		at := len(e.buf)
		step := min(n-at, takeStep)
		if cap(e.buf) < at+step {
			grown := make([]byte, at, max(at+step, min(2*at, n)))
			copy(grown, e.buf)
			e.buf = grown
		}
		e.buf = e.buf[:at+step]
		if _, err := io.ReadFull(e.in, e.buf[at:]); err != nil {
			return nil, truncated(err)
		}
	}
	body := e.buf
	if cap(e.buf) > takeStep {
		e.buf = nil // not kept for the small ones that follow
	}
	return body, nil
}
