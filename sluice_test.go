package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluicemq/sluice"
)

// start runs a server until the test ends, or until stop is called.
func start(t *testing.T, opts sluice.Options) (srv *sluice.Server, stop func()) {
	t.Helper()
	srv, err := sluice.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	}
	t.Cleanup(stop)
	return srv, stop
}

func connect(t *testing.T, srv *sluice.Server) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func TestOptionsAreCheckedBeforeAnythingRuns(t *testing.T) {
	_, err := sluice.New(sluice.Options{Token: "a", Username: "b", Store: "mem://"})
	if err == nil || !strings.Contains(err.Error(), "either a token or a user name") {
		t.Errorf("got %v", err)
	}
	srv, err := sluice.New(sluice.Options{Store: "nowhere://x", Port: sluice.NoPort})
	if err == nil {
		err = srv.Start(t.Context())
	}
	if err == nil {
		t.Error("a store of an unknown kind was taken")
	}
}

func TestWhatWasAcknowledgedOutlivesAServer(t *testing.T) {
	opts := sluice.Options{Name: "n", Port: sluice.NoPort, Store: "dir://" + t.TempDir()}
	srv, stop := start(t, opts)
	_, js := connect(t, srv)
	ctx := t.Context()
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		ack, err := js.Publish(ctx, fmt.Sprintf("orders.%d", i), []byte("x"), jetstream.WithMsgID(fmt.Sprint(i)))
		if err != nil || ack.Sequence != uint64(i+1) {
			t.Fatalf("publish %d: %+v, %v", i, ack, err)
		}
	}
	c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(4)
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		if err := m.DoubleAck(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stop()

	srv, _ = start(t, opts)
	_, js = connect(t, srv)
	// The message ids are remembered, too.
	ack, err := js.Publish(ctx, "orders.3", []byte("x"), jetstream.WithMsgID("3"))
	if err != nil || !ack.Duplicate || ack.Sequence != 4 {
		t.Errorf("a repeated publish: %+v, %v", ack, err)
	}
	c, err = js.Consumer(ctx, "ORDERS", "worker")
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject() != "orders.4" {
		t.Errorf("the consumer goes on at %s", m.Subject())
	}
}

func TestASecondServerOfTheSameNameIsRefused(t *testing.T) {
	opts := sluice.Options{Name: "n", Port: sluice.NoPort, Store: "dir://" + t.TempDir()}
	first, _ := start(t, opts)
	second, err := sluice.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); err == nil {
		t.Fatal("two servers of one name run on one store")
	}
	select {
	case <-first.Done():
		t.Error("the first server ended:", first.Err())
	default:
	}
}

func TestAServerWithoutJetStreamTouchesNoStore(t *testing.T) {
	srv, _ := start(t, sluice.Options{Port: sluice.RandomPort, Host: "127.0.0.1", NoJetStream: true, Store: "dir:///nowhere/at/all"})
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request("nobody", nil, time.Second); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
}
