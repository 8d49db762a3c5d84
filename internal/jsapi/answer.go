package jsapi

import (
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/version"
)

// schema is the prefix of every answer's type.
const schema = "io.nats.jetstream.api.v1."

// head begins every answer.
type head struct {
	Type  string        `json:"type"`
	Error *api.ApiError `json:"error,omitempty"`
}

// full is an answer with more than its body.
type full struct {
	answer any
	header []byte // a whole header block, or empty
	after  func() // what is to happen once the answer is out, or nil
}

// success answers requests that only did something.
type success struct {
	head
	Success bool `json:"success"`
}

func done(kind string) success { return success{head{Type: schema + kind}, true} }

// page is the place of an answer in a long list.
type page struct {
	Total  int `json:"total"`
	Offset int `json:"offset"`
	Limit  int `json:"limit"`
}

const (
	// namesPage and listPage are how many names, and how many infos, one answer holds: as in NATS.
	namesPage = 1024
	listPage  = 256
)

// cut takes one page out of a list.
func cut[T any](all []T, offset, limit int) ([]T, page) {
	begin := min(max(offset, 0), len(all))
	if len(all) == 0 {
		all = []T{} // a list in JSON, not null
	}
	return all[begin:min(begin+limit, len(all))], page{Total: len(all), Offset: begin, Limit: limit}
}

// consumerInfo is api.ConsumerInfo without the fields that NATS leaves out when they say nothing.
type consumerInfo struct {
	api.ConsumerInfo
	Config consumerConfig `json:"config"`
}

type consumerConfig struct {
	api.ConsumerConfig
	PauseUntil *time.Time `json:"pause_until,omitempty"`
}

func toConsumerInfo(i api.ConsumerInfo) consumerInfo {
	i.Config.Metadata = leveled(i.Config.Metadata, consumerLevel(&i.Config))
	c := consumerConfig{ConsumerConfig: i.Config}
	if !i.Config.PauseUntil.IsZero() {
		c.PauseUntil = &i.Config.PauseUntil
	}
	return consumerInfo{i, c}
}

// consumerLevel is the level of the API that a consumer's configuration needs (ADR-44).
func consumerLevel(cfg *api.ConsumerConfig) string {
	if cfg.AckPolicy == api.AckFlowControl {
		return "4"
	}
	if !cfg.PauseUntil.IsZero() || cfg.PriorityPolicy != api.PriorityNone || cfg.PinnedTTL != 0 || len(cfg.PriorityGroups) > 0 {
		return "1"
	}
	return "0"
}

// leveled adds what answers say of versions to an asset's metadata: the level that it needs, if that is not noted yet,
// and the server's own version and level.
func leveled(metadata map[string]string, level string) map[string]string {
	m := make(map[string]string, len(metadata)+3)
	m[api.JsMetaRequiredServerLevel] = level
	maps.Copy(m, metadata)
	m[api.JSMetaCurrentServerVersion] = version.NATS
	m[api.JSMetaCurrentServerLevel] = strconv.Itoa(version.APILevel)
	return m
}

// listed takes the server's own version and level out of metadata: lists do without.
func listed(metadata map[string]string) {
	delete(metadata, api.JSMetaCurrentServerVersion)
	delete(metadata, api.JSMetaCurrentServerLevel)
}

// streamConfig is api.StreamConfig with the fields that NATS always tells.
type streamConfig struct {
	api.StreamConfig
	Compression api.Compression `json:"compression"`
	AllowMsgTTL bool            `json:"allow_msg_ttl"`
}

func toStreamConfig(cfg api.StreamConfig) streamConfig {
	return streamConfig{cfg, cfg.Compression, cfg.AllowMsgTTL}
}

// streamInfo is api.StreamInfo as answers carry it.
type streamInfo struct {
	api.StreamInfo
	Config  streamConfig         `json:"config"`
	Mirror  *engine.OriginInfo   `json:"mirror,omitempty"`
	Sources []*engine.OriginInfo `json:"sources,omitempty"`
}

// streamInfoOf is a stream's info as answers carry it.
func streamInfoOf(i *engine.Info) *streamInfo {
	info := streamInfo{StreamInfo: i.StreamInfo, Config: toStreamConfig(i.Config), Mirror: i.Mirror, Sources: i.Sources}
	info.Config.Metadata = leveled(info.Config.Metadata, "0")
	return &info
}
