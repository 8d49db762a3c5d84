package interop_test

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluicemq/sluice/test/rig"
)

const published = 20_000

// A server's own store, as DuckDB sees it: messages appear in files while the server runs, those that were deleted leave
// them, and after kill -9 the server still has every message, from wherever it lies.
func TestDuckDBReadsAServersStore(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		live(t, "", duckdb(t), "read_parquet('%s')")
	})
	t.Run("encrypted", func(t *testing.T) {
		const key = "0123456789abcdef"
		db := duckdb(t, fmt.Sprintf("PRAGMA add_parquet_key('stream', '%s')", key), noPushdown)
		live(t, `, key: "`+hex.EncodeToString([]byte(key))+`"`, db, "read_parquet('%s', encryption_config={footer_key: 'stream'})")
	})
}

func live(t *testing.T, settings string, db *sql.DB, read string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	config := filepath.Join(dir, "sluice.conf")
	text := fmt.Sprintf("store { url: \"dir://%s/store\", segments { replay: 1MB, grace: \"1s\", deleted_within: \"1s\", every: \"100ms\" %s } }", dir, settings)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files := fmt.Sprintf(read, dir+"/store/streams/$G/ORDERS/*/segments/*.parquet")
	store := rig.Store{Name: "dir", Args: []string{"-c", config}}
	server := rig.StartSluice(t, store)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1000))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range published {
		if _, err := js.PublishAsync(fmt.Sprintf("orders.%d", i%4), fmt.Appendf(nil, `{"n": %d, "text": "the order number %d"}`, i+1, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()

	// Rows appear, each sequence once, with the JSON that was published.
	wait(t, ctx, db, "SELECT count(*) > 1000 FROM "+files)
	expect(t, db, files, "SELECT count(*) = count(DISTINCT seq), min(seq), bool_and((decode(data)::JSON->>'$.n')::BIGINT = seq), count(DISTINCT subject) FROM FILE", "true 1 true 4")
	expect(t, db, files, "SELECT count(*) FROM FILE WHERE time < now() - INTERVAL 1 DAY", "0")

	if err := stream.Purge(ctx, jetstream.WithPurgeSubject("orders.1")); err != nil {
		t.Fatal(err)
	}
	wait(t, ctx, db, "SELECT count(*) > 0 AND count(*) FILTER (WHERE subject = 'orders.1') = 0 FROM "+files)

	server.Kill()
	server = rig.StartSluice(t, store)
	again, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	readAll(t, ctx, again)
}

// wait repeats a query until it gives true. Files may come and go under it.
func wait(t *testing.T, ctx context.Context, db *sql.DB, query string) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		var done bool
		if last = db.QueryRowContext(ctx, query).Scan(&done); last == nil && done {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s never became true; the last error is %v", query, last)
		}
	}
}

// readAll reads every message that was not purged, in order.
func readAll(t *testing.T, ctx context.Context, nc *nats.Conn) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.OrderedConsumer(ctx, "ORDERS", jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for i := range published {
		if i%4 == 1 {
			continue
		}
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`{"n": %d, "text": "the order number %d"}`, i+1, i+1); meta.Sequence.Stream != uint64(i+1) || string(m.Data()) != want {
			t.Fatalf("message %d is %s of sequence %d", i+1, m.Data(), meta.Sequence.Stream)
		}
	}
}
