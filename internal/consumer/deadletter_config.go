package consumer

import (
	"fmt"
	"strings"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/subject"
)

// Metadata of a dead-letter policy: on a consumer, or on a stream as the default of its consumers.
const (
	// MetadataDeadLetter is the subject that dead letters go to. It may hold the tokens {{stream}}, {{consumer}} and
	// {{subject}}. Empty on a consumer, it switches the stream's default off.
	MetadataDeadLetter = "sluice.dead_letter"
	// MetadataDeadLetterOn lists what makes a message a dead letter: max_deliver, term. Without it both do.
	MetadataDeadLetterOn = "sluice.dead_letter.on"
)

// maxDeadLetterSubject bounds the subject of a policy, in bytes.
const maxDeadLetterSubject = 255

// DeathCause says what made a message a dead letter. The values are bits, and part of the form of progress.
type DeathCause uint8

const (
	// DeadMaxDeliver: it was delivered max_deliver times and not acknowledged.
	DeadMaxDeliver DeathCause = 1
	// DeadTerm: a client sent +TERM.
	DeadTerm DeathCause = 2
)

// String is the cause as metadata and headers name it.
func (d DeathCause) String() string {
	switch d {
	case DeadMaxDeliver:
		return "max_deliver"
	case DeadTerm:
		return "term"
	}
	return fmt.Sprintf("DeathCause(%d)", uint8(d))
}

// DeadLetterPolicy says which messages become dead letters, and where they go. The zero policy makes none.
type DeadLetterPolicy struct {
	template string
	causes   DeathCause // a set
}

// Causes is the set of what makes a message a dead letter; 0: nothing does.
func (p DeadLetterPolicy) Causes() DeathCause { return p.causes }

// Subject is where the letter of a message of a subject goes; ok is false when nothing may go there.
func (p DeadLetterPolicy) Subject(stream, consumer, subj string) (_ string, ok bool) {
	to := p.template
	if strings.Contains(to, "{{") {
		to = strings.NewReplacer("{{stream}}", stream, "{{consumer}}", consumer, "{{subject}}", subj).Replace(to)
	}
	return to, subject.ValidLiteral(to) && !serverSubject(to)
}

// serverSubject reports whether a subject is one of those that the server itself listens on.
func serverSubject(subj string) bool {
	return strings.HasPrefix(subj, "$JS.") || strings.HasPrefix(subj, "$SYS.")
}

// DeadLetters is the policy that a consumer lives by: its own, or the default of its stream. Metadata that
// CheckConfig or CheckStreamDeadLetter would refuse makes no policy.
func DeadLetters(stream map[string]string, cfg *api.ConsumerConfig) DeadLetterPolicy {
	if !settlesOneByOne(cfg) {
		return DeadLetterPolicy{}
	}
	metadata := cfg.Metadata
	if _, own := metadata[MetadataDeadLetter]; !own {
		metadata = stream
		if on, own := cfg.Metadata[MetadataDeadLetterOn]; own {
			metadata = map[string]string{MetadataDeadLetter: stream[MetadataDeadLetter], MetadataDeadLetterOn: on}
		}
	}
	p, err := parseDeadLetter(metadata)
	if err != nil {
		return DeadLetterPolicy{}
	}
	return p
}

// settlesOneByOne reports whether a consumer has messages that are given up.
func settlesOneByOne(cfg *api.ConsumerConfig) bool {
	return (cfg.AckPolicy == api.AckExplicit || cfg.AckPolicy == api.AckAll) && !cfg.Direct && !cfg.Sourcing
}

// checkDeadLetter refuses a consumer's dead-letter metadata that is not valid.
func checkDeadLetter(cfg *api.ConsumerConfig, _ *api.StreamConfig, _ Limits) error {
	p, err := parseDeadLetter(cfg.Metadata)
	if err == nil && p.causes != 0 && !settlesOneByOne(cfg) {
		err = fmt.Errorf("%s needs an ack policy of explicit or all", MetadataDeadLetter)
	}
	if err != nil {
		return jserr.New(jserr.ConsumerCreate, "err", err)
	}
	return nil
}

// CheckStreamDeadLetter refuses a stream's dead-letter metadata that is not valid; the error is a *jserr.Error.
func CheckStreamDeadLetter(cfg *api.StreamConfig) error {
	if _, err := parseDeadLetter(cfg.Metadata); err != nil {
		return jserr.New(jserr.StreamInvalidConfig, "err", err)
	}
	return nil
}

// parseDeadLetter reads a policy out of metadata; none is the zero policy.
func parseDeadLetter(metadata map[string]string) (p DeadLetterPolicy, err error) {
	causes := DeadMaxDeliver | DeadTerm
	if on, ok := metadata[MetadataDeadLetterOn]; ok {
		if causes, err = parseCauses(on); err != nil {
			return p, err
		}
	}
	template := metadata[MetadataDeadLetter]
	if template == "" {
		return p, nil
	}
	plain := strings.NewReplacer("{{stream}}", "s", "{{consumer}}", "c", "{{subject}}", "t").Replace(template)
	switch {
	case len(template) > maxDeadLetterSubject:
		return p, fmt.Errorf("%s is longer than %d bytes", MetadataDeadLetter, maxDeadLetterSubject)
	case strings.Contains(plain, "{{") || strings.Contains(plain, "}}"):
		return p, fmt.Errorf("%s %q has an unknown token; known are {{stream}}, {{consumer}} and {{subject}}", MetadataDeadLetter, template)
	case !subject.ValidLiteral(plain) || strings.ContainsAny(plain, " \t\r\n\f"):
		return p, fmt.Errorf("%s %q is not a valid subject without wildcards", MetadataDeadLetter, template)
	case serverSubject(plain):
		return p, fmt.Errorf("%s %q is a subject of the server", MetadataDeadLetter, template)
	}
	return DeadLetterPolicy{template: template, causes: causes}, nil
}

func parseCauses(list string) (causes DeathCause, err error) {
	for word := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(word) {
		case DeadMaxDeliver.String():
			causes |= DeadMaxDeliver
		case DeadTerm.String():
			causes |= DeadTerm
		default:
			return 0, fmt.Errorf("%s %q is not a list of max_deliver and term", MetadataDeadLetterOn, list)
		}
	}
	return causes, nil
}
