package jsapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// earlier writes the log of an epoch that is over: one batch.
func earlier(t *testing.T, st store.Store, records []byte) wal.LogID {
	t.Helper()
	id := wal.LogID{Kind: wal.WriteAhead, Node: "n", Epoch: 1}
	log, err := wal.Open(wal.Options{Store: st, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(&wal.Entry{Data: records, Records: 2}); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-log.Done()
	return id
}

// A stream that is held offline is named and listed as such, is refused by all that would use it, and can be deleted.
func TestOfflineStreams(t *testing.T) {
	// A checkpoint that says that there is a message, which is nowhere.
	cfg := api.StreamConfig{Name: "LOST", Subjects: []string{"lost"}, Storage: api.FileStorage, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPer: -1, MaxMsgSize: -1, MaxConsumers: -1, Replicas: 1}
	past, err := record.AppendJSON(nil, record.StreamConfig, 7, record.StreamConfigBody{Account: "A", Created: time.Now(), Config: cfg, Checkpoint: true})
	if err != nil {
		t.Fatal(err)
	}
	past = record.AppendStreamState(past, 7, &record.StreamStateBody{First: 1, Last: 1, LastTime: 1})
	bubbleBehind(t, past, func(t *testing.T, w *world) {
		fails := func(subject, body string, code jserr.Code) {
			t.Helper()
			m := w.request(subject, "", body)
			if want := fmt.Sprintf(`"err_code":%d`, code); !strings.Contains(string(m.Data), want) {
				t.Errorf("%s is answered %s, want %s", subject, m.Data, want)
			}
		}
		w.ok("STREAM.CREATE.WELL", `{"name":"WELL","subjects":["well"],"storage":"file"}`)
		names, _ := w.ok("STREAM.NAMES", "")["streams"].([]any)
		if len(names) != 2 || names[0] != "LOST" || names[1] != "WELL" {
			t.Errorf("the names are %v", names)
		}
		list := w.ok("STREAM.LIST", "")
		offline, _ := list["offline"].(map[string]any)
		missing, _ := list["missing"].([]any)
		streams, _ := list["streams"].([]any)
		if len(offline) != 1 || offline["LOST"] == "" || len(missing) != 1 || len(streams) != 1 {
			t.Errorf("the list is %v", list)
		}
		for _, ask := range [][2]string{
			{"STREAM.INFO.LOST", ""},
			{"STREAM.CREATE.LOST", `{"name":"LOST","subjects":["lost"],"storage":"file"}`},
			{"STREAM.PURGE.LOST", ""},
			{"CONSUMER.CREATE.LOST.c", `{"stream_name":"LOST","config":{"name":"c","ack_policy":"explicit"}}`},
		} {
			fails(ask[0], ask[1], jserr.StreamOfflineReason)
		}
		w.ok("STREAM.DELETE.LOST", "")
		fails("STREAM.INFO.LOST", "", jserr.StreamNotFound)
		w.ok("STREAM.CREATE.LOST", `{"name":"LOST","subjects":["lost"],"storage":"file"}`)
	})
}
