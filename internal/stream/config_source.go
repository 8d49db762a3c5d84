package stream

import (
	"strings"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/subject"
)

// The checks of a configuration that takes its messages from other streams, with the errors of nats-server.

// sources is what a stream takes from others: its mirror, or its sources.
func sources(cfg *api.StreamConfig) bool { return cfg.Mirror != nil || len(cfg.Sources) > 0 }

func checkMirror(cfg *api.StreamConfig, limits Limits, pedantic bool) error {
	m := cfg.Mirror
	if m == nil {
		return nil
	}
	for _, c := range []struct {
		wrong bool
		code  jserr.Code
	}{
		{cfg.FirstSeq > 0, jserr.MirrorWithFirstSeq},
		{len(cfg.Subjects) > 0, jserr.MirrorWithSubjects},
		{len(cfg.Sources) > 0, jserr.MirrorWithSources},
		{cfg.AllowMsgCounter, jserr.MirrorWithCounters},
		{cfg.AllowAtomicPublish, jserr.MirrorWithAtomicPublish},
		{cfg.AllowBatchPublish, jserr.MirrorWithBatchPublish},
		{cfg.AllowMsgSchedules, jserr.MirrorWithMsgSchedules},
		{!validReader(m), jserr.MirrorDurableConsumerCfgInvalid},
		{m.FilterSubject != "" && len(m.SubjectTransforms) > 0, jserr.MirrorMultipleFiltersNotAllowed},
	} {
		if c.wrong {
			return jserr.New(c.code)
		}
	}
	if cfg.SubjectDeleteMarkerTTL > 0 {
		return invalid("subject delete markers forbidden on mirrors")
	}
	if err := checkMirrorFilters(m); err != nil {
		return err
	}
	if m.External != nil {
		return nil
	}
	if !validName(m.Name) {
		return jserr.New(jserr.MirrorInvalidStreamName)
	}
	origin, ok := limits.lookup(m.Name)
	switch {
	case !ok:
		return nil
	case smaller(cfg, &origin):
		return jserr.New(jserr.MirrorMaxMessageSizeTooBig)
	case pedantic && cfg.MirrorDirect != origin.AllowDirect:
		return notPedantic("origin stream has direct get set, mirror has it disabled")
	}
	cfg.MirrorDirect = origin.AllowDirect
	return nil
}

func checkMirrorFilters(m *api.StreamSource) error {
	for i, t := range m.SubjectTransforms {
		if t.Source != "" && !subject.Valid(t.Source) {
			return jserr.New(jserr.MirrorInvalidSubjectFilter, "err", "invalid subject "+t.Source)
		}
		if _, err := subject.NewTransform(t.Source, t.Destination); err != nil {
			return jserr.New(jserr.MirrorInvalidTransformDestination, "err", transformFault(err))
		}
		for k, other := range m.SubjectTransforms {
			if k != i && subject.Overlap(orAll(t.Source), orAll(other.Source)) {
				return jserr.New(jserr.MirrorOverlappingSubjectFilters)
			}
		}
	}
	if m.FilterSubject != "" && !subject.Valid(m.FilterSubject) {
		return jserr.New(jserr.StreamCreate, "err", "subject filter '"+m.FilterSubject+"' for the mirror invalid subject")
	}
	return nil
}

func checkSources(cfg *api.StreamConfig, limits Limits, _ bool) error {
	if len(cfg.Sources) > 0 && cfg.AllowMsgSchedules {
		return jserr.New(jserr.SourceWithMsgSchedules)
	}
	keys, readers := map[string]bool{}, map[string]bool{}
	for _, src := range cfg.Sources {
		if src == nil || !validName(src.Name) {
			return jserr.New(jserr.SourceInvalidStreamName)
		}
		key := SourceKey(src)
		if keys[key] {
			return jserr.New(jserr.SourceDuplicateDetected)
		}
		keys[key] = true
		if err := checkSourceFilters(src); err != nil {
			return err
		}
		if src.Consumer != nil {
			reader := sourceName(src) + " " + src.Consumer.Name
			switch {
			case !validReader(src):
				return jserr.New(jserr.SourceDurableConsumerCfgInvalid)
			case readers[reader]:
				return jserr.New(jserr.SourceDurableConsumerDuplicateDetected)
			}
			readers[reader] = true
		}
		if src.External != nil {
			continue
		}
		if origin, ok := limits.lookup(src.Name); ok && smaller(cfg, &origin) {
			return jserr.New(jserr.SourceMaxMessageSizeTooBig)
		}
	}
	return nil
}

func checkSourceFilters(src *api.StreamSource) error {
	if src.FilterSubject != "" && len(src.SubjectTransforms) > 0 {
		return jserr.New(jserr.SourceMultipleFiltersNotAllowed)
	}
	for _, t := range src.SubjectTransforms {
		if t.Source != "" && !subject.Valid(t.Source) {
			return jserr.New(jserr.SourceInvalidSubjectFilter, "err", "invalid subject "+t.Source)
		}
		if _, err := subject.NewTransform(t.Source, t.Destination); err != nil {
			return jserr.New(jserr.SourceInvalidTransformDestination, "err", transformFault(err))
		}
	}
	for i, t := range src.SubjectTransforms {
		for k, other := range src.SubjectTransforms {
			if k != i && subject.IsSubset(orAll(t.Source), orAll(other.Source)) {
				return jserr.New(jserr.SourceOverlappingSubjectFilters)
			}
		}
	}
	if src.FilterSubject != "" && !subject.Valid(src.FilterSubject) {
		return jserr.New(jserr.StreamCreate, "err", "subject filter '"+src.FilterSubject+"' for the source: invalid subject")
	}
	return nil
}

func orAll(filter string) string {
	if filter == "" {
		return everySubject
	}
	return filter
}

// validReader checks the consumer that a source names to be read through, if it does.
func validReader(src *api.StreamSource) bool {
	c := src.Consumer
	return c == nil || validName(c.Name) && subject.ValidLiteral(c.DeliverSubject) &&
		src.OptStartSeq == 0 && src.OptStartTime == nil && src.FilterSubject == ""
}

func validName(name string) bool { return name != "" && !strings.ContainsAny(name, " \t\r\n\f.*>\\/") }

// smaller reports whether a stream takes smaller messages than its origin.
func smaller(cfg, origin *api.StreamConfig) bool {
	return cfg.MaxMsgSize > 0 && origin.MaxMsgSize > 0 && cfg.MaxMsgSize < origin.MaxMsgSize
}

// checkExternal checks the prefixes of streams in other accounts and domains.
func checkExternal(cfg *api.StreamConfig, limits Limits, _ bool) error {
	const apiPrefix = "$JS.API"
	var listened []string // by the origins of this account
	for _, src := range origins(cfg) {
		if src.External == nil {
			if origin, ok := limits.lookup(src.Name); ok {
				listened = append(listened, origin.Subjects...)
			}
		}
	}
	for _, src := range origins(cfg) {
		if src.External == nil || src.External.DeliverPrefix == "" {
			continue
		}
		prefix := src.External.DeliverPrefix
		if !subject.ValidPublish(prefix) {
			return jserr.New(jserr.StreamInvalidExternalDeliverySubj, "prefix", prefix)
		}
		for _, s := range listened {
			if subject.Overlap(s, prefix+"."+s) {
				return jserr.New(jserr.StreamExternalDelPrefixOverlaps, "prefix", prefix, "subject", s)
			}
		}
	}
	for _, src := range origins(cfg) {
		if src.External == nil || src.External.ApiPrefix == "" {
			continue
		}
		prefix := src.External.ApiPrefix
		if !subject.ValidPublish(prefix) {
			return invalid("stream external api prefix %q must be a valid subject without wildcards", prefix)
		}
		if subject.Overlap(prefix, apiPrefix) {
			return jserr.New(jserr.StreamExternalApiOverlap, "prefix", prefix, "subject", apiPrefix)
		}
	}
	return nil
}

// origins are the streams that a configuration takes messages from.
func origins(cfg *api.StreamConfig) []*api.StreamSource {
	if cfg.Mirror != nil {
		return []*api.StreamSource{cfg.Mirror}
	}
	return cfg.Sources
}

// checkCycles refuses a stream that would get its own messages back. As in nats-server, two streams that source each
// other are no cycle where the filter of one lets nothing pass that the other listens on.
func checkCycles(cfg *api.StreamConfig, limits Limits, _ bool) error {
	visited := map[string]bool{}
	for visit := []api.StreamConfig{*cfg}; len(visit) > 0; {
		at := visit[0]
		visit = visit[1:]
		visited[at.Name] = true
		for _, src := range origins(&at) {
			if src.External != nil {
				continue
			}
			if !visited[src.Name] {
				if next, ok := limits.lookup(src.Name); ok {
					visit = append(visit, next)
				}
				continue
			}
			if at.Mirror != nil || src.FilterSubject == "" || anyOverlaps(at.Subjects, src.FilterSubject) {
				return invalid("detected cycle")
			}
		}
	}
	return nil
}

func anyOverlaps(subjects []string, filter string) bool {
	for _, s := range subjects {
		if subject.Overlap(s, filter) {
			return true
		}
	}
	return false
}
