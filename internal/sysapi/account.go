package sysapi

import (
	"github.com/sluicemq/sluice/internal/monitor"
)

// accountRoutes are the system account's requests about one account, or with PING about all.
var accountRoutes = []route{
	{subject: "$SYS.REQ.ACCOUNT.*.CONNZ", answer: accountConnz},
	{subject: "$SYS.REQ.ACCOUNT.*.SUBSZ", answer: accountSubsz},
	{subject: "$SYS.REQ.ACCOUNT.*.LEAFZ", answer: reading(func(s *Service, _ none) (any, error) { return s.report.Leafz(), nil })},
	{subject: "$SYS.REQ.ACCOUNT.*.JSZ", answer: accountJsz},
	{subject: "$SYS.REQ.ACCOUNT.*.INFO", answer: accountInfo},
	{subject: "$SYS.REQ.ACCOUNT.*.STATZ", answer: accountStatz},
	{subject: "$SYS.REQ.ACCOUNT.*.CONNS", form: asIs, answer: accountConns},
}

// ownRoutes are what clients of other accounts may ask: about their own account, whatever the request names. In
// nats-server they are imports of the system account's services.
var ownRoutes = []route{
	{subject: "$SYS.REQ.ACCOUNT.PING.CONNZ", answer: accountConnz},
	{subject: "$SYS.REQ.ACCOUNT.PING.STATZ", answer: accountStatz},
	{subject: "$SYS.REQ.SERVER.PING.CONNZ", answer: accountConnz},
}

func accountConnz(s *Service, r *request) (any, error) {
	var q monitor.ConnzQuery
	if err := s.read(r, &q); err != nil {
		return nil, err
	}
	q.Account = r.account()
	return orNull(s.report.Connz(q))
}

func accountSubsz(s *Service, r *request) (any, error) {
	var q monitor.SubszQuery
	if err := s.read(r, &q); err != nil {
		return nil, err
	}
	q.Account = r.account()
	return orNull(s.report.Subsz(q))
}

func accountJsz(s *Service, r *request) (any, error) {
	var q monitor.JszQuery
	if err := s.read(r, &q); err != nil {
		return nil, err
	}
	return orNull(s.report.JszAccount(r.account(), q))
}

func accountInfo(s *Service, r *request) (any, error) {
	if err := s.read(r); err != nil {
		return nil, err
	}
	z, err := s.report.Accountz(r.account())
	if err != nil {
		return nil, err
	}
	return z.Account, nil
}

// accountStatz is silent about one account that has nothing to tell, since other servers may have.
func accountStatz(s *Service, r *request) (any, error) {
	var q monitor.AccountStatzQuery
	if err := s.read(r, &q); err != nil {
		return nil, err
	}
	if name := r.account(); name != "PING" {
		q.Accounts = []string{name}
	}
	z := s.report.AccountStatz(q)
	if len(z.Accounts) == 0 && r.account() != "PING" {
		return nil, errSilent
	}
	return z, nil
}

func accountConns(s *Service, r *request) (any, error) {
	if err := s.read(r); err != nil {
		return nil, err
	}
	c := s.conns(r.account(), false)
	if c == nil {
		return nil, errSilent
	}
	return c, nil
}
