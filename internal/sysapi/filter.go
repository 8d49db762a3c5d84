package sysapi

import (
	"encoding/json"
	"slices"
	"strings"
)

// filter says which servers a request is for; empty fields are all.
type filter struct {
	Name    string   `json:"server_name"`
	Cluster string   `json:"cluster"`
	Host    string   `json:"host"`
	Exact   bool     `json:"exact_match"` // otherwise Name, Cluster and Host are parts of what they are compared with
	Tags    []string `json:"tags"`        // all of them, in any case
	Domain  string   `json:"domain"`
}

// chooses reports whether this server is meant.
func (f *filter) chooses(self *Identity) bool {
	fits := func(have, want string) bool {
		return want == "" || have == want || !f.Exact && strings.Contains(have, want)
	}
	hasTag := func(want string) bool {
		return slices.ContainsFunc(self.Tags, func(tag string) bool { return strings.EqualFold(tag, want) })
	}
	return fits(self.Name, f.Name) && fits("", f.Cluster) && fits(self.Host, f.Host) && (f.Domain == "" || f.Domain == self.Domain) &&
		!slices.ContainsFunc(f.Tags, func(tag string) bool { return !hasTag(tag) })
}

// read reads the body into each of what, and asks the filter in it. An empty body says nothing.
func (s *Service) read(r *request, what ...any) error {
	if len(r.body) == 0 {
		return nil
	}
	var f filter
	for _, v := range append(what, &f) {
		if err := json.Unmarshal(r.body, v); err != nil {
			return badRequest(err)
		}
	}
	if !f.chooses(&s.self) {
		return errSilent
	}
	return nil
}

// reading makes the answer of a route that reads a query.
func reading[Q any](answer func(*Service, Q) (any, error)) func(*Service, *request) (any, error) {
	return func(s *Service, r *request) (any, error) {
		var q Q
		if err := s.read(r, &q); err != nil {
			return nil, err
		}
		return answer(s, q)
	}
}

// none is the query of requests that have only a filter.
type none struct{}
