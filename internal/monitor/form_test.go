package monitor

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestFormsOfNATS compares answers with those of nats-server 2.15.3 in testdata: every field that it shows is here under
// the same name with the same kind of value, and nothing else but what is listed.
func TestFormsOfNATS(t *testing.T) {
	tests := []struct{ url, file string }{
		{"/varz", "varz"}, {"/connz?subs=detail&auth=1", "connz-detail"}, {"/connz?subs=1", "connz-subs"}, {"/connz?state=closed&sort=stop&limit=1", "connz-closed"},
		{"/subsz?subs=1", "subsz"}, {"/jsz?consumers=1&config=1", "jsz"}, {"/accountz", "accountz"}, {"/accountz?acc=A", "accountz-detail"}, {"/accstatz", "accstatz"},
		{"/healthz", "healthz"}, {"/healthz?account=A&stream=S&consumer=D&details=1", "healthz-details"}, {"/routez", "routez"}, {"/leafz", "leafz"}, {"/gatewayz", "gatewayz"},
	}
	// What nats-server shows and Sluice has nothing of, and the other way round. "*" is any element of a list.
	missing := []string{"varz.feature_flags", "varz.disk_io_wait_stats", "accountz-detail.account_detail.imports"}
	added := []string{"varz.sluice_version", "varz.jetstream.config.sync_always", "jsz.config.sync_always", "varz.git_commit"}
	for _, tc := range tests {
		t.Run(tc.url, func(t *testing.T) {
			w := get(newTestHandler(t, newFake(), nil), tc.url)
			if got := w.Header().Get("Content-Type") + w.Header().Get("Access-Control-Allow-Origin"); got != "application/json*" {
				t.Errorf("headers %q", got)
			}
			theirs, err := os.ReadFile("testdata/" + tc.file + ".json")
			if err != nil {
				t.Fatal(err)
			}
			compareForms(t, tc.file, decode(t, w.Body.Bytes()), decode(t, theirs), missing, added)
			if i := strings.Contains(w.Body.String(), "\n  \""); i != strings.Contains(string(theirs), "\n  \"") {
				t.Error("the indentation differs")
			}
		})
	}
}

func decode(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

func compareForms(t *testing.T, at string, ours, theirs any, missing, added []string) {
	switch theirs := theirs.(type) {
	case map[string]any:
		o, ok := ours.(map[string]any)
		if !ok {
			t.Errorf("%s: %T, want an object", at, ours)
			return
		}
		// Counters of what was asked, and what $JS.API's own tests look at, are not compared inside.
		if strings.HasSuffix(at, ".http_req_stats") || strings.HasSuffix(at, "stream_detail.*.state") || strings.HasSuffix(at, ".cluster") ||
			strings.HasSuffix(at, "stream_detail.*.config") || strings.Contains(at, "consumer_detail.*.") {
			return
		}
		for k, v := range theirs {
			if sub, ok := o[k]; ok {
				compareForms(t, at+"."+k, sub, v, missing, added)
			} else if !slices.Contains(missing, at+"."+k) {
				t.Errorf("%s.%s is missing", at, k)
			}
		}
		for k := range o {
			if _, ok := theirs[k]; !ok && !slices.Contains(added, at+"."+k) {
				t.Errorf("%s.%s is not in nats-server's answer", at, k)
			}
		}
	case []any:
		o, ok := ours.([]any)
		if !ok {
			t.Errorf("%s: %T, want a list", at, ours)
			return
		}
		if len(theirs) > 0 && len(o) > 0 {
			compareForms(t, at+".*", o[0], theirs[0], missing, added)
		} else if len(theirs) > 0 {
			t.Errorf("%s is empty, so that its form is not compared", at)
		}
	case string:
		if _, ok := ours.(string); !ok {
			t.Errorf("%s: %T, want a string", at, ours)
		}
	case float64:
		if _, ok := ours.(float64); !ok {
			t.Errorf("%s: %T, want a number", at, ours)
		}
	case bool:
		if _, ok := ours.(bool); !ok {
			t.Errorf("%s: %T, want a boolean", at, ours)
		}
	}
}
