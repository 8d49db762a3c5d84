package cli_test

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluicemq/sluice/bench/process"
	"github.com/sluicemq/sluice/test/rig"
)

// streamInfo is what the tests read of "stream info --json".
type streamInfo struct {
	Config struct {
		Name     string   `json:"name"`
		Subjects []string `json:"subjects"`
		Storage  string   `json:"storage"`
	} `json:"config"`
	State struct {
		Messages uint64 `json:"messages"`
		FirstSeq uint64 `json:"first_seq"`
		LastSeq  uint64 `json:"last_seq"`
	} `json:"state"`
}

type consumerInfo struct {
	AckFloor struct {
		Consumer uint64 `json:"consumer_seq"`
		Stream   uint64 `json:"stream_seq"`
	} `json:"ack_floor"`
	AckPending int    `json:"num_ack_pending"`
	Pending    uint64 `json:"num_pending"`
}

func TestStream(t *testing.T) {
	on(t, func(t *testing.T, c cli, server *process.Server) {
		wantContains(t, c.run(t, "stream", "add", "ORDERS", "--subjects", "orders.>", "--defaults"), "ORDERS", "orders.>")
		c.run(t, "pub", "orders.new", "first", "-J")
		c.run(t, "pub", "orders.paid", "second", "-J")
		var info streamInfo
		c.json(t, &info, "stream", "info", "ORDERS", "--json")
		if info.State.Messages != 2 || info.State.FirstSeq != 1 || info.State.LastSeq != 2 || info.Config.Storage != "file" {
			t.Errorf("info %+v", info)
		}
		view := c.terminal(t, "stream", "view", "ORDERS")
		wantContains(t, view, "orders.new", "first", "orders.paid", "second")
		if strings.Index(view, "first") > strings.Index(view, "second") {
			t.Errorf("not in order:\n%s", view)
		}
		wantContains(t, c.run(t, "stream", "ls"), "ORDERS")
		wantContains(t, c.run(t, "stream", "get", "ORDERS", "2"), "second")
		c.run(t, "stream", "rmm", "ORDERS", "1", "--force")
		c.json(t, &info, "stream", "info", "ORDERS", "--json")
		if info.State.Messages != 1 || info.State.FirstSeq != 2 {
			t.Errorf("after the removal of message 1: %+v", info.State)
		}
		c.run(t, "stream", "purge", "ORDERS", "--force")
		c.json(t, &info, "stream", "info", "ORDERS", "--json")
		if info.State.Messages != 0 || info.State.LastSeq != 2 {
			t.Errorf("after a purge: %+v", info.State)
		}
		c.run(t, "stream", "rm", "ORDERS", "--force")
		if out, err := c.try(t, "stream", "info", "ORDERS"); err == nil {
			t.Errorf("a removed stream is still there:\n%s", out)
		}
	})
}

func TestDeduplication(t *testing.T) {
	on(t, func(t *testing.T, c cli, server *process.Server) {
		c.run(t, "stream", "add", "ORDERS", "--subjects", "orders.>", "--defaults")
		for range 3 {
			c.run(t, "pub", "orders.new", "once", "-H", "Nats-Msg-Id:order-1", "-J")
		}
		c.run(t, "pub", "orders.new", "another", "-H", "Nats-Msg-Id:order-2", "-J")
		var info streamInfo
		c.json(t, &info, "stream", "info", "ORDERS", "--json")
		if info.State.Messages != 2 {
			t.Errorf("%d messages, want 2", info.State.Messages)
		}
	})
}

// TestDeduplicationOverRestart publishes the same id before and after the process was killed.
func TestDeduplicationOverRestart(t *testing.T) {
	for _, store := range rig.Stores(t) {
		t.Run(store.Name, func(t *testing.T) {
			server := rig.StartSluice(t, store)
			c := newCLI(t, server)
			c.run(t, "stream", "add", "ORDERS", "--subjects", "orders.>", "--defaults")
			c.run(t, "pub", "orders.new", "once", "-H", "Nats-Msg-Id:order-1", "-J")
			server.Kill()
			server = rig.StartSluice(t, store)
			c = newCLI(t, server)
			c.run(t, "pub", "orders.new", "once", "-H", "Nats-Msg-Id:order-1", "-J")
			var info streamInfo
			c.json(t, &info, "stream", "info", "ORDERS", "--json")
			if info.State.Messages != 1 {
				t.Errorf("%d messages, want 1", info.State.Messages)
			}
		})
	}
}

func TestConsumer(t *testing.T) {
	on(t, func(t *testing.T, c cli, server *process.Server) {
		c.run(t, "stream", "add", "ORDERS", "--subjects", "orders.>", "--defaults")
		for _, body := range []string{"one", "two", "three"} {
			c.run(t, "pub", "orders.new", body, "-J")
		}
		c.run(t, "consumer", "add", "ORDERS", "worker", "--pull", "--deliver", "all", "--ack", "explicit", "--defaults")
		wantContains(t, c.run(t, "consumer", "next", "ORDERS", "worker", "--ack"), "one")
		wantContains(t, c.run(t, "consumer", "next", "ORDERS", "worker", "--ack"), "two")
		var info consumerInfo
		c.json(t, &info, "consumer", "info", "ORDERS", "worker", "--json")
		if info.AckFloor.Stream != 2 || info.AckPending != 0 || info.Pending != 1 {
			t.Errorf("info %+v", info)
		}
		wantContains(t, c.run(t, "consumer", "next", "ORDERS", "worker", "--no-ack"), "three")
		c.json(t, &info, "consumer", "info", "ORDERS", "worker", "--json")
		if info.AckFloor.Stream != 2 || info.AckPending != 1 || info.Pending != 0 {
			t.Errorf("with one delivered and not acknowledged: %+v", info)
		}
		wantContains(t, c.run(t, "consumer", "ls", "ORDERS"), "worker")
		c.run(t, "consumer", "rm", "ORDERS", "worker", "--force")
	})
}

func TestKeyValue(t *testing.T) {
	on(t, func(t *testing.T, c cli, server *process.Server) {
		c.run(t, "kv", "add", "config", "--history", "5")
		watch := c.start(t, "kv", "watch", "config")
		c.run(t, "kv", "put", "config", "colour", "red")
		watch.await(t, "colour: red")
		c.run(t, "kv", "put", "config", "colour", "blue")
		watch.await(t, "colour: blue")
		c.run(t, "kv", "put", "config", "size", "large")
		watch.await(t, "size: large")
		if got := strings.TrimSpace(c.run(t, "kv", "get", "config", "colour", "--raw")); got != "blue" {
			t.Errorf("colour is %q, want blue", got)
		}
		wantContains(t, c.run(t, "kv", "history", "config", "colour"), "red", "blue")
		wantContains(t, c.run(t, "kv", "ls", "config"), "colour", "size")
		if out, err := c.try(t, "kv", "create", "config", "colour", "green"); err == nil {
			t.Errorf("an existing key was created again:\n%s", out)
		}
		c.run(t, "kv", "del", "config", "colour", "--force")
		watch.await(t, "DEL")
		if out, err := c.try(t, "kv", "get", "config", "colour", "--raw"); err == nil {
			t.Errorf("a deleted key has a value: %s", out)
		}
		wantContains(t, c.run(t, "kv", "history", "config", "colour"), "red", "blue", "DEL")
		c.run(t, "kv", "create", "config", "colour", "green")
		wantContains(t, c.run(t, "kv", "ls"), "config")
	})
}

// TestObjectOf50MB puts a file into a bucket, restarts the server from its store, and gets the file back.
func TestObjectOf50MB(t *testing.T) {
	for _, store := range rig.Stores(t) {
		t.Run(store.Name, func(t *testing.T) {
			server := rig.StartSluice(t, store)
			c := newCLI(t, server)
			data := make([]byte, 50<<20)
			random := rand.NewChaCha8([32]byte{50})
			if _, err := random.Read(data); err != nil {
				t.Fatal(err)
			}
			in, out := filepath.Join(c.home, "in.bin"), filepath.Join(c.home, "out.bin")
			if err := os.WriteFile(in, data, 0o644); err != nil {
				t.Fatal(err)
			}
			c.run(t, "object", "add", "files")
			c.run(t, "object", "put", "files", in, "--name", "big", "--no-progress", "--force")
			wantContains(t, c.run(t, "object", "ls", "files"), "big")
			get := func(c cli) {
				t.Helper()
				c.run(t, "object", "get", "files", "big", "--output", out, "--no-progress", "--force")
				got, err := os.ReadFile(out)
				if err != nil {
					t.Fatal(err)
				}
				want := sha256.Sum256(data)
				if sum := sha256.Sum256(got); sum != want {
					t.Fatalf("%d bytes with hash %x, want %d with %x", len(got), sum, len(data), want)
				}
			}
			get(c)
			if err := server.Stop(); err != nil {
				t.Fatal(err)
			}
			get(newCLI(t, rig.StartSluice(t, store)))
		})
	}
}

// TestClientLibrary goes the same ways with nats.go.
func TestClientLibrary(t *testing.T) {
	on(t, func(t *testing.T, c cli, server *process.Server) {
		ctx := t.Context()
		nc, err := nats.Connect(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
		if err != nil {
			t.Fatal(err)
		}
		const messages = 500
		var futures []jetstream.PubAckFuture
		for i := range messages {
			f, err := js.PublishAsync("events.x", []byte{byte(i), byte(i >> 8)})
			if err != nil {
				t.Fatal(err)
			}
			futures = append(futures, f)
		}
		for i, f := range futures {
			select {
			case ack := <-f.Ok():
				if ack.Sequence != uint64(i+1) {
					t.Fatalf("message %d has sequence %d", i, ack.Sequence)
				}
			case err := <-f.Err():
				t.Fatal(err)
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
		}
		consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "reader", AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		for got := 0; got < messages; {
			batch, err := consumer.Fetch(100)
			if err != nil {
				t.Fatal(err)
			}
			for m := range batch.Messages() {
				if !bytes.Equal(m.Data(), []byte{byte(got), byte(got >> 8)}) {
					t.Fatalf("message %d holds %v", got, m.Data())
				}
				if err := m.DoubleAck(ctx); err != nil {
					t.Fatal(err)
				}
				got++
			}
			if err := batch.Error(); err != nil {
				t.Fatal(err)
			}
		}
		info, err := consumer.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.AckFloor.Stream != messages || info.NumPending != 0 || info.NumAckPending != 0 {
			t.Errorf("info %+v", info)
		}
	})
}
