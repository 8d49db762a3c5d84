package sluice_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice"
)

// request asks the API and reads the answer.
func request(t *testing.T, nc *nats.Conn, subj string, body, answer any) {
	t.Helper()
	raw, ok := body.([]byte)
	if !ok && body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	m, err := nc.Request(subj, raw, 20*time.Second)
	if err != nil {
		t.Fatalf("%s: %v", subj, err)
	}
	var failed struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err != nil || failed.Error != nil {
		t.Fatalf("%s: %s", subj, m.Data)
	}
	if answer != nil {
		if err := json.Unmarshal(m.Data, answer); err != nil {
			t.Fatal(err)
		}
	}
}

// takeBackup does what nats stream backup does.
func takeBackup(t *testing.T, nc *nats.Conn, stream string, chunk int) (config json.RawMessage, archive []byte) {
	t.Helper()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var answer struct {
		Config json.RawMessage `json:"config"`
	}
	request(t, nc, "$JS.API.STREAM.SNAPSHOT."+stream, map[string]any{"deliver_subject": inbox, "chunk_size": chunk, "window_size": 4 * chunk}, &answer)
	for {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatalf("after %d bytes: %v", len(archive), err)
		}
		if len(m.Data) == 0 {
			if s := m.Header.Get("Status"); s != "" && s != "204" {
				t.Fatalf("the backup ends with %v", m.Header)
			}
			return answer.Config, archive
		}
		archive = append(archive, m.Data...)
		if m.Reply != "" {
			if len(m.Data) != chunk {
				t.Errorf("a chunk of %d bytes, want %d", len(m.Data), chunk)
			}
			if err := m.Respond(nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// bringBack does what nats stream restore does.
func bringBack(t *testing.T, nc *nats.Conn, stream string, config json.RawMessage, archive []byte) {
	t.Helper()
	var answer struct {
		Deliver string `json:"deliver_subject"`
	}
	request(t, nc, "$JS.API.STREAM.RESTORE."+stream, map[string]any{"config": config, "state": map[string]any{}}, &answer)
	for len(archive) > 0 {
		n := min(len(archive), 32<<10)
		m, err := nc.Request(answer.Deliver, archive[:n], 10*time.Second)
		if err != nil || len(m.Data) > 0 {
			t.Fatalf("a chunk: %v %s", err, m.Data)
		}
		archive = archive[n:]
	}
	request(t, nc, answer.Deliver, []byte{}, nil)
}

// about tells what a restore has to bring back.
func about(t *testing.T, nc *nats.Conn, stream, consumer string) string {
	t.Helper()
	var s struct {
		State json.RawMessage `json:"state"`
	}
	request(t, nc, "$JS.API.STREAM.INFO."+stream, map[string]any{"deleted_details": true, "subjects_filter": ">"}, &s)
	var c struct {
		Delivered, Floor struct {
			Consumer uint64 `json:"consumer_seq"`
			Stream   uint64 `json:"stream_seq"`
		}
		AckFloor       json.RawMessage `json:"ack_floor"`
		NumAckPending  int             `json:"num_ack_pending"`
		NumRedelivered int             `json:"num_redelivered"`
		NumPending     int             `json:"num_pending"`
	}
	request(t, nc, "$JS.API.CONSUMER.INFO."+stream+"."+consumer, nil, &c)
	var out strings.Builder
	var state any
	if err := json.Unmarshal(s.State, &state); err != nil {
		t.Fatal(err)
	}
	sorted, _ := json.Marshal(state)
	fmt.Fprintf(&out, "%s\n%+v", sorted, c.Delivered)
	fmt.Fprintf(&out, " unacknowledged %d redelivered %d pending %d\n", c.NumAckPending, c.NumRedelivered, c.NumPending)
	for seq := 1; seq <= 300; seq += 7 {
		m, err := nc.Request("$JS.API.STREAM.MSG.GET."+stream, fmt.Appendf(nil, `{"seq":%d}`, seq), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, show(m))
	}
	return out.String()
}

// fill makes a stream with a past.
func fill(t *testing.T, nc *nats.Conn) {
	t.Helper()
	request(t, nc, "$JS.API.STREAM.CREATE.S", []byte(`{"name":"S","subjects":["s.>"],"storage":"file","retention":"limits","num_replicas":1,"max_msgs_per_subject":40}`), nil)
	for i := range 300 {
		m := &nats.Msg{Subject: fmt.Sprintf("s.%d", i%7), Data: fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", i))}
		if i%3 == 0 {
			m.Header = nats.Header{"A": {fmt.Sprint(i)}}
		}
		if _, err := nc.RequestMsg(m, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for _, seq := range []int{100, 101, 150, 299} {
		request(t, nc, "$JS.API.STREAM.MSG.DELETE.S", fmt.Appendf(nil, `{"seq":%d}`, seq), nil)
	}
	request(t, nc, "$JS.API.CONSUMER.CREATE.S.c", []byte(`{"stream_name":"S","config":{"name":"c","durable_name":"c","ack_policy":"explicit","ack_wait":3600000000000}}`), nil)
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.S.c", sub.Subject, []byte(`{"batch":20,"no_wait":true}`)); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		m, err := sub.NextMsg(5 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if _, err := nc.Request(m.Reply, []byte("+ACK"), 5*time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestBackups(t *testing.T) {
	opts := sluice.Options{Name: "n", Port: sluice.NoPort, Store: "dir://" + t.TempDir()}
	srv, stop := start(t, opts)
	nc, _ := connect(t, srv)
	fill(t, nc)
	want := about(t, nc, "S", "c")
	config, archive := takeBackup(t, nc, "S", 16<<10)
	events, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.*.S")
	if err != nil {
		t.Fatal(err)
	}
	again := func(nc *nats.Conn, config json.RawMessage, archive []byte) {
		t.Helper()
		bringBack(t, nc, "S", config, archive)
		if got := about(t, nc, "S", "c"); got != want {
			t.Fatalf("got %.800s\nwant %.800s", got, want)
		}
	}
	t.Run("sluice to sluice", func(t *testing.T) {
		request(t, nc, "$JS.API.STREAM.DELETE.S", nil, nil)
		again(nc, config, archive)
		_, second := takeBackup(t, nc, "S", 128<<10)
		if len(second) == 0 || bytes.Equal(second, archive) {
			t.Error("the second backup has the times of the first")
		}
		var seen []string
		for {
			m, err := events.NextMsg(2 * time.Second)
			if err != nil {
				t.Fatalf("after %v: %v", seen, err)
			}
			verb := strings.Split(m.Subject, ".")[4]
			seen = append(seen, verb)
			if verb == "SNAPSHOT_COMPLETE" {
				break
			}
		}
		for _, verb := range []string{"RESTORE_CREATE", "RESTORE_COMPLETE", "SNAPSHOT_CREATE"} {
			if !strings.Contains(strings.Join(seen, " "), verb) {
				t.Errorf("no %s among %v", verb, seen)
			}
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		nc.Close()
		stop()
		srv, _ := start(t, opts)
		nc, _ = connect(t, srv)
		if got := about(t, nc, "S", "c"); got != want {
			t.Fatalf("got %.800s\nwant %.800s", got, want)
		}
	})
	t.Run("nats-server and back", func(t *testing.T) {
		binary := os.Getenv("SLUICE_NATS_SERVER")
		if binary == "" {
			t.Skip("SLUICE_NATS_SERVER is not set")
		}
		srv, _ := start(t, sluice.Options{Name: "m", Port: sluice.NoPort, Store: "mem://"})
		here, _ := connect(t, srv)
		there := connectReference(t, binary)
		again(there, config, archive)
		config, archive := takeBackup(t, there, "S", 64<<10)
		again(here, config, archive)
	})
	t.Run("of an older nats-server", func(t *testing.T) {
		archive, err := os.ReadFile("internal/archive/testdata/stream.tar.s2")
		if err != nil {
			t.Fatal(err)
		}
		srv, _ := start(t, sluice.Options{Name: "m", Port: sluice.NoPort, Store: "mem://"})
		nc, _ := connect(t, srv)
		bringBack(t, nc, "S", json.RawMessage(`{"name":"S","subjects":["s.>"],"storage":"file","retention":"limits","num_replicas":1,"max_bytes":60000}`), archive)
		var s struct {
			State struct {
				Messages, Bytes int
				First           int   `json:"first_seq"`
				Last            int   `json:"last_seq"`
				Deleted         []int `json:"deleted"`
			}
		}
		request(t, nc, "$JS.API.STREAM.INFO.S", map[string]any{"deleted_details": true}, &s)
		if got := fmt.Sprintf("%+v", s.State); got != "{Messages:12 Bytes:48432 First:27 Last:40 Deleted:[30 40]}" {
			t.Error(got)
		}
	})
}
