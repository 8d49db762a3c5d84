package engine

import "strings"

const apiPrefix = "$JS.API."

// APISubjects are the subjects on which a request of the API arrives: its own and, with a domain, the domain's.
// subj begins with "$JS.API.".
func (e *Engine) APISubjects(subj string) []string {
	if e.opts.Domain == "" {
		return []string{subj}
	}
	return []string{subj, "$JS." + e.opts.Domain + ".API." + strings.TrimPrefix(subj, apiPrefix)}
}

// PlainAPISubject takes the domain out of a request's subject.
func PlainAPISubject(subj string) string {
	if strings.HasPrefix(subj, apiPrefix) {
		return subj
	}
	if _, rest, ok := strings.Cut(subj, ".API."); ok {
		return apiPrefix + rest
	}
	return subj
}
