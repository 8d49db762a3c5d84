package account

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/subject"
)

// Defaults of allow_responses.
const (
	DefaultMaxResponses    = 1
	DefaultResponseExpires = 2 * time.Minute
)

// Rights are permissions made ready for checking. They are immutable. Checks take time in proportion to the number of
// patterns, so callers remember answers.
type Rights struct {
	settings   Permissions
	pubAllow   []string
	pubLimited bool // there is an allow list, maybe an empty one
	pubDeny    []string
	subAllow   []pattern
	subDeny    []pattern
	responses  *ResponsePermission
}

// pattern is an entry of the subscribe lists.
type pattern struct{ subject, queue string }

// newRights compiles permissions; nil gives nil, which allows everything. The error names every bad entry.
func newRights(p *Permissions) (*Rights, error) {
	if p == nil {
		return nil, nil
	}
	r := &Rights{
		settings:   *p,
		pubAllow:   p.Publish.Allow,
		pubLimited: len(p.Publish.Allow) > 0 || p.Responses != nil,
		pubDeny:    p.Publish.Deny,
	}
	var errs []error
	for _, s := range slices.Concat(p.Publish.Allow, p.Publish.Deny) {
		if !subject.Valid(s) {
			errs = append(errs, fmt.Errorf("publish permission %q is no valid subject", s))
		}
	}
	r.subAllow, errs = compile(p.Subscribe.Allow, errs)
	r.subDeny, errs = compile(p.Subscribe.Deny, errs)
	if p.Responses != nil {
		resp := *p.Responses
		if resp.MaxMsgs == 0 {
			resp.MaxMsgs = DefaultMaxResponses
		}
		if resp.Expires == 0 {
			resp.Expires = DefaultResponseExpires
		}
		r.responses = &resp
	}
	return r, errors.Join(errs...)
}

func compile(entries []string, errs []error) ([]pattern, []error) {
	var list []pattern
	for _, e := range entries {
		f := strings.Fields(e)
		switch {
		case len(f) == 1 && subject.Valid(f[0]):
			list = append(list, pattern{subject: f[0]})
		case len(f) == 2 && subject.Valid(f[0]) && subject.Valid(f[1]):
			list = append(list, pattern{subject: f[0], queue: f[1]})
		default:
			errs = append(errs, fmt.Errorf("subscribe permission %q is no valid subject, with or without a queue", e))
		}
	}
	return list, errs
}

// LimitsPublish reports whether there is any subject that may not be published to.
func (r *Rights) LimitsPublish() bool { return r != nil && (r.pubLimited || len(r.pubDeny) > 0) }

// MayPublish reports whether the lists allow publishing to a subject; Responses may allow it all the same.
func (r *Rights) MayPublish(subj []byte) bool {
	if r == nil {
		return true
	}
	if r.pubLimited && !matchAny(subj, r.pubAllow) {
		return false
	}
	return !matchAny(subj, r.pubDeny)
}

func matchAny(subj []byte, patterns []string) bool {
	for _, p := range patterns {
		if subject.Match(subj, p) {
			return true
		}
	}
	return false
}

// MaySubscribe reports whether a subscription is allowed. An entry with a queue speaks of that queue group only:
// "foo v1" in the allow list lets the group v1 subscribe, and nobody else unless plain "foo" is there too; but then
// other groups are shut out.
func (r *Rights) MaySubscribe(subj, queue string) bool {
	if r == nil {
		return true
	}
	if len(r.subAllow) > 0 {
		plain, inQueue, anyQueue := look(r.subAllow, subj, queue)
		allowed := plain
		if queue != "" && anyQueue {
			allowed = inQueue
		}
		if !allowed {
			return false
		}
	}
	plain, inQueue, _ := look(r.subDeny, subj, queue)
	return !plain && !(queue != "" && inQueue)
}

// look tells what of a list matches the subject: an entry without queue, one whose queue is that of the subscription,
// and whether there is an entry with any queue.
func look(list []pattern, subj, queue string) (plain, inQueue, anyQueue bool) {
	for _, p := range list {
		if !subject.Match(subj, p.subject) {
			continue
		}
		if p.queue == "" {
			plain = true
			continue
		}
		anyQueue = true
		inQueue = inQueue || p.queue == queue || subject.HasWildcard(p.queue) && subject.IsSubset(queue, p.queue)
	}
	return plain, inQueue, anyQueue
}

// NeedsFilter reports whether a subscription that is allowed may match subjects that are denied, so that every message
// must be checked with DeniesDelivery.
func (r *Rights) NeedsFilter(subj, queue string) bool {
	if r == nil || queue == "" && !subject.HasWildcard(subj) {
		return false
	}
	for _, p := range r.subDeny {
		if subject.Overlap(p.subject, subj) {
			return true
		}
	}
	return false
}

// DeniesDelivery reports whether a message may not go to a subscription although the subscription is allowed.
func (r *Rights) DeniesDelivery(subj []byte, queue string) bool {
	if r == nil {
		return false
	}
	plain, inQueue, _ := look(r.subDeny, string(subj), queue)
	return plain || queue != "" && inQueue
}

// Responses is the permission to answer, with its defaults filled in; nil is none.
func (r *Rights) Responses() *ResponsePermission {
	if r == nil {
		return nil
	}
	return r.responses
}

// Settings gives the permissions as they were configured; nil allows everything.
func (r *Rights) Settings() *Permissions {
	if r == nil {
		return nil
	}
	return &r.settings
}
