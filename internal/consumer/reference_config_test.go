package consumer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// TestReferenceConfig holds the checks of configurations against a nats-server: the errors, word by word, and the
// configurations with their defaults.
func TestReferenceConfig(t *testing.T) {
	r := newReference(t, startReference(t, referenceBinary(t)))
	r.request("$JS.API.STREAM.DELETE.S", "")
	for name, cfg := range configStreams {
		raw, _ := json.Marshal(cfg)
		if answer := r.request("$JS.API.STREAM.CREATE."+name, string(raw)); strings.Contains(answer, `"error"`) {
			t.Fatal(answer)
		}
	}
	for _, tc := range configCases {
		if tc.want == jserr.ConsumerReplicasExceedsStream {
			continue // a single nats-server refuses all replicas
		}
		t.Run(fmt.Sprintf("%s %.80s", tc.stream, tc.cfg), func(t *testing.T) {
			cfg, err := checkCase(tc.stream, tc.cfg, tc.pedantic)
			want := r.createConsumer(t, tc.stream, tc.cfg, tc.pedantic)
			compareAnswer(t, cfg, err, want)
			r.request("$JS.API.CONSUMER.DELETE."+tc.stream+".C", "")
		})
	}
	for _, tc := range updateCases {
		t.Run(fmt.Sprintf("%.100s → %.100s", tc.from, tc.to), func(t *testing.T) {
			if answer := r.createConsumer(t, "S", tc.from, false); answer.Error != nil {
				t.Fatal(answer.Error)
			}
			cfg, _, err := Resolve(api.ActionCreateOrUpdate, checkedConfig(t, tc.to), &Existing{Config: checkedConfig(t, tc.from)})
			compareAnswer(t, cfg, err, r.createConsumer(t, "S", tc.to, false))
			r.request("$JS.API.CONSUMER.DELETE.S.C", "")
		})
	}
}

func (r *reference) createConsumer(t *testing.T, stream, cfg string, pedantic bool) (answer struct {
	Error  *api.ApiError
	Config json.RawMessage
}) {
	t.Helper()
	body := fmt.Sprintf(`{"stream_name":%q,"pedantic":%v,"config":%s}`, stream, pedantic, cfg)
	if err := json.Unmarshal([]byte(r.request("$JS.API.CONSUMER.CREATE."+stream+".C", body)), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func compareAnswer(t *testing.T, cfg api.ConsumerConfig, err error, want struct {
	Error  *api.ApiError
	Config json.RawMessage
}) {
	t.Helper()
	if want.Error != nil || err != nil {
		text := "accepted"
		if want.Error != nil {
			text = fmt.Sprintf("%s (%d)", want.Error.Description, want.Error.ErrCode)
		}
		if err == nil || err.Error() != text {
			t.Errorf("here: %v\nnats-server: %s", err, text)
		}
		return
	}
	var theirs api.ConsumerConfig
	if err := json.Unmarshal(want.Config, &theirs); err != nil {
		t.Fatal(err)
	}
	theirs.Metadata, theirs.Name, cfg.Metadata, cfg.Name = nil, "", nil, ""
	for _, c := range []*api.ConsumerConfig{&cfg, &theirs} {
		if c.OptStartTime != nil {
			utc := c.OptStartTime.UTC()
			c.OptStartTime = &utc
		}
	}
	x, _ := json.Marshal(cfg)
	y, _ := json.Marshal(theirs)
	if !bytes.Equal(x, y) {
		t.Errorf("here: %s\nnats-server: %s", x, y)
	}
}
