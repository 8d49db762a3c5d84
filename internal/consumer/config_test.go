package consumer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

func parseConfig(raw string) (cfg api.ConsumerConfig, err error) {
	err = json.Unmarshal([]byte(raw), &cfg)
	return cfg, err
}

// configStreams are the streams that configCases are checked against.
var configStreams = map[string]api.StreamConfig{
	"S": {Name: "S", Subjects: []string{"a.>"}, Replicas: 1, MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, Storage: api.MemoryStorage},
	"W": {Name: "W", Subjects: []string{"w.>"}, Replicas: 1, MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, Storage: api.MemoryStorage, Retention: api.WorkQueuePolicy},
	"L": {Name: "L", Subjects: []string{"l.>"}, Replicas: 1, MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, Storage: api.MemoryStorage,
		ConsumerLimits: api.StreamConsumerLimits{MaxAckPending: 50, InactiveThreshold: time.Minute}},
}

// configCases are consumer configurations: what is wrong with them, or "" where nothing is. The reference test holds
// all of it against a nats-server.
var configCases = []struct {
	stream, cfg string
	pedantic    bool
	want        jserr.Code // 0: accepted
}{
	{"S", `{}`, false, 0},
	{"S", `{"ack_policy":"explicit"}`, false, 0},
	{"S", `{"durable_name":"C","ack_policy":"all","ack_wait":1000000000}`, false, 0},
	{"S", `{"ack_policy":"explicit","max_deliver":-7,"max_waiting":-1,"max_ack_pending":-5,"max_batch":-1,"max_expires":-1,"max_bytes":-1,"inactive_threshold":-1}`, false, 0},
	{"S", `{"ack_policy":"explicit","max_deliver":-7}`, true, jserr.Pedantic},
	{"S", `{"ack_policy":"explicit","max_waiting":-1}`, true, jserr.Pedantic},
	{"S", `{"ack_policy":"explicit","max_ack_pending":-5}`, true, jserr.Pedantic},
	{"S", `{"ack_policy":"explicit","max_batch":-1}`, true, jserr.Pedantic},
	{"S", `{"ack_policy":"explicit","backoff":[1000000000]}`, true, jserr.Pedantic},
	{"S", `{"ack_policy":"explicit","backoff":[1000000000,2000000000]}`, false, 0},
	{"S", `{"ack_policy":"explicit","backoff":[1000000000,2000000000],"max_deliver":1}`, false, jserr.ConsumerMaxDeliverBackoff},
	{"S", `{"ack_policy":"explicit","backoff":[1000000000,-2]}`, false, jserr.ConsumerBackOffNegative},
	{"S", `{"ack_policy":"explicit","ack_wait":-1}`, false, jserr.ConsumerAckWaitNegative},
	{"S", `{"ack_policy":"explicit","num_replicas":3}`, false, jserr.ConsumerReplicasExceedsStream},
	{"S", `{"ack_policy":"explicit","num_replicas":-1}`, false, jserr.ReplicasCountCannotBeNegative},
	{"S", `{"ack_policy":"explicit","description":"` + strings.Repeat("d", 4097) + `"}`, false, jserr.ConsumerDescriptionTooLong},
	{"S", `{"ack_policy":"explicit","metadata":{"k":"` + strings.Repeat("d", 128<<10) + `"}}`, false, jserr.ConsumerMetadataLength},
	{"S", `{"ack_policy":"explicit","rate_limit_bps":1}`, false, jserr.ConsumerPullWithRateLimit},
	{"S", `{"ack_policy":"explicit","idle_heartbeat":1000000000}`, false, jserr.ConsumerHBRequiresPush},
	{"S", `{"ack_policy":"explicit","flow_control":true}`, false, jserr.ConsumerFCRequiresPush},
	{"S", `{"ack_policy":"explicit","max_expires":1000}`, false, jserr.ConsumerMaxRequestExpiresTooSmall},
	{"S", `{"deliver_subject":"d.*"}`, false, jserr.ConsumerDeliverToWildcards},
	{"S", `{"deliver_subject":"d..d"}`, false, jserr.ConsumerInvalidDeliverSubject},
	{"S", `{"deliver_subject":"$JS.API.X"}`, false, jserr.ConsumerInvalidDeliverSubject},
	{"S", `{"deliver_subject":"$JS.ACK.X"}`, false, jserr.ConsumerInvalidDeliverSubject},
	{"S", `{"deliver_subject":"$JS.dom.API"}`, false, jserr.ConsumerInvalidDeliverSubject},
	{"S", `{"deliver_subject":"a.b"}`, false, jserr.ConsumerDeliverCycle},
	{"S", `{"deliver_subject":"d","max_waiting":1}`, false, jserr.ConsumerPushMaxWaiting},
	{"S", `{"deliver_subject":"d","max_ack_pending":1}`, false, jserr.ConsumerMaxPendingAckPolicyRequired},
	{"S", `{"deliver_subject":"d","idle_heartbeat":1000}`, false, jserr.ConsumerSmallHeartbeat},
	{"S", `{"deliver_subject":"d","flow_control":true}`, false, jserr.ConsumerWithFlowControlNeedsHeartbeats},
	{"S", `{"deliver_subject":"d","deliver_group":"g","flow_control":true,"idle_heartbeat":1000000000,"headers_only":true,"rate_limit_bps":8000}`, false, 0},
	{"S", `{"ack_policy":"explicit","filter_subject":"a..b"}`, false, jserr.StreamInvalidConfig},
	{"S", `{"ack_policy":"explicit","filter_subject":"other"}`, false, 0},
	{"S", `{"ack_policy":"explicit","filter_subject":"a.b","filter_subjects":["a.c"]}`, false, jserr.ConsumerDuplicateFilterSubjects},
	{"S", `{"ack_policy":"explicit","filter_subjects":["a.c",""]}`, false, jserr.ConsumerEmptyFilter},
	{"S", `{"ack_policy":"explicit","filter_subjects":["a.c","a.*"]}`, false, jserr.ConsumerOverlappingSubjectFilters},
	{"S", `{"ack_policy":"explicit","filter_subjects":["a.c","a.c"]}`, false, jserr.ConsumerOverlappingSubjectFilters},
	{"S", `{"ack_policy":"explicit","filter_subjects":["a.c","a..d"]}`, false, jserr.StreamInvalidConfig},
	{"S", `{"ack_policy":"explicit","filter_subjects":["a.c","a.d"]}`, false, 0},
	{"S", `{"opt_start_seq":1}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"opt_start_time":"2026-01-01T00:00:00Z"}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"last","opt_start_seq":1}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"last","opt_start_time":"2026-01-01T00:00:00Z"}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"new","opt_start_seq":1}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"new","opt_start_time":"2026-01-01T00:00:00Z"}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"last_per_subject"}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"last_per_subject","filter_subject":"a.*","opt_start_seq":1}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"last_per_subject","filter_subject":"a.*","opt_start_time":"2026-01-01T00:00:00Z"}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"last_per_subject","filter_subject":"a.*"}`, false, 0},
	{"S", `{"deliver_policy":"by_start_sequence"}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"by_start_sequence","opt_start_seq":1,"opt_start_time":"2026-01-01T00:00:00Z"}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"by_start_time"}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"by_start_time","opt_start_seq":1,"opt_start_time":"2026-01-01T00:00:00Z"}`, false, jserr.ConsumerInvalidPolicy},
	{"S", `{"deliver_policy":"by_start_time","opt_start_time":"2026-01-01T00:00:00Z"}`, false, 0},
	{"S", `{"ack_policy":"explicit","sample_freq":"x"}`, false, jserr.ConsumerInvalidSampling},
	{"S", `{"ack_policy":"explicit","sample_freq":"50%"}`, false, 0},
	{"S", `{"ack_policy":"explicit","priority_groups":["g"]}`, false, jserr.ConsumerPriorityGroupWithPolicyNone},
	{"S", `{"ack_policy":"explicit","priority_timeout":1000}`, false, jserr.ConsumerPinnedTTLWithoutPriorityPolicyNone},
	{"S", `{"deliver_subject":"d","priority_policy":"overflow","priority_groups":["g"]}`, false, jserr.ConsumerPushWithPriorityGroup},
	{"S", `{"deliver_subject":"d","priority_policy":"overflow"}`, false, jserr.ConsumerPushWithPriorityGroup},
	{"S", `{"ack_policy":"explicit","priority_policy":"overflow"}`, false, jserr.ConsumerPriorityPolicyWithoutGroup},
	{"S", `{"ack_policy":"explicit","priority_policy":"overflow","priority_groups":["g",""]}`, false, jserr.ConsumerEmptyGroupName},
	{"S", `{"ack_policy":"explicit","priority_policy":"overflow","priority_groups":["g h"]}`, false, jserr.ConsumerInvalidGroupName},
	{"S", `{"ack_policy":"explicit","priority_policy":"overflow","priority_groups":["a23456789012345678"]}`, false, jserr.ConsumerInvalidGroupName},
	{"S", `{"ack_policy":"explicit","priority_policy":"overflow","priority_groups":["g","g/=_-"]}`, false, 0},
	{"S", `{"ack_policy":"explicit","priority_policy":"overflow","priority_groups":["g"],"priority_timeout":1000}`, false, 0},
	{"S", `{"ack_policy":"explicit","priority_policy":"pinned_client","priority_groups":["g"]}`, false, 0},
	{"S", `{"ack_policy":"explicit","priority_policy":"pinned_client","priority_groups":["g"],"priority_timeout":-5}`, false, 0},
	{"S", `{"ack_policy":"explicit","priority_policy":"pinned_client","priority_groups":["g"],"priority_timeout":-5}`, true, jserr.Pedantic},
	{"S", `{"ack_policy":"none","priority_policy":"prioritized","priority_groups":["g"]}`, false, 0},
	{"S", `{"ack_policy":"flow_control"}`, false, jserr.ConsumerAckFCRequiresPush},
	{"S", `{"ack_policy":"flow_control","deliver_subject":"d"}`, false, 0},
	{"S", `{"ack_policy":"flow_control","deliver_subject":"d"}`, true, jserr.ConsumerAckFCRequiresFC},
	{"S", `{"ack_policy":"flow_control","deliver_subject":"d","flow_control":true}`, true, jserr.StreamInvalidConfig},
	{"S", `{"ack_policy":"flow_control","deliver_subject":"d","flow_control":true,"idle_heartbeat":1000000000}`, true, 0},
	{"S", `{"ack_policy":"flow_control","deliver_subject":"d","max_ack_pending":-1}`, false, jserr.ConsumerAckFCRequiresMaxAckPending},
	{"S", `{"ack_policy":"flow_control","deliver_subject":"d","ack_wait":1000000000}`, false, jserr.ConsumerAckFCRequiresNoAckWait},
	{"S", `{"ack_policy":"flow_control","deliver_subject":"d","backoff":[1000000000]}`, false, jserr.ConsumerAckFCRequiresNoAckWait},
	{"S", `{"ack_policy":"flow_control","deliver_subject":"d","max_deliver":3}`, false, jserr.ConsumerAckFCRequiresNoMaxDeliver},
	{"S", `{"direct":true}`, false, jserr.ConsumerDirectRequiresPush},
	{"S", `{"direct":true,"deliver_subject":"d","durable_name":"C"}`, false, jserr.ConsumerDirectRequiresEphemeral},
	{"S", `{"direct":true,"deliver_subject":"d"}`, false, 0},
	{"S", `{"sourcing":true,"deliver_subject":"d","ack_policy":"explicit"}`, false, 0},
	{"W", `{"direct":true,"deliver_subject":"d"}`, false, 0},
	{"W", `{"ack_policy":"flow_control","deliver_subject":"d"}`, false, 0},
	{"W", `{}`, false, jserr.ConsumerPullRequiresAck},
	{"W", `{"deliver_subject":"d"}`, false, jserr.ConsumerWQRequiresExplicitAck},
	{"W", `{"ack_policy":"all"}`, false, jserr.ConsumerWQRequiresExplicitAck},
	{"W", `{"ack_policy":"explicit","deliver_policy":"new"}`, false, jserr.ConsumerWQConsumerNotDeliverAll},
	{"W", `{"ack_policy":"explicit"}`, false, 0},
	{"L", `{"ack_policy":"explicit"}`, false, 0},
	{"L", `{"ack_policy":"explicit"}`, true, jserr.Pedantic},
	{"L", `{"ack_policy":"explicit","max_ack_pending":20}`, true, jserr.Pedantic},
	{"L", `{"ack_policy":"explicit","max_ack_pending":100}`, false, jserr.ConsumerMaxPendingAckExcess},
	{"L", `{"ack_policy":"explicit","inactive_threshold":100000000000}`, false, jserr.ConsumerInactiveThresholdExcess},
}

// checkCase does what creating a consumer does.
func checkCase(stream, raw string, pedantic bool) (api.ConsumerConfig, error) {
	cfg, err := parseConfig(raw)
	if err != nil {
		return cfg, err
	}
	s := configStreams[stream]
	cfg, err = CheckConfig(cfg, s, Limits{}, pedantic)
	if err == nil && s.Retention == api.WorkQueuePolicy {
		err = CheckWorkQueue(&cfg, nil, true)
	}
	return cfg, err
}

func codeOf(err error) jserr.Code {
	var e *jserr.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func TestCheckConfig(t *testing.T) {
	for _, tc := range configCases {
		t.Run(fmt.Sprintf("%s %.80s", tc.stream, tc.cfg), func(t *testing.T) {
			_, err := checkCase(tc.stream, tc.cfg, tc.pedantic)
			if got := codeOf(err); got != tc.want || (err != nil) != (tc.want != 0) {
				t.Errorf("error is %v, should be code %d", err, tc.want)
			}
		})
	}
}

func TestCheckConfigSharesNothing(t *testing.T) {
	at := time.Unix(1, 0)
	in := api.ConsumerConfig{
		AckPolicy: api.AckExplicit, DeliverPolicy: api.DeliverByStartTime, OptStartTime: &at, BackOff: []time.Duration{time.Second},
		FilterSubjects: []string{"a"}, Metadata: map[string]string{"k": "v"},
	}
	out, err := CheckConfig(in, configStreams["S"], Limits{}, false)
	if err != nil {
		t.Fatal(err)
	}
	in.BackOff[0], in.FilterSubjects[0], in.Metadata["k"], *in.OptStartTime = 0, "b", "w", time.Time{}
	if out.BackOff[0] != time.Second || out.FilterSubjects[0] != "a" || out.Metadata["k"] != "v" || out.OptStartTime.Unix() != 1 {
		t.Errorf("the result changed with the argument: %+v", out)
	}
}

func TestLimits(t *testing.T) {
	limits := Limits{MaxAckPending: 100, MaxRequestBatch: 10}
	cfg, err := CheckConfig(api.ConsumerConfig{AckPolicy: api.AckExplicit}, configStreams["S"], limits, false)
	if err != nil || cfg.MaxAckPending != 100 || cfg.MaxRequestBatch != 10 {
		t.Errorf("%+v %v", cfg, err)
	}
	if _, err := CheckConfig(api.ConsumerConfig{AckPolicy: api.AckExplicit, MaxAckPending: 101}, configStreams["S"], limits, false); codeOf(err) != jserr.ConsumerMaxPendingAckExcess {
		t.Error(err)
	}
	if _, err := CheckConfig(api.ConsumerConfig{AckPolicy: api.AckExplicit, MaxRequestBatch: 11}, configStreams["S"], limits, false); codeOf(err) != jserr.ConsumerMaxRequestBatchExceeded {
		t.Error(err)
	}
}

// updateCases change a consumer from one configuration to another.
var updateCases = []struct {
	from, to string
	want     jserr.Code
}{
	{`{"durable_name":"C","ack_policy":"explicit"}`, `{"durable_name":"C","ack_policy":"explicit"}`, 0},
	{`{"durable_name":"C","ack_policy":"explicit"}`, `{"durable_name":"C","ack_policy":"explicit","max_deliver":3,"ack_wait":5000000000,"max_ack_pending":7,"description":"d","filter_subject":"a.b","headers_only":true,"sample_freq":"10"}`, 0},
	{`{"durable_name":"C","ack_policy":"explicit"}`, `{"durable_name":"C","ack_policy":"all"}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","ack_policy":"explicit"}`, `{"durable_name":"C","ack_policy":"explicit","deliver_policy":"new"}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","ack_policy":"explicit"}`, `{"durable_name":"C","ack_policy":"explicit","mem_storage":true}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","ack_policy":"explicit"}`, `{"durable_name":"C","ack_policy":"explicit","replay_policy":"original"}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","ack_policy":"explicit"}`, `{"durable_name":"C","ack_policy":"explicit","max_waiting":3}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","ack_policy":"explicit"}`, `{"durable_name":"C","ack_policy":"explicit","deliver_subject":"d"}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","ack_policy":"explicit","deliver_subject":"d"}`, `{"durable_name":"C","ack_policy":"explicit"}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","ack_policy":"explicit","deliver_subject":"d"}`, `{"durable_name":"C","ack_policy":"explicit","deliver_subject":"e"}`, 0},
	{`{"durable_name":"C","ack_policy":"explicit","deliver_subject":"d"}`, `{"durable_name":"C","ack_policy":"explicit","deliver_subject":"d","idle_heartbeat":1000000000}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","ack_policy":"explicit","deliver_subject":"d","idle_heartbeat":1000000000}`, `{"durable_name":"C","ack_policy":"explicit","deliver_subject":"d","idle_heartbeat":1000000000,"flow_control":true}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","deliver_policy":"by_start_sequence","opt_start_seq":1}`, `{"durable_name":"C","deliver_policy":"by_start_sequence","opt_start_seq":2}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","deliver_policy":"by_start_time","opt_start_time":"2026-01-01T00:00:00Z"}`, `{"durable_name":"C","deliver_policy":"by_start_time","opt_start_time":"2026-01-01T00:00:01Z"}`, jserr.ConsumerCreate},
	{`{"durable_name":"C","deliver_policy":"by_start_time","opt_start_time":"2026-01-01T00:00:00Z"}`, `{"durable_name":"C","deliver_policy":"by_start_time","opt_start_time":"2026-01-01T01:00:00+01:00"}`, 0},
	{`{"name":"C","ack_policy":"explicit","priority_policy":"overflow","priority_groups":["g"]}`, `{"name":"C","ack_policy":"explicit","priority_policy":"pinned_client","priority_groups":["h"]}`, 0},
	{`{"name":"C","ack_policy":"explicit","priority_policy":"overflow","priority_groups":["g"]}`, `{"name":"C","ack_policy":"explicit"}`, 0},
	{`{"name":"C","deliver_subject":"d","direct":true}`, `{"name":"C","deliver_subject":"d"}`, jserr.ConsumerCreate},
	{`{"name":"C","deliver_subject":"d","sourcing":true}`, `{"name":"C","deliver_subject":"d"}`, jserr.ConsumerCreate},
	{`{"name":"C","deliver_subject":"d","ack_policy":"flow_control"}`, `{"name":"C","deliver_subject":"d","ack_policy":"all","flow_control":true,"idle_heartbeat":1000000000}`, jserr.ConsumerCreate},
}

func TestCheckUpdate(t *testing.T) {
	for _, tc := range updateCases {
		from, to := checkedConfig(t, tc.from), checkedConfig(t, tc.to)
		_, _, err := Resolve(api.ActionCreateOrUpdate, to, &Existing{Config: from})
		if codeOf(err) != tc.want {
			t.Errorf("%s\n→ %s: %v", tc.from, tc.to, err)
		}
	}
}

func TestResolve(t *testing.T) {
	cfg := checkedConfig(t, `{"durable_name":"C","ack_policy":"explicit","metadata":{"k":"v"}}`)
	same := checkedConfig(t, `{"durable_name":"C","ack_policy":"explicit","metadata":{"k":"v","_nats.req.level":"0"},"filter_subjects":[]}`)
	other := checkedConfig(t, `{"durable_name":"C","ack_policy":"explicit","max_deliver":2}`)
	existing := &Existing{Config: cfg}
	for _, tc := range []struct {
		name     string
		action   api.ConsumerAction
		cfg      api.ConsumerConfig
		existing *Existing
		changed  bool
		want     jserr.Code
	}{
		{"new", api.ActionCreateOrUpdate, cfg, nil, true, 0},
		{"create new", api.ActionCreate, cfg, nil, true, 0},
		{"update what is not there", api.ActionUpdate, cfg, nil, false, jserr.ConsumerDoesNotExist},
		{"create again", api.ActionCreate, same, existing, false, 0},
		{"create another", api.ActionCreate, other, existing, false, jserr.ConsumerAlreadyExists},
		{"update", api.ActionUpdate, other, existing, true, 0},
		{"update to the same", api.ActionUpdate, same, existing, false, 0},
		{"create or update", api.ActionCreateOrUpdate, other, existing, true, 0},
	} {
		_, changed, err := Resolve(tc.action, tc.cfg, tc.existing)
		if codeOf(err) != tc.want || changed != tc.changed {
			t.Errorf("%s: changed %v, error %v", tc.name, changed, err)
		}
	}
	paused := cfg
	paused.PauseUntil = epoch
	if got, changed, err := Resolve(api.ActionUpdate, other, &Existing{Config: paused}); err != nil || !changed || !got.PauseUntil.Equal(epoch) {
		t.Errorf("an update changes the pause: %v %v", got.PauseUntil, err)
	}
	bound := checkedConfig(t, `{"durable_name":"C","deliver_subject":"d"}`)
	moved := checkedConfig(t, `{"durable_name":"C","deliver_subject":"e"}`)
	if _, _, err := Resolve(api.ActionUpdate, moved, &Existing{Config: bound, Bound: true}); codeOf(err) != jserr.ConsumerNameExist {
		t.Errorf("moving a bound consumer: %v", err)
	}
}

func TestCheckWorkQueue(t *testing.T) {
	with := func(filters ...string) api.ConsumerConfig {
		return api.ConsumerConfig{AckPolicy: api.AckExplicit, FilterSubjects: filters}
	}
	for _, tc := range []struct {
		cfg     api.ConsumerConfig
		others  []api.ConsumerConfig
		created bool
		want    jserr.Code
	}{
		{with(), nil, true, 0},
		{with(), []api.ConsumerConfig{with("a")}, true, jserr.ConsumerWQMultipleUnfiltered},
		{with("a"), []api.ConsumerConfig{with()}, true, jserr.ConsumerWQConsumerNotUnique},
		{with("a.*"), []api.ConsumerConfig{with("b"), with("*.c")}, true, jserr.ConsumerWQConsumerNotUnique},
		{with("a.*"), []api.ConsumerConfig{with("b"), with("b.c")}, true, 0},
		{with("b.>"), []api.ConsumerConfig{with("b.c")}, false, jserr.ConsumerWQConsumerNotUnique},
	} {
		if err := CheckWorkQueue(&tc.cfg, tc.others, tc.created); codeOf(err) != tc.want {
			t.Errorf("%v beside %v: %v", tc.cfg.FilterSubjects, tc.others, err)
		}
	}
}
