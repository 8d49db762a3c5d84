package sysapi

import (
	"cmp"
	"errors"
	"runtime"
	"slices"

	"github.com/sluicemq/sluice/internal/monitor"
)

// serverRoutes are the requests to one server or to all of them, by the last token.
var serverRoutes = map[string]route{
	"VARZ":   {answer: reading(func(s *Service, _ none) (any, error) { return s.report.Varz(), nil })},
	"CONNZ":  {answer: reading(func(s *Service, q monitor.ConnzQuery) (any, error) { return orNull(s.report.Connz(q)) })},
	"SUBSZ":  {answer: reading(func(s *Service, q monitor.SubszQuery) (any, error) { return orNull(s.report.Subsz(q)) })},
	"JSZ":    {answer: reading(func(s *Service, q monitor.JszQuery) (any, error) { return orNull(s.report.Jsz(q)) })},
	"ROUTEZ": {answer: reading(func(s *Service, _ none) (any, error) { return s.report.Routez(), nil })},
	"LEAFZ":  {answer: reading(func(s *Service, _ none) (any, error) { return s.report.Leafz(), nil })},
	"GATEWAYZ": {answer: reading(func(s *Service, _ none) (any, error) {
		return s.report.Gatewayz(), nil
	})},
	"ACCOUNTZ": {answer: reading(func(s *Service, q accountQuery) (any, error) { return orNull(s.report.Accountz(q.Account)) })},
	"HEALTHZ":  {answer: reading(healthz)},
	"STATSZ":   {form: asIs, answer: reading(func(s *Service, _ none) (any, error) { return s.statsz(), nil })},
	"IDZ":      {form: asIs, answer: idz},
	// There are neither Raft groups nor nats-server's queues.
	"RAFTZ":     {answer: reading(func(*Service, none) (any, error) { return struct{}{}, nil })},
	"IPQUEUESZ": {answer: reading(func(*Service, none) (any, error) { return struct{}{}, nil })},
	"EXPVARZ":   {answer: reading(expvarz)},
	"PROFILEZ":  {answer: reading(profilez)},
}

// orNull keeps a nil pointer of an error from becoming an answer.
func orNull[T any](report *T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return report, nil
}

// systemRoutes are all that the system account may ask.
func (s *Service) systemRoutes() []route {
	const all, own = "$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER."
	ping := serverRoutes["STATSZ"]
	ping.subject = all
	routes := []route{ping}
	for name, r := range serverRoutes {
		for _, prefix := range []string{all, own + s.self.ID} {
			r.subject = prefix + "." + name
			routes = append(routes, r)
		}
	}
	for name, r := range effects {
		r.subject, r.form, r.quiet = own+s.self.ID+"."+name, asEffect, true
		routes = append(routes, r)
	}
	routes = append(routes, accountRoutes...)
	slices.SortFunc(routes, func(a, b route) int { return cmp.Compare(a.subject, b.subject) })
	return routes
}

type accountQuery struct {
	Account string `json:"account"`
}

// idz says which servers there are. It takes no filter.
func idz(s *Service, _ *request) (any, error) {
	return struct {
		Name string `json:"name"`
		Host string `json:"host"`
		ID   string `json:"id"`
	}{s.self.Name, s.self.Host, s.self.ID}, nil
}

// healthz tells the code too, which over HTTP is not in the body. What is missing is an error here, with or without
// details.
func healthz(s *Service, q monitor.HealthzQuery) (any, error) {
	found := s.report.Healthz(q)
	st := found.Status(q.Details)
	return struct {
		Status string                 `json:"status"`
		Code   int                    `json:"status_code"`
		Error  string                 `json:"error,omitempty"`
		Errors []monitor.HealthzError `json:"errors,omitempty"`
	}{st.Status, found.Code, st.Error, st.Errors}, nil
}

// expvarz tells of the memory of Go. The command line stays out of it: it may hold passwords.
func expvarz(*Service, none) (any, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return struct {
		MemStats *runtime.MemStats `json:"memstats"`
	}{&m}, nil
}

var errNoProfiles = errors.New("profiles are not served")

// profilez refuses in the form of the request.
func profilez(*Service, none) (any, error) {
	return struct {
		Profile []byte `json:"profile"`
		Error   string `json:"error"`
	}{Error: errNoProfiles.Error()}, nil
}
