package stream

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// TestCheckOrigins: codes and texts are those that nats-server 2.15.3 answers to the same requests. S listens on s.> and
// has direct gets; C2 sources C1, which sources M.
func TestCheckOrigins(t *testing.T) {
	others := map[string]api.StreamConfig{
		"S":  {Name: "S", Subjects: []string{"s.>"}, AllowDirect: true, MaxMsgSize: 1000},
		"C1": {Name: "C1", Subjects: []string{"c1"}, Sources: []*api.StreamSource{{Name: "M"}}},
		"C2": {Name: "C2", Subjects: []string{"c2"}, Sources: []*api.StreamSource{{Name: "C1"}}},
	}
	limits := Limits{Settles: true, Lookup: func(name string) (api.StreamConfig, bool) {
		cfg, ok := others[name]
		return cfg, ok
	}}
	const wrong = jserr.StreamInvalidConfig
	for _, c := range []struct {
		cfg  string // without its name, M
		code jserr.Code
		text string
	}{
		{`"mirror":{"name":"S"},"subjects":["x"]`, jserr.MirrorWithSubjects, "stream mirrors can not contain subjects"},
		{`"mirror":{"name":"S"},"first_seq":3`, jserr.MirrorWithFirstSeq, "stream mirrors can not have first sequence configured"},
		{`"mirror":{"name":"S"},"sources":[{"name":"T"}]`, jserr.MirrorWithSources, "stream mirrors can not also contain other sources"},
		{`"mirror":{"name":"a.b"}`, jserr.MirrorInvalidStreamName, "mirrored stream name is invalid"},
		{`"mirror":{"name":""}`, jserr.MirrorInvalidStreamName, "mirrored stream name is invalid"},
		{`"mirror":{"name":"S","filter_subject":"a","subject_transforms":[{"src":"x","dest":"y"}]}`, jserr.MirrorMultipleFiltersNotAllowed,
			"mirror with multiple subject transforms cannot also have a single subject filter"},
		{`"mirror":{"name":"S","filter_subject":"a..b"}`, jserr.StreamCreate, "subject filter 'a..b' for the mirror invalid subject"},
		{`"mirror":{"name":"S","subject_transforms":[{"src":"a..b","dest":"y"}]}`, jserr.MirrorInvalidSubjectFilter, "mirror transform source: invalid subject a..b"},
		{`"mirror":{"name":"S","subject_transforms":[{"src":"a.*","dest":"y.{{wildcard(2)}}"}]}`, jserr.MirrorInvalidTransformDestination,
			"mirror transform: invalid mapping destination: wildcard index out of range in {{wildcard(2)}}: [2]"},
		{`"mirror":{"name":"S","subject_transforms":[{"src":"a.*","dest":"y"},{"src":"a.b","dest":"z"}]}`, jserr.MirrorOverlappingSubjectFilters,
			"mirror subject filters can not overlap"},
		{`"mirror":{"name":"S"},"max_msg_size":10`, jserr.MirrorMaxMessageSizeTooBig, "stream mirror must have max message size >= source"},
		{`"mirror":{"name":"S"},"subject_delete_marker_ttl":2000000000`, wrong, "subject delete markers forbidden on mirrors"},
		{`"mirror":{"name":"S","opt_start_seq":3,"opt_start_time":"2020-01-01T00:00:00Z"}`, 0, ""},
		{`"mirror":{"name":"M"}`, wrong, "detected cycle"},
		{`"mirror":{"name":"C1"}`, wrong, "detected cycle"},
		{`"mirror":{"name":"S","consumer":{"name":"","deliver_subject":"d"}}`, jserr.MirrorDurableConsumerCfgInvalid, "stream mirror consumer config is invalid"},
		{`"mirror":{"name":"S","consumer":{"name":"c","deliver_subject":"d.*"}}`, jserr.MirrorDurableConsumerCfgInvalid, "stream mirror consumer config is invalid"},
		{`"mirror":{"name":"S","consumer":{"name":"c","deliver_subject":"d"},"opt_start_seq":3}`, jserr.MirrorDurableConsumerCfgInvalid, "stream mirror consumer config is invalid"},
		{`"mirror":{"name":"S","external":{"api":"$JS.*.API","deliver":"d"}}`, wrong, `stream external api prefix "$JS.*.API" must be a valid subject without wildcards`},
		{`"mirror":{"name":"S","external":{"api":"$JS.API","deliver":"d"}}`, jserr.StreamExternalApiOverlap, "stream external api prefix $JS.API must not overlap with $JS.API"},
		{`"mirror":{"name":"S","external":{"api":"JS.acc","deliver":"d.*"}}`, jserr.StreamInvalidExternalDeliverySubj, "stream external delivery prefix d.* must not contain wildcards"},
		{`"mirror":{"name":"S"},"retention":"workqueue"`, 0, ""},
		{`"mirror_direct":true`, wrong, "stream has no mirror but does have mirror direct"},
		{`"sources":[{"name":"S"},{"name":"S"}]`, jserr.SourceDuplicateDetected, "duplicate source configuration detected"},
		{`"sources":[{"name":"S","filter_subject":"s.a"},{"name":"S","filter_subject":"s.b"}]`, 0, ""},
		{`"sources":[{"name":"S","filter_subject":"s.a"},{"name":"S","filter_subject":"s.a","opt_start_seq":3}]`, jserr.SourceDuplicateDetected, "duplicate source configuration detected"},
		{`"sources":[{"name":"a.b"}]`, jserr.SourceInvalidStreamName, "sourced stream name is invalid"},
		{`"sources":[{"name":"S","filter_subject":"a..b"}]`, jserr.StreamCreate, "subject filter 'a..b' for the source: invalid subject"},
		{`"sources":[{"name":"S","filter_subject":"a","subject_transforms":[{"src":"x","dest":"y"}]}]`, jserr.SourceMultipleFiltersNotAllowed,
			"source with multiple subject transforms cannot also have a single subject filter"},
		{`"sources":[{"name":"S","subject_transforms":[{"src":"x..","dest":"y"}]}]`, jserr.SourceInvalidSubjectFilter, "source transform source: invalid subject x.."},
		{`"sources":[{"name":"S","subject_transforms":[{"src":"x.*","dest":"y.*"}]}]`, jserr.SourceInvalidTransformDestination, "source transform: invalid subject"},
		{`"sources":[{"name":"S","subject_transforms":[{"src":"x.*","dest":""},{"src":"x.a","dest":""}]}]`, jserr.SourceOverlappingSubjectFilters, "source filters can not overlap"},
		{`"sources":[{"name":"S","subject_transforms":[{"src":"x.*","dest":""},{"src":"*.a","dest":""}]}]`, 0, ""},
		{`"sources":[{"name":"S"}],"max_msg_size":10`, jserr.SourceMaxMessageSizeTooBig, "stream source must have max message size >= target"},
		{`"sources":[{"name":"S","consumer":{"name":"c","deliver_subject":"d"}},{"name":"S","filter_subject":"s.x","consumer":{"name":"c","deliver_subject":"d"}}]`,
			jserr.SourceDurableConsumerCfgInvalid, "stream source consumer config is invalid"},
		{`"sources":[{"name":"S","consumer":{"name":"c","deliver_subject":"d"}},{"name":"S","subject_transforms":[{"src":"s.x","dest":"b"}],"consumer":{"name":"c","deliver_subject":"d"}}]`,
			jserr.SourceDurableConsumerDuplicateDetected, "duplicate stream source consumer detected"},
		{`"sources":[{"name":"M"}]`, wrong, "detected cycle"},
		{`"sources":[{"name":"C2"}],"subjects":["m"]`, wrong, "detected cycle"},
		{`"sources":[{"name":"M","filter_subject":"other"}],"subjects":["mine"]`, 0, ""},
		{`"sources":[{"name":"S"}],"subjects":["mine"],"allow_msg_schedules":true`, jserr.SourceWithMsgSchedules, "stream source can not also schedule messages"},
		{`"sources":[{"name":"S","external":{"api":"x","deliver":"s"}},{"name":"S"}],"subjects":["mine"]`, jserr.StreamExternalDelPrefixOverlaps,
			"stream external delivery prefix s overlaps with stream subject s.>"},
	} {
		var cfg api.StreamConfig
		if err := json.Unmarshal([]byte(`{"name":"M","storage":"file","num_replicas":1,`+c.cfg+`}`), &cfg); err != nil {
			t.Fatal(err)
		}
		cfg, err := CheckCreate(cfg, limits, false)
		if err == nil && c.text != "" {
			t.Errorf("%s: no error", c.cfg)
			continue
		}
		wantFault(t, err, c.code, c.text)
		if err != nil {
			continue
		}
		if cfg.Duplicates != 0 || cfg.Mirror != nil && (len(cfg.Subjects) > 0 || cfg.Mirror.External == nil && !cfg.MirrorDirect) {
			t.Errorf("%s: completed to %+v", c.cfg, cfg)
		}
	}
}

func TestAMirrorsOriginIsNotChanged(t *testing.T) {
	old := api.StreamConfig{Name: "M", Mirror: &api.StreamSource{Name: "S"}}
	for _, c := range []struct {
		mirror *api.StreamSource
		text   string
	}{
		{&api.StreamSource{Name: "S"}, ""},
		{nil, ""},
		{&api.StreamSource{Name: "T"}, "stream mirror configuration can not be updated"},
		{&api.StreamSource{Name: "S", FilterSubject: "a"}, "stream mirror configuration can not be updated"},
	} {
		cfg := old
		cfg.Mirror = c.mirror
		_, err := CheckUpdate(old, cfg)
		if (err != nil) != (c.text != "") {
			t.Errorf("%+v: %v", c.mirror, err)
		}
		wantFault(t, err, jserr.StreamMirrorNotUpdatable, c.text)
	}
}
