package consumer

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/jsm.go/api"
)

// FuzzScanPull holds the quick reader of pull requests against encoding/json.
func FuzzScanPull(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"batch":5}`, ` { "batch" : 5 , "expires":30000000000 }`, `{"no_wait":true,"max_bytes":1}`, `{"batch":1,"batch":2}`,
		`{"batch":01}`, `{"batch":-1}`, `{"batch":1,}`, `{,"batch":1}`, `{"batch":1}x`, `{"Batch":1}`, `{"batch":1e3}`, `{"no_wait":1}`,
		`{"group":"g"}`, `{"batch":99999999999999999999}`, `{"batch":1 2}`, `{"b\u0061tch":1}`, `{"idle_heartbeat":5`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 || body[0] != '{' {
			return
		}
		var got, want api.JSApiConsumerGetNextRequest
		if !scanPull(body, &got) {
			return
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%q is read, encoding/json says %v", body, err)
		}
		if got != want {
			t.Fatalf("%q is read as %+v, should be %+v", body, got, want)
		}
	})
}

func TestParsePull(t *testing.T) {
	for _, tc := range []struct {
		body    string
		batch   int
		wantErr bool
	}{
		{"", 1, false},
		{"  ", 1, false},
		{"7", 7, false},
		{" 7\r\n", 7, false},
		{"0", 0, false},
		{"seven", 1, false},
		{`{}`, 0, false},
		{`{"batch":3}`, 3, false},
		{`{"batch":-3}`, -3, false},
		{`{"batch":3.5}`, 0, true},
		{`{"batch":`, 0, true},
		{`{"expires":10,"idle_heartbeat":5}`, 0, false},
		{`{"expires":10,"idle_heartbeat":6}`, 0, true},
		{`{"idle_heartbeat":1}`, 0, true},
		{`{"expires":9223372036854775807,"idle_heartbeat":9223372036854775807}`, 0, true},
	} {
		req, _, err := parsePull([]byte(tc.body))
		if (err != nil) != tc.wantErr || err == nil && req.Batch != tc.batch {
			t.Errorf("%q: batch %d, error %v", tc.body, req.Batch, err)
		}
	}
}
