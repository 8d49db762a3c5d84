package engine

import (
	"context"
	"io"
	"maps"
	"slices"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/archive"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
)

// snapshotPiece is how many bytes of messages a snapshot takes at a turn of the stream's owner.
const snapshotPiece = 256 << 10

// Snapshot is a stream as it was at one moment, to be written as a backup. Messages that are removed while it is
// written may be missing; what was published after that moment is not in it.
type Snapshot struct {
	Config api.StreamConfig
	State  api.StreamState

	stream    *Stream
	consumers []archive.Consumer
}

// Snapshot looks at the stream, and at its consumers if they are wanted.
func (s *Stream) Snapshot(consumers bool) (*Snapshot, error) {
	sn := &Snapshot{stream: s}
	err := s.do(func() {
		info := s.info()
		sn.Config, sn.State = info.Config, info.State
		if !consumers {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(s.consumers)) {
			if c := s.consumers[name]; !c.machine.Config().Direct {
				sn.consumers = append(sn.consumers, s.archived(c))
			}
		}
	})
	return sn, consumerError(err)
}

// archived is a consumer in the terms of a backup.
func (s *Stream) archived(c *Consumer) archive.Consumer {
	st := c.machine.Standing(s.now)
	a := archive.Consumer{Name: c.name, Config: c.machine.Config(), State: archive.ConsumerState{
		Delivered: archive.Sequences{Consumer: st.DeliveredConsumer, Stream: st.DeliveredStream},
		AckFloor:  archive.Sequences{Consumer: st.FloorConsumer, Stream: st.FloorStream},
	}}
	a.Config.Name = c.name
	if len(st.Pending) > 0 {
		a.State.Pending = make(map[uint64]archive.Pending, len(st.Pending))
	}
	if len(st.GivenUp) > 0 || len(st.Pending) > 0 {
		a.State.Redelivered = map[uint64]uint64{}
	}
	for _, d := range st.Pending {
		a.State.Pending[d.Stream] = archive.Pending{Sequence: d.Consumer, Timestamp: d.At}
		if d.Deliveries > 1 {
			a.State.Redelivered[d.Stream] = uint64(d.Deliveries - 1)
		}
	}
	for _, seq := range st.GivenUp {
		a.State.Redelivered[seq] = uint64(max(a.Config.MaxDeliver, 1))
	}
	return a
}

// Write writes the backup to w. It takes the messages piece by piece, so that the stream goes on meanwhile, and holds
// at most a piece and a message in memory beside what w holds.
func (sn *Snapshot) Write(ctx context.Context, w io.Writer) error {
	out, err := archive.NewWriter(w)
	if err != nil {
		return err
	}
	state := sn.State
	state.Consumers = len(sn.consumers)
	if err := out.State(state); err != nil {
		return err
	}
	for _, c := range sn.consumers {
		if err := out.Consumer(c); err != nil {
			return err
		}
	}
	p := piece{stream: sn.stream, next: sn.State.FirstSeq, last: sn.State.LastSeq}
	for !p.done {
		if err := p.take(ctx); err != nil {
			return err
		}
		for _, m := range p.messages {
			if err := out.Message(archive.Message{Seq: m.Seq, Time: m.Time, Subject: string(m.Subject), Header: m.Header, Data: m.Data}); err != nil {
				return err
			}
		}
	}
	return out.Close()
}

// piece is a run of messages, copied.
type piece struct {
	stream     *Stream
	next, last uint64 // sequences that are still to come
	done       bool

	messages []record.StoredMessage
	bytes    int
}

// take takes the next messages, and waits for their bytes if those have to be fetched.
func (p *piece) take(ctx context.Context) error {
	got := make(chan error, 1)
	p.messages, p.bytes = nil, 0
	if !p.stream.inbox.command(func() { p.gather(got) }) {
		return jserr.New(jserr.StreamNotFound)
	}
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-p.stream.done:
		return jserr.New(jserr.StreamNotFound)
	}
}

// gather runs on the owner, again whenever bytes were fetched.
func (p *piece) gather(got chan<- error) {
	s := p.stream
	for p.bytes < snapshotPiece {
		found, ok := s.state.Next(nil, p.next)
		if !ok || found.Seq > p.last {
			p.done = true
			break
		}
		m, ok, err := s.load(found.Seq, func(err error) {
			if err != nil {
				got <- err
				return
			}
			p.gather(got)
		})
		if err != nil {
			got <- err
			return
		}
		if !ok {
			return
		}
		p.add(&m)
	}
	got <- nil
}

// add copies a message.
func (p *piece) add(m *record.StoredMessage) {
	subj, header := len(m.Subject), len(m.Subject)+len(m.Header)
	b := make([]byte, 0, header+len(m.Data))
	b = append(append(append(b, m.Subject...), m.Header...), m.Data...)
	p.messages = append(p.messages, record.StoredMessage{
		Seq: m.Seq, Time: m.Time, Subject: b[:subj:subj], Header: b[subj:header:header], Data: b[header:],
	})
	p.bytes += len(b) + letterOverhead
	p.next = m.Seq + 1
}
