package interop_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	pq "github.com/parquet-go/parquet-go"
)

// equal compares what another read with what we wrote and read.
func equal(t *testing.T, who string, got, want []msg) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s reads %d messages, want %d", who, len(got), len(want))
	}
	for i, m := range got {
		w := want[i]
		if m.Seq != w.Seq || m.Time != w.Time || !bytes.Equal(m.Subject, w.Subject) || !bytes.Equal(m.Data, w.Data) ||
			!bytes.Equal(m.Header, w.Header) || (m.Header == nil) != (w.Header == nil) {
			t.Fatalf("%s reads message %d as %d %d %q %q, want %d %d %q %q", who, i, m.Seq, m.Time, m.Subject, m.Header, w.Seq, w.Time, w.Subject, w.Header)
		}
	}
}

// TestAllReadersAgree: our page reader, arrow-go, parquet-go and DuckDB read the same messages from the same file.
func TestAllReadersAgree(t *testing.T) {
	want := all()
	for _, key := range [][]byte{nil, []byte("0123456789abcdef")} {
		t.Run(fmt.Sprintf("key %d", len(key)), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "all.parquet")
			info := write(t, path, "ALL", key, want)
			equal(t, "sluice", read(t, path, info, key), want)
			equal(t, "arrow-go", readArrow(t, path, key), want)
			f := "'" + path + "'"
			db := duckdb(t)
			if key == nil {
				equal(t, "parquet-go", readParquetGo(t, path), want)
			} else {
				db = duckdb(t, "PRAGMA add_parquet_key('k', '"+string(key)+"')")
				f = "read_parquet('" + path + "', encryption_config={footer_key: 'k'})"
			}
			var got []msg
			r, err := db.Query("SELECT seq, epoch_us(time), encode(subject), headers, data FROM " + f)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			for r.Next() {
				var m msg
				if err := r.Scan(&m.Seq, &m.Time, &m.Subject, &m.Header, &m.Data); err != nil {
					t.Fatal(err)
				}
				m.Time *= 1000 // DuckDB has microseconds where there is a time zone
				got = append(got, m)
			}
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
			equal(t, "DuckDB", got, want)
		})
	}
}

func readArrow(t *testing.T, path string, key []byte) (out []msg) {
	t.Helper()
	properties := parquet.NewReaderProperties(nil)
	if key != nil {
		properties.FileDecryptProps = parquet.NewFileDecryptionProperties(parquet.WithFooterKey(string(key)))
	}
	r, err := file.OpenParquetFile(path, false, file.WithReadProps(properties))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for i := range r.NumRowGroups() {
		group := r.RowGroup(i)
		n := int(group.NumRows())
		messages := make([]msg, n)
		for c := range 5 {
			column, err := group.Column(c)
			if err != nil {
				t.Fatal(err)
			}
			if c < 2 {
				values := make([]int64, n)
				readColumn(t, n, func(at int) (int64, int, error) {
					return column.(*file.Int64ColumnChunkReader).ReadBatch(int64(n-at), values[at:], nil, nil)
				})
				for j, v := range values {
					if c == 0 {
						messages[j].Seq = uint64(v)
					} else {
						messages[j].Time = v
					}
				}
				continue
			}
			j := 0
			values, levels := make([]parquet.ByteArray, n), make([]int16, n)
			for j < n {
				total, read, err := column.(*file.ByteArrayColumnChunkReader).ReadBatch(int64(n-j), values, levels, nil)
				if err != nil || total == 0 {
					t.Fatal(total, err)
				}
				k := 0
				for l := range int(total) {
					var v []byte
					if c != 3 || levels[l] == 1 {
						v = append([]byte{}, values[k]...)
						k++
					}
					switch c {
					case 2:
						messages[j].Subject = v
					case 3:
						messages[j].Header = v
					case 4:
						messages[j].Data = v
					}
					j++
				}
				if k != read {
					t.Fatalf("%d values, want %d", k, read)
				}
			}
		}
		out = append(out, messages...)
	}
	return out
}

// readColumn reads n values by batches.
func readColumn(t *testing.T, n int, batch func(at int) (int64, int, error)) {
	t.Helper()
	for at := 0; at < n; {
		_, read, err := batch(at)
		if err != nil || read == 0 {
			t.Fatal(read, err)
		}
		at += read
	}
}

func readParquetGo(t *testing.T, path string) (out []msg) {
	t.Helper()
	type row struct {
		Seq     int64   `parquet:"seq"`
		Time    int64   `parquet:"time,timestamp(nanosecond)"`
		Subject string  `parquet:"subject"`
		Headers *[]byte `parquet:"headers,optional"`
		Data    []byte  `parquet:"data"`
	}
	read, err := pq.ReadFile[row](path)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for _, r := range read {
		m := msg{Seq: uint64(r.Seq), Time: r.Time, Subject: []byte(r.Subject), Data: r.Data}
		if r.Headers != nil {
			m.Header = append([]byte{}, *r.Headers...)
		}
		out = append(out, m)
	}
	return out
}
