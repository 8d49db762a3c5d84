package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamName   = "CRASH"
	subject      = "crash.events"
	consumerName = "workers"
	// ackWait is longer than a worker takes for a batch, so that only a crash makes the server deliver again.
	ackWait = 10 * time.Second
	// window is how many messages a publisher has unacknowledged at most.
	window = 256
	// fetchSize is how many messages a worker takes and acknowledges at once.
	fetchSize = 50
	// burst and pause bound a publisher's rate, so that the workers, which wait for confirmations, can follow.
	burst = 20
	pause = 10 * time.Millisecond
)

// connect returns a connection that ends with the server.
func connect(url string) (*nats.Conn, error) {
	// Broken connections are what this is about: they need no line each.
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	return nats.Connect(url, nats.NoReconnect(), nats.Timeout(10*time.Second), quiet)
}

// publisher sends messages over all lives of the server, each index once.
type publisher struct {
	id     int
	next   int
	random *rand.Rand
}

func (p *publisher) payload(m message) []byte {
	// The rest makes batches of very different sizes.
	return append([]byte(m.String()+" "), bytes.Repeat([]byte("x"), p.random.IntN(2000))...)
}

func parsePayload(b []byte) (message, error) {
	name, _, _ := bytes.Cut(b, []byte(" "))
	publisher, index, ok := strings.Cut(string(name), ".")
	if !ok {
		return message{}, fmt.Errorf("unknown payload %.40q", b)
	}
	p, err1 := strconv.Atoi(publisher)
	i, err2 := strconv.Atoi(index)
	return message{p, i}, errors.Join(err1, err2)
}

// run publishes until the connection ends or ctx is done; then it waits for the acknowledgements that still come.
func (p *publisher) run(ctx context.Context, url string, h *history) error {
	nc, err := connect(url)
	if err != nil {
		return nil // killed before we came
	}
	defer nc.Close()
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	free := make(chan struct{}, window)
	inbox := nc.NewInbox()
	faults := make(chan error, 1)
	if _, err := nc.Subscribe(inbox+".*", func(m *nats.Msg) {
		if err := p.acknowledge(h, m, inbox); err != nil {
			select {
			case faults <- err:
			default:
			}
		}
		<-free
	}); err != nil {
		return nil // the connection has ended
	}
	pace := time.NewTicker(pause)
	defer pace.Stop()
	for n := 0; ; n++ {
		// A nil channel never receives: only every burst has to wait for the pace.
		proceed := free
		if n%burst == burst-1 {
			proceed = nil
		}
		select {
		case <-ctx.Done():
			return p.awaitRest(free, closed)
		case <-closed:
			return nil
		case err := <-faults:
			return err
		case <-pace.C:
			continue
		case proceed <- struct{}{}:
		}
		m := message{p.id, p.next}
		p.next++
		h.send(m)
		if nc.PublishRequest(subject, inbox+"."+strconv.Itoa(m.index), p.payload(m)) != nil {
			return nil // the connection has ended
		}
	}
}

func (p *publisher) awaitRest(free chan struct{}, closed <-chan struct{}) error {
	timeout := time.After(30 * time.Second)
	for range window {
		select {
		case free <- struct{}{}:
		case <-closed:
			return nil
		case <-timeout:
			return errors.New("no acknowledgement within 30 s although the server lives")
		}
	}
	return nil
}

// acknowledge notes an acknowledgement. A refusal is not one; the message must then not be there with another's
// sequence, which the check of the stream sees.
func (p *publisher) acknowledge(h *history, m *nats.Msg, inbox string) error {
	if m.Header.Get("Status") == "503" {
		return nil // the stream is not there yet
	}
	var ack struct {
		Stream   string          `json:"stream"`
		Sequence uint64          `json:"seq"`
		Error    json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return fmt.Errorf("acknowledgement %q: %w", m.Data, err)
	}
	if ack.Error != nil {
		return nil
	}
	index, err := strconv.Atoi(strings.TrimPrefix(m.Subject, inbox+"."))
	if err != nil {
		return err
	}
	h.add(acknowledged, ack.Sequence, message{p.id, index})
	return nil
}

// work consumes with confirmed acknowledgements until the connection ends or ctx is done.
func work(ctx context.Context, url string, h *history) error {
	nc, err := connect(url)
	if err != nil {
		return nil // killed before we came
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for ctx.Err() == nil && !nc.IsClosed() {
		consumer, err := js.Consumer(ctx, streamName, consumerName)
		if err != nil {
			continue // not recovered yet, or killed
		}
		for ctx.Err() == nil && !nc.IsClosed() {
			batch, err := consumer.Fetch(fetchSize, jetstream.FetchMaxWait(time.Second))
			if err != nil {
				break
			}
			errs := make(chan error, fetchSize)
			got := 0
			for m := range batch.Messages() {
				got++
				go func() { errs <- consume(ctx, h, m) }()
			}
			for range got {
				if err := <-errs; err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func consume(ctx context.Context, h *history, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	id, err := parsePayload(m.Data())
	if err != nil {
		return err
	}
	h.add(delivered, meta.Sequence.Stream, id)
	ctx, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	// Without confirmation it is unknown whether the acknowledgement counts.
	if m.DoubleAck(ctx) == nil {
		h.add(confirmed, meta.Sequence.Stream, message{})
	}
	return nil
}

// setUp makes the stream and its consumer.
func setUp(ctx context.Context, url string) error {
	nc, err := connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: streamName, Subjects: []string{"crash.>"}})
	if err != nil {
		return err
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: 1000,
	})
	return err
}

// readStream returns every message of the stream.
func readStream(ctx context.Context, url string) (all []stored, err error) {
	nc, err := connect(url)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	reader, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	for uint64(len(all)) < info.State.Msgs {
		batch, err := reader.Fetch(500, jetstream.FetchMaxWait(10*time.Second))
		if err != nil {
			return all, err
		}
		got := 0
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return all, err
			}
			id, err := parsePayload(m.Data())
			if err != nil {
				return all, err
			}
			all = append(all, stored{meta.Sequence.Stream, id})
			got++
		}
		if got == 0 {
			return all, fmt.Errorf("%d of %d messages can be read: %w", len(all), info.State.Msgs, batch.Error())
		}
	}
	if info.State.Msgs != info.State.LastSeq || uint64(len(all)) != info.State.Msgs {
		return all, fmt.Errorf("the stream says %d messages up to sequence %d, %d were read", info.State.Msgs, info.State.LastSeq, len(all))
	}
	return all, nil
}

// awaitDrained waits until the consumer has nothing pending.
func awaitDrained(ctx context.Context, url string) error {
	nc, err := connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	var last *jetstream.ConsumerInfo
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		if consumer, err := js.Consumer(ctx, streamName, consumerName); err == nil {
			last = consumer.CachedInfo()
			if last.NumPending == 0 && last.NumAckPending == 0 {
				return nil
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the consumer is not done: %+v: %w", last, ctx.Err())
		}
	}
}
