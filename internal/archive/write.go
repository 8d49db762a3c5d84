package archive

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/jsm.go/api"
)

// magic begins the decompressed bytes of an archive of nats-server 2.15.
const magic = "NATSARC1"

const (
	stateName      = "state.json"
	consumerPrefix = "consumers/"
)

// Writer writes an archive: the state, then the consumers that it counts, then the messages, then [Writer.Close].
// After an error it is of no more use.
type Writer struct {
	out io.WriteCloser
	buf []byte
}

// NewWriter writes to w, which is not closed.
func NewWriter(w io.Writer) (*Writer, error) {
	out := s2.NewWriter(w, s2.WriterConcurrency(1), s2.WriterBlockSize(256<<10))
	if _, err := io.WriteString(out, magic); err != nil {
		return nil, fmt.Errorf("archive: beginning: %w", err)
	}
	return &Writer{out: out}, nil
}

// State writes the stream's state. Consumers says how many consumers follow.
func (w *Writer) State(s api.StreamState) error {
	body, err := json.Marshal(s)
	if err == nil {
		err = w.entry(stateName, time.Now().UnixNano(), 0, nil, body)
	}
	if err != nil {
		return fmt.Errorf("archive: writing the state: %w", err)
	}
	return nil
}

// consumerEntry is the JSON of a consumer.
type consumerEntry struct {
	Config *consumerConfig `json:"config"`
	State  *ConsumerState  `json:"state"`
}

// consumerConfig leaves out a pause_until that says nothing, which nats-server would take for one.
type consumerConfig struct {
	api.ConsumerConfig
	PauseUntil *time.Time `json:"pause_until,omitempty"`
}

// Consumer writes a consumer.
func (w *Writer) Consumer(c Consumer) error {
	cfg := consumerConfig{ConsumerConfig: c.Config}
	if !c.Config.PauseUntil.IsZero() {
		cfg.PauseUntil = &c.Config.PauseUntil
	}
	body, err := json.Marshal(consumerEntry{&cfg, &c.State})
	if err == nil {
		err = w.entry(consumerPrefix+c.Name, time.Now().UnixNano(), 0, nil, body)
	}
	if err != nil {
		return fmt.Errorf("archive: writing consumer %s: %w", c.Name, err)
	}
	return nil
}

// Message writes a message.
func (w *Writer) Message(m Message) error {
	if err := w.entry(m.Subject, m.Time, m.Seq, m.Header, m.Data); err != nil {
		return fmt.Errorf("archive: writing message %d: %w", m.Seq, err)
	}
	return nil
}

// Close writes the end.
func (w *Writer) Close() error {
	err := w.entry("", 0, 0, nil, nil)
	if err == nil {
		err = w.out.Close()
	}
	if err != nil {
		return fmt.Errorf("archive: ending: %w", err)
	}
	return nil
}

// entry writes one entry.
func (w *Writer) entry(name string, at int64, seq uint64, header, data []byte) error {
	b := binary.AppendUvarint(w.buf[:0], uint64(len(name)))
	b = binary.AppendVarint(b, at)
	b = binary.AppendUvarint(b, seq)
	b = binary.AppendUvarint(b, uint64(len(header)))
	b = binary.AppendUvarint(b, uint64(len(data)))
	b = append(b, name...)
	b = append(b, header...)
	w.buf = b
	if _, err := w.out.Write(b); err != nil {
		return err
	}
	_, err := w.out.Write(data)
	return err
}
