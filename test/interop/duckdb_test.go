// Package interop_test reads segments with the tools that others use: DuckDB, arrow-go and parquet-go.
package interop_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"
)

// duckdb opens an empty database in memory that has used the statements.
func duckdb(t *testing.T, statements ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // keys and settings are of a connection
	for _, s := range append([]string{"SET threads=2"}, statements...) {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return db
}

// rows gives the rows of a query, a line each.
func rows(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	r, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = r.Close() }()
	names, err := r.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	values, places := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		places[i] = &values[i]
	}
	for r.Next() {
		if err := r.Scan(places...); err != nil {
			t.Fatal(err)
		}
		fields := make([]string, len(values))
		for i, v := range values {
			if instant, ok := v.(time.Time); ok {
				v = instant.UTC().Format(time.RFC3339Nano)
			}
			fields[i] = fmt.Sprint(v)
		}
		out = append(out, strings.Join(fields, " "))
	}
	if err := r.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out
}

// expect compares the rows of a query, with FILE replaced by what reads the segment.
func expect(t *testing.T, db *sql.DB, file, query string, want ...string) {
	t.Helper()
	if got := rows(t, db, strings.ReplaceAll(query, "FILE", file)); !slices.Equal(got, want) {
		t.Errorf("%s\ngives %q\nwant  %q", query, got, want)
	}
}

// noPushdown is what DuckDB needs for filters on encrypted files.
const noPushdown = "SET disabled_optimizers='filter_pushdown,top_n,join_filter_pushdown'"

// ways are a plain segment and encrypted ones, and how DuckDB opens each.
func ways(t *testing.T, check func(t *testing.T, db *sql.DB, key []byte, file func(path string) string)) {
	t.Run("plain", func(t *testing.T) {
		check(t, duckdb(t), nil, func(path string) string { return fmt.Sprintf("read_parquet('%s')", path) })
	})
	for _, n := range []int{16, 24, 32} {
		t.Run(fmt.Sprintf("AES-%d", n*8), func(t *testing.T) {
			key := []byte("0123456789abcdef0123456789abcdef"[:n])
			db := duckdb(t, fmt.Sprintf("PRAGMA add_parquet_key('stream', '%s')", key), noPushdown)
			check(t, db, key, func(path string) string {
				return fmt.Sprintf("read_parquet('%s', encryption_config={footer_key: 'stream'})", path)
			})
		})
	}
}

func TestDuckDBQueries(t *testing.T) {
	ways(t, func(t *testing.T, db *sql.DB, key []byte, file func(string) string) {
		path := filepath.Join(t.TempDir(), "orders.parquet")
		messages := orders(5000)
		write(t, path, "ORDERS", key, messages)
		f := file(path)

		expect(t, db, f, "SELECT column_name || ' ' || column_type FROM (DESCRIBE SELECT * FROM FILE)",
			"seq BIGINT", "time TIMESTAMP WITH TIME ZONE", "subject VARCHAR", "headers BLOB", "data BLOB")
		expect(t, db, f, "SELECT count(*), min(seq), max(seq), sum(octet_length(data))::BIGINT FROM FILE",
			fmt.Sprintf("5000 1 5000 %d", dataBytes(messages)))
		// By time: message n is n seconds after midnight.
		expect(t, db, f, "SELECT count(*), min(seq), max(seq) FROM FILE WHERE time >= TIMESTAMPTZ '2026-01-01 00:10:00Z' AND time < TIMESTAMPTZ '2026-01-01 00:20:00Z'",
			"600 600 1199")
		expect(t, db, f, "SELECT time FROM FILE WHERE seq = 1", "2026-01-01T00:00:01Z")
		// By subject, also across groups that the statistics leave out.
		expect(t, db, f, "SELECT count(*) FROM FILE WHERE subject = 'orders.7.paid'", fmt.Sprint(withSubject(messages, "orders.7.paid")))
		expect(t, db, f, "SELECT count(*) FROM FILE WHERE subject LIKE 'orders.%.new' AND seq % 2 = 0", fmt.Sprint(countIf(messages, func(m msg) bool {
			return strings.HasSuffix(string(m.Subject), ".new") && m.Seq%2 == 0
		})))
		expect(t, db, f, "SELECT seq FROM FILE ORDER BY seq DESC LIMIT 2", "5000", "4999")
		// JSON: decode makes text of UTF-8. A cast is no way: it writes quotes and bytes above 127 as \xNN.
		expect(t, db, f, "SELECT decode(data)->>'city', (decode(data)->'amount')::INT, json_extract(decode(data), '$.id')::BIGINT FROM FILE WHERE seq = 30", "Köln 300 30")
		expect(t, db, f, "SELECT data::VARCHAR FROM FILE WHERE seq = 31", `{\x22id\x22:31,\x22amount\x22:310,\x22city\x22:\x22Oslo\x22}`)
		expect(t, db, f, `SELECT decode(data)->>'city' AS city, sum((decode(data)->>'amount')::INT)::BIGINT AS total FROM FILE GROUP BY city ORDER BY city`,
			"Köln 62525000", "Oslo 62500000")
		// No header is NULL; a header is its block.
		expect(t, db, f, "SELECT count(*), count(headers) FROM FILE", "5000 500")
		expect(t, db, f, `SELECT regexp_extract(decode(headers), 'Trace-Id: ([^\r]*)', 1) FROM FILE WHERE seq = 20`, "t20")
	})
}

func TestDuckDBHeadersOfAllKinds(t *testing.T) {
	ways(t, func(t *testing.T, db *sql.DB, key []byte, file func(string) string) {
		path := filepath.Join(t.TempDir(), "h.parquet")
		write(t, path, "H", key, []msg{
			{Seq: 1, Subject: []byte("a")},
			{Seq: 2, Subject: []byte("a"), Header: []byte{}},
			{Seq: 3, Subject: []byte("a"), Header: []byte("NATS/1.0\r\n\r\n")},
		})
		expect(t, db, file(path), "SELECT seq, headers IS NULL, octet_length(headers), octet_length(data) FROM FILE",
			"1 true <nil> 0", "2 false 0 0", "3 false 12 0")
	})
}

// TestDuckDBBinarySubjects: a subject that is no text makes the column bytes, instead of queries that fail.
func TestDuckDBBinarySubjects(t *testing.T) {
	ways(t, func(t *testing.T, db *sql.DB, key []byte, file func(string) string) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.parquet"), "A", key, []msg{{Seq: 1, Subject: []byte("a.\xff")}, {Seq: 2, Subject: []byte("a.b")}})
		write(t, filepath.Join(dir, "b.parquet"), "B", key, []msg{{Seq: 3, Subject: []byte("a.ü")}})
		expect(t, db, file(filepath.Join(dir, "a.parquet")), `SELECT typeof(subject), hex(subject) FROM FILE`, "BLOB 612EFF", "BLOB 612E62")
		expect(t, db, file(filepath.Join(dir, "a.parquet")), `SELECT seq FROM FILE WHERE subject = 'a.b'::BLOB`, "2")
		expect(t, db, file(filepath.Join(dir, "b.parquet")), `SELECT typeof(subject), subject FROM FILE`, "VARCHAR a.ü")
	})
}

// TestDuckDBManyStreams: segments of several streams as one table.
func TestDuckDBManyStreams(t *testing.T) {
	ways(t, func(t *testing.T, db *sql.DB, key []byte, file func(string) string) {
		dir := t.TempDir()
		for i, stream := range []string{"ORDERS", "PAYMENTS"} {
			for part := range 2 {
				messages := orders(100 * (i + 1))
				for j := range messages {
					messages[j].Seq += uint64(part * 1000)
				}
				if err := os.MkdirAll(filepath.Join(dir, stream, "segments"), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, stream, "segments", fmt.Sprintf("%d.parquet", part)), stream, key, messages)
			}
		}
		f := strings.TrimSuffix(file(filepath.Join(dir, "*", "segments", "*.parquet")), ")") + ", filename=true"
		if key == nil {
			f += ", union_by_name=true" // with encrypted files, DuckDB 1.5.6 fails with an internal error
		}
		f += ")"
		expect(t, db, f, `SELECT split_part(filename, '/', -3) AS stream, count(*), max(seq) FROM FILE GROUP BY stream ORDER BY stream`,
			"ORDERS 200 1100", "PAYMENTS 400 1200")
	})
}

// TestDuckDBMetadata: what the file says of itself, and that groups can be left out by their statistics.
func TestDuckDBMetadata(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orders.parquet")
	info := write(t, path, "ORDERS", nil, orders(20_000))
	db := duckdb(t)
	expect(t, db, "'"+path+"'", "SELECT decode(key) || '=' || decode(value) FROM parquet_kv_metadata(FILE)",
		"sluice.format=1", "sluice.account=ACME", "sluice.stream=ORDERS", fmt.Sprintf("sluice.index=%d %d", info.IndexAt, info.IndexSize))
	expect(t, db, "'"+path+"'", `SELECT DISTINCT path_in_schema, compression, encodings, stats_min_value IS NULL, dictionary_page_offset IS NULL
		FROM parquet_metadata(FILE) ORDER BY column_id`,
		"seq ZSTD DELTA_BINARY_PACKED, RLE false true", "time ZSTD DELTA_BINARY_PACKED, RLE false true", "subject ZSTD PLAIN, RLE false true",
		"headers ZSTD PLAIN, RLE true true", "data ZSTD PLAIN, RLE true true")
	expect(t, db, "'"+path+"'", "SELECT num_row_groups > 3, num_rows, encryption_algorithm FROM parquet_file_metadata(FILE)", "true 20000 <nil>")
}

// TestDuckDBNeedsTheKey: an encrypted segment is closed to who has none, or another.
func TestDuckDBNeedsTheKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.parquet")
	write(t, path, "S", []byte("0123456789abcdef"), orders(10))
	db := duckdb(t, "PRAGMA add_parquet_key('other', 'fedcba9876543210')")
	for _, query := range []string{
		"SELECT count(*) FROM '" + path + "'",
		"SELECT sum(seq) FROM read_parquet('" + path + "', encryption_config={footer_key: 'other'})",
	} {
		if r, err := db.Query(query); err == nil {
			_ = r.Close()
			t.Errorf("%s: no error", query)
		}
	}
}
