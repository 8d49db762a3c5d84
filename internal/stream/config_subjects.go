package stream

import (
	"slices"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/subject"
)

const everySubject = ">"

// reserved are the subjects of the server's own API. A stream that acknowledges publishes must not hear them, except
// the part in allowed.
var reserved = []struct{ space, allowed, text string }{
	{"$JS.>", "$JS.EVENT.>", "subjects that overlap with jetstream api require no-ack to be true"},
	{"$JSC.>", "$JS.EVENT.>", "subjects that overlap with jetstream api require no-ack to be true"},
	{"$NRG.>", "$JS.EVENT.>", "subjects that overlap with jetstream api require no-ack to be true"},
	{"$SYS.>", "$SYS.ACCOUNT.>", "subjects that overlap with system api require no-ack to be true"},
}

func checkSubjects(cfg *api.StreamConfig, _ Limits, _ bool) error {
	if len(cfg.Subjects) == 0 {
		if !sources(cfg) {
			cfg.Subjects = []string{cfg.Name}
		}
		return nil
	}
	for i, s := range cfg.Subjects {
		if !subject.Valid(s) {
			return invalid("invalid subject")
		}
		if slices.Contains(cfg.Subjects[:i], s) {
			return invalid("duplicate subjects detected")
		}
		if err := checkCapture(cfg, s); err != nil {
			return err
		}
		for _, other := range cfg.Subjects[i+1:] {
			if subject.Overlap(s, other) {
				return invalid("subject %q overlaps with %q", s, other)
			}
		}
	}
	return nil
}

// checkCapture refuses a subject that hears what is not the users'.
func checkCapture(cfg *api.StreamConfig, s string) error {
	if s == everySubject {
		if !cfg.NoAck {
			return invalid("capturing all subjects requires no-ack to be true")
		}
		if cfg.Replicas != 1 {
			return invalid("capturing all subjects requires replicas of 1")
		}
	}
	if cfg.NoAck {
		return nil
	}
	for _, r := range reserved {
		if subject.Overlap(s, r.space) && !subject.IsSubset(s, r.allowed) {
			return invalid("%s", r.text)
		}
	}
	return nil
}

func checkTransforms(cfg *api.StreamConfig, _ Limits, pedantic bool) error {
	if t := cfg.SubjectTransform; t != nil {
		if t.Source != "" && !subject.Valid(t.Source) {
			return jserr.New(jserr.StreamTransformInvalidSource, "err", "invalid subject "+t.Source)
		}
		if _, err := subject.NewTransform(t.Source, t.Destination); err != nil {
			return jserr.New(jserr.StreamTransformInvalidDestination, "err", transformFault(err))
		}
	}
	if cfg.RePublish == nil {
		return nil
	}
	if err := completeRepublish(cfg, pedantic); err != nil {
		return err
	}
	r := cfg.RePublish
	for _, s := range cfg.Subjects {
		if subject.Overlap(r.Destination, s) {
			return invalid("stream configuration for republish destination forms a cycle")
		}
	}
	if r.Destination == "" { // nothing goes out
		return nil
	}
	if _, err := subject.NewTransform(r.Source, r.Destination); err != nil {
		return invalid("stream configuration for republish with transform from '%s' to '%s' not valid", r.Source, r.Destination)
	}
	return nil
}

func completeRepublish(cfg *api.StreamConfig, pedantic bool) error {
	r, t := cfg.RePublish, cfg.SubjectTransform
	if r.Source == "" {
		if pedantic {
			return notPedantic("republish source can not be empty")
		}
		r.Source = everySubject
	}
	// From everything to everything would be a cycle, but for a stream whose only subject is transformed it means
	// that what is stored goes out under the subject that it is stored under.
	if r.Destination == everySubject && r.Source == everySubject && t != nil && len(cfg.Subjects) == 1 && t.Source == cfg.Subjects[0] {
		if pedantic {
			return notPedantic("implicit republish based on subject transform")
		}
		r.Source, r.Destination = t.Destination, t.Destination
	}
	return nil
}
