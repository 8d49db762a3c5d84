package engine

import (
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
)

// OriginInfo is how an origin stands, as in stream infos.
type OriginInfo struct {
	Name              string                       `json:"name"`
	External          *api.ExternalStream          `json:"external,omitempty"`
	Lag               uint64                       `json:"lag"`
	Seq               uint64                       `json:"seq,omitempty"`
	Active            time.Duration                `json:"active"` // since it was last heard of; -1: never
	Error             *api.ApiError                `json:"error,omitempty"`
	FilterSubject     string                       `json:"filter_subject,omitempty"`
	SubjectTransforms []api.SubjectTransformConfig `json:"subject_transforms,omitempty"`
}

func (o *origin) info(now time.Time) *OriginInfo {
	i := &OriginInfo{Name: o.cfg.Name, External: o.cfg.External, Lag: o.lag, Active: -1, FilterSubject: o.cfg.FilterSubject, SubjectTransforms: o.cfg.SubjectTransforms}
	if o.met {
		i.Active = max(now.Sub(time.Unix(0, o.heard.Load())), 0)
	}
	if o.fault != nil {
		i.Error = o.fault.API()
	}
	if !o.mirror {
		i.Seq = o.stream.state.Source(o.key).Seq
	}
	return i
}

// originInfos are those of the mirror and of the sources.
func (s *Stream) originInfos() (mirror *OriginInfo, sources []*OriginInfo) {
	for _, o := range s.origins {
		if o.mirror {
			return o.info(time.Now()), nil
		}
		sources = append(sources, o.info(time.Now()))
	}
	return nil, sources
}

func (s *Stream) sourcesBody() record.StreamSourcesBody {
	body := record.StreamSourcesBody{Sources: map[string]record.SourcePosition{}}
	for key, at := range s.state.Sources() {
		body.Sources[key] = record.SourcePosition(at)
	}
	return body
}

func (s *Stream) restoreSources(body *record.StreamSourcesBody) {
	all := map[string]stream.SourcePosition{}
	for key, at := range body.Sources {
		all[key] = stream.SourcePosition(at)
	}
	s.state.SetSources(all)
}
