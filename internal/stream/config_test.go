package stream

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

func wantFault(t *testing.T, err error, code jserr.Code, text string) {
	t.Helper()
	var e *jserr.Error
	switch {
	case text == "" && err == nil:
	case !errors.As(err, &e):
		t.Errorf("error is %v, want %d %q", err, code, text)
	case e.Code != code || e.Description != text:
		t.Errorf("error is %d %q, want %d %q", e.Code, e.Description, code, text)
	}
}

// TestCheckConfig: codes and texts are those that nats-server 2.15.3 answers to the same requests.
func TestCheckConfig(t *testing.T) {
	const invalidConfig, pedantic = jserr.StreamInvalidConfig, jserr.Pedantic
	overlapJS := "subjects that overlap with jetstream api require no-ack to be true"
	overlapSys := "subjects that overlap with system api require no-ack to be true"
	window := Limits{Duplicates: time.Minute}
	for _, c := range []struct {
		name     string
		change   func(*api.StreamConfig)
		limits   Limits
		pedantic bool
		code     jserr.Code
		text     string
	}{
		{name: "plain", change: func(c *api.StreamConfig) {}},
		{name: "no name", change: func(c *api.StreamConfig) { c.Name = "" }, code: invalidConfig,
			text: `stream name is required and can not contain '.', '*', '>', '\', '/'`},
		{name: "dot", change: func(c *api.StreamConfig) { c.Name = "a.b" }, code: invalidConfig,
			text: `stream name is required and can not contain '.', '*', '>', '\', '/'`},
		{name: "long name", change: func(c *api.StreamConfig) { c.Name = strings.Repeat("n", 256) }, code: invalidConfig,
			text: "stream name is too long, maximum allowed is 255"},
		{name: "description", change: func(c *api.StreamConfig) { c.Description = strings.Repeat("d", 4097) }, code: invalidConfig,
			text: "stream description is too long, maximum allowed is 4096"},
		{name: "metadata", change: func(c *api.StreamConfig) { c.Metadata = map[string]string{"k": strings.Repeat("v", 128<<10)} },
			code: invalidConfig, text: "stream metadata exceeds maximum size of 131072 bytes"},
		{name: "retention", change: func(c *api.StreamConfig) { c.Retention = 9 }, code: invalidConfig, text: "invalid retention"},
		{name: "discard", change: func(c *api.StreamConfig) { c.Discard = 9 }, code: invalidConfig, text: "invalid discard policy"},
		{name: "compression", change: func(c *api.StreamConfig) { c.Compression = 9 }, code: invalidConfig, text: "invalid compression"},
		{name: "storage", change: func(c *api.StreamConfig) { c.Storage = 9 }, code: invalidConfig, text: "invalid storage type"},
		{name: "s2", change: func(c *api.StreamConfig) { c.Compression = api.S2Compression }},
		{name: "5 replicas", change: func(c *api.StreamConfig) { c.Replicas = 5 }},
		{name: "6 replicas", change: func(c *api.StreamConfig) { c.Replicas = 6 }, code: invalidConfig, text: "maximum replicas is 5"},
		{name: "-1 replicas", change: func(c *api.StreamConfig) { c.Replicas = -1 }, code: jserr.ReplicasCountCannotBeNegative,
			text: "replicas count cannot be negative"},
		{name: "max_msgs", change: func(c *api.StreamConfig) { c.MaxMsgs = -2 }},
		{name: "max_msgs, pedantic", change: func(c *api.StreamConfig) { c.MaxMsgs = -2 }, pedantic: true, code: pedantic,
			text: "pedantic mode: max_msgs must be set to -1"},
		{name: "max_consumers, pedantic", change: func(c *api.StreamConfig) { c.MaxConsumers = -2 }, pedantic: true, code: pedantic,
			text: "pedantic mode: max_consumers must be set to -1"},
		{name: "age", change: func(c *api.StreamConfig) { c.MaxAge = -1 }, code: invalidConfig, text: "max age can not be negative"},
		{name: "short age", change: func(c *api.StreamConfig) { c.MaxAge = time.Millisecond }, code: invalidConfig, text: "max age needs to be >= 100ms"},
		{name: "window", change: func(c *api.StreamConfig) { c.Duplicates = -1 }, code: invalidConfig, text: "duplicates window can not be negative"},
		{name: "short window", change: func(c *api.StreamConfig) { c.Duplicates = time.Millisecond }, code: invalidConfig,
			text: "duplicates window needs to be >= 100ms"},
		{name: "window beyond age", change: func(c *api.StreamConfig) { c.MaxAge, c.Duplicates = time.Second, time.Minute }, code: invalidConfig,
			text: "duplicates window can not be larger then max age"},
		{name: "window beyond limit", change: func(c *api.StreamConfig) { c.Duplicates = time.Hour }, limits: window, code: invalidConfig,
			text: "duplicates window can not be larger then server limit of 1m0s"},
		{name: "default window beyond age", change: func(c *api.StreamConfig) { c.MaxAge = time.Second }, pedantic: true, code: pedantic,
			text: "pedantic mode: duplicate window cannot be bigger than max age"},
		{name: "default window beyond limit", change: func(c *api.StreamConfig) {}, limits: window, pedantic: true, code: pedantic,
			text: "pedantic mode: duplicate window limits are higher than current limits"},
		{name: "rollup without purge", change: func(c *api.StreamConfig) { c.RollupAllowed, c.DenyPurge = true, true }, code: invalidConfig,
			text: "roll-ups require the purge permission"},
		{name: "discard new per subject", change: func(c *api.StreamConfig) { c.DiscardNewPer = true }, code: invalidConfig,
			text: "discard new per subject requires discard new policy to be set"},
		{name: "discard new per subject without limit", change: func(c *api.StreamConfig) { c.DiscardNewPer, c.Discard = true, api.DiscardNew },
			code: invalidConfig, text: "discard new per subject requires max msgs per subject > 0"},
		{name: "async in memory", change: func(c *api.StreamConfig) { c.PersistMode, c.Storage = api.AsyncPersistMode, api.MemoryStorage },
			code: invalidConfig, text: "async persist mode is only supported on file storage"},
		{name: "async, replicated", change: func(c *api.StreamConfig) { c.PersistMode, c.Replicas = api.AsyncPersistMode, 3 },
			code: invalidConfig, text: "async persist mode is not supported on replicated streams"},
		{name: "empty token", change: func(c *api.StreamConfig) { c.Subjects = []string{"a..b"} }, code: invalidConfig, text: "invalid subject"},
		{name: "duplicate", change: func(c *api.StreamConfig) { c.Subjects = []string{"a", "b", "a"} }, code: invalidConfig, text: `subject "a" overlaps with "a"`},
		{name: "overlap", change: func(c *api.StreamConfig) { c.Subjects = []string{"a.*", "a.b"} }, code: invalidConfig, text: `subject "a.*" overlaps with "a.b"`},
		{name: "everything", change: func(c *api.StreamConfig) { c.Subjects = []string{">"} }, code: invalidConfig,
			text: "capturing all subjects requires no-ack to be true"},
		{name: "everything, replicated", change: func(c *api.StreamConfig) { c.Subjects, c.NoAck, c.Replicas = []string{">"}, true, 3 },
			code: invalidConfig, text: "capturing all subjects requires replicas of 1"},
		{name: "everything without ack", change: func(c *api.StreamConfig) { c.Subjects, c.NoAck = []string{">"}, true }},
		{name: "api", change: func(c *api.StreamConfig) { c.Subjects = []string{"$JS.API.>"} }, code: invalidConfig, text: overlapJS},
		{name: "api by wildcard", change: func(c *api.StreamConfig) { c.Subjects = []string{"*.API.x"} }, code: invalidConfig, text: overlapJS},
		{name: "events", change: func(c *api.StreamConfig) { c.Subjects = []string{"$JS.EVENT.ADVISORY.>"} }},
		{name: "system", change: func(c *api.StreamConfig) { c.Subjects = []string{"$SYS.>"} }, code: invalidConfig, text: overlapSys},
		{name: "account events", change: func(c *api.StreamConfig) { c.Subjects = []string{"$SYS.ACCOUNT.*.CONNECT"} }},
		{name: "bytes required", change: func(c *api.StreamConfig) {}, limits: Limits{MaxBytesRequired: true}, code: jserr.StreamMaxBytesRequired,
			text: "account requires a stream config to have max bytes set"},
		{name: "bytes limited", change: func(c *api.StreamConfig) { c.MaxBytes = 11 }, limits: Limits{StoreMaxStreamBytes: 10},
			code: jserr.StreamMaxStreamBytesExceeded, text: "stream max bytes exceeds account limit max stream bytes"},
		{name: "memory limited", change: func(c *api.StreamConfig) { c.MaxBytes = 11 }, limits: Limits{MemoryMaxStreamBytes: 10}},
		{name: "interest", change: func(c *api.StreamConfig) { c.Retention = api.InterestPolicy }, code: invalidConfig,
			text: "interest retention is not supported"},
		{name: "work queue", change: func(c *api.StreamConfig) { c.Retention = api.WorkQueuePolicy }, limits: Limits{Settles: true}},
		{name: "preferred", change: func(c *api.StreamConfig) { c.Placement = &api.Placement{Preferred: "n"} }, code: invalidConfig,
			text: "preferred server not permitted in placement"},
		{name: "republish from nowhere", change: func(c *api.StreamConfig) { c.RePublish = &api.RePublish{Destination: "x.>"} }, pedantic: true,
			code: pedantic, text: "pedantic mode: republish source can not be empty"},
		{name: "republish into itself", change: func(c *api.StreamConfig) { c.RePublish = &api.RePublish{Destination: ">"} }, code: invalidConfig,
			text: "stream configuration for republish destination forms a cycle"},
		{name: "republish", change: func(c *api.StreamConfig) { c.RePublish = &api.RePublish{Source: "a.*", Destination: "x.*"} }, code: invalidConfig,
			text: "stream configuration for republish with transform from 'a.*' to 'x.*' not valid"},
		{name: "transform source", change: func(c *api.StreamConfig) {
			c.SubjectTransform = &api.SubjectTransformConfig{Source: "a..b", Destination: "x"}
		}, code: jserr.StreamTransformInvalidSource, text: "stream transform source: invalid subject a..b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := api.StreamConfig{Name: "S"}
			c.change(&cfg)
			_, err := CheckConfig(cfg, c.limits, c.pedantic)
			wantFault(t, err, c.code, c.text)
		})
	}
}

func TestCheckConfigDefaults(t *testing.T) {
	asked := api.StreamConfig{Name: "S", MaxAge: time.Second, Placement: &api.Placement{}, Metadata: map[string]string{"k": "v", "_nats.ver": "x"}}
	cfg, err := CheckConfig(asked, Limits{}, false)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case len(cfg.Subjects) != 1 || cfg.Subjects[0] != "S":
		t.Errorf("subjects are %v", cfg.Subjects)
	case cfg.MaxMsgs != -1 || cfg.MaxBytes != -1 || cfg.MaxMsgsPer != -1 || cfg.MaxMsgSize != -1 || cfg.MaxConsumers != -1 || cfg.Replicas != 1:
		t.Errorf("limits are %+v", cfg)
	case cfg.Duplicates != time.Second:
		t.Errorf("duplicate window is %v", cfg.Duplicates)
	case cfg.Placement != nil:
		t.Errorf("placement is %v", cfg.Placement)
	case len(cfg.Metadata) != 2 || cfg.Metadata[MetadataLevel] != "0" || cfg.Metadata["k"] != "v":
		t.Errorf("metadata is %v", cfg.Metadata)
	case asked.Metadata["_nats.ver"] != "x" || asked.Placement == nil || asked.Subjects != nil:
		t.Errorf("what was asked has changed: %+v", asked)
	}
}

func TestCheckUpdate(t *testing.T) {
	text := "stream configuration update can not "
	for _, c := range []struct {
		name     string
		old, new func(*api.StreamConfig)
		text     string
	}{
		{name: "name", new: func(c *api.StreamConfig) { c.Name = "T" }, text: "stream configuration name must match original"},
		{name: "storage", new: func(c *api.StreamConfig) { c.Storage = api.MemoryStorage }, text: text + "change storage type"},
		{name: "to work queue", new: func(c *api.StreamConfig) { c.Retention = api.WorkQueuePolicy }, text: text + "change retention policy to/from workqueue"},
		{name: "to interest", new: func(c *api.StreamConfig) { c.Retention = api.InterestPolicy }},
		{name: "unseal", old: func(c *api.StreamConfig) { c.Sealed = true }, text: text + "unseal a sealed stream"},
		{name: "deny delete", old: func(c *api.StreamConfig) { c.DenyDelete = true }, text: text + "cancel deny message deletes"},
		{name: "deny purge", old: func(c *api.StreamConfig) { c.DenyPurge = true }, text: text + "cancel deny purge"},
		{name: "persist mode", new: func(c *api.StreamConfig) { c.PersistMode = api.AsyncPersistMode }, text: text + "change persist mode"},
		{name: "limits", new: func(c *api.StreamConfig) { c.MaxMsgs, c.MaxAge = 5, time.Hour }},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, changed := api.StreamConfig{Name: "S"}, api.StreamConfig{Name: "S"}
			if c.old != nil {
				c.old(&old)
			}
			if c.new != nil {
				c.new(&changed)
			}
			_, err := CheckUpdate(old, changed)
			wantFault(t, err, jserr.StreamInvalidConfig, c.text)
		})
	}
	sealed, err := CheckUpdate(api.StreamConfig{}, api.StreamConfig{Sealed: true, MaxAge: time.Hour, RollupAllowed: true})
	if err != nil || sealed.MaxAge != 0 || !sealed.DenyDelete || !sealed.DenyPurge || sealed.RollupAllowed || sealed.Discard != api.DiscardNew {
		t.Errorf("sealing gives %+v, %v", sealed, err)
	}
}

func TestIdentical(t *testing.T) {
	check := func(cfg api.StreamConfig) api.StreamConfig {
		cfg.Name = "S"
		cfg, err := CheckConfig(cfg, Limits{}, false)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	a := check(api.StreamConfig{})
	for _, c := range []struct {
		name string
		cfg  api.StreamConfig
		want bool
	}{
		{"same", api.StreamConfig{}, true},
		{"default written out", api.StreamConfig{Subjects: []string{"S"}, MaxMsgs: -1, Replicas: 1, Duplicates: 2 * time.Minute}, true},
		{"server's metadata", api.StreamConfig{Metadata: map[string]string{"_nats.level": "9", "_nats.req.level": "3"}}, true},
		{"metadata", api.StreamConfig{Metadata: map[string]string{"a": "b"}}, false},
		{"limit", api.StreamConfig{MaxMsgs: 3}, false},
		{"subject", api.StreamConfig{Subjects: []string{"s"}}, false},
	} {
		if got := Identical(a, check(c.cfg)); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
