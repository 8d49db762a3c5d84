// Package sysapi is the system account's side of a server: it answers the requests below $SYS.REQ, and announces under
// $SYS what happens to clients, accounts and the server. Subjects, forms and conditions are nats-server's. The reports
// themselves are made by package monitor.
package sysapi

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/monitor"
	"github.com/sluicemq/sluice/internal/version"
)

const (
	// maxWaiting bounds the requests that wait to be answered, over all accounts; more are answered with an error at once.
	maxWaiting = 1024
	// workers is how many requests are answered at a time. A report on many connections is large, so they are few.
	workers = 4
)

// Server is what requests can do to the server.
type Server interface {
	// Kick closes a client's connection; false: there is none of this id.
	Kick(cid uint64) bool
	// TellLameDuck tells one client to go elsewhere; false: there is none of this id.
	TellLameDuck(cid uint64) bool
	// ReadConfig reads the configuration again and takes it over.
	ReadConfig() error
}

// Identity is how the server introduces itself in answers and events.
type Identity struct {
	Name, Host, ID, Domain string
	Tags                   []string
	Metadata               map[string]string
	JetStream              bool
}

// Options of a Service. All but Logger must be set.
type Options struct {
	Broker *broker.Broker
	Report *monitor.Reporter
	Server Server
	// Identity of the server; it does not change.
	Identity Identity
	// SystemAccount is the account whose clients may ask.
	SystemAccount string
	Logger        *slog.Logger // nil: silent
}

// Validate reports every fault.
func (o *Options) Validate() error {
	var errs []error
	if o.Broker == nil || o.Report == nil || o.Server == nil {
		errs = append(errs, errors.New("sysapi: Broker, Report and Server must be set"))
	}
	if o.Identity.ID == "" || o.SystemAccount == "" {
		errs = append(errs, errors.New("sysapi: the server's id and the system account must be set"))
	}
	return errors.Join(errs...)
}

// Service answers requests and announces events, from New to Close.
type Service struct {
	report *monitor.Reporter
	server Server
	self   Identity
	system *broker.Space
	broker *broker.Broker
	log    *slog.Logger
	seq    atomic.Uint64 // of answers and events
	queue  chan *request
	done   chan struct{}
	ended  sync.WaitGroup
	pace   pace

	mu       sync.Mutex // guards what follows
	closed   bool
	attached map[string][]*broker.Subscription // by account
}

// New makes a service that answers in the system account.
func New(o Options) (*Service, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{report: o.Report, server: o.Server, self: o.Identity, system: o.Broker.Space(o.SystemAccount), broker: o.Broker, log: o.Logger,
		queue: make(chan *request, maxWaiting), done: make(chan struct{}), attached: map[string][]*broker.Subscription{}}
	if err := s.attach(o.SystemAccount, s.systemRoutes()); err != nil {
		s.detach()
		return nil, err
	}
	for range workers {
		s.ended.Go(s.work)
	}
	s.ended.Go(s.beat)
	return s, nil
}

// Attach answers, in accounts that are not the system's, what their clients may ask about their own account. Accounts
// that are attached already stay so.
func (s *Service) Attach(accounts []string) error {
	for _, a := range accounts {
		if err := s.attach(a, ownRoutes); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) attach(account string, routes []route) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.attached[account]; ok || s.closed {
		return nil
	}
	space := s.broker.Space(account)
	var subs []*broker.Subscription
	for _, r := range routes {
		sub, err := space.Subscribe(r.subject, "", &family{service: s, space: space, route: r})
		if err != nil {
			for _, sub := range subs {
				space.Unsubscribe(sub)
			}
			return fmt.Errorf("sysapi: subscribing to %s: %w", r.subject, err)
		}
		subs = append(subs, sub)
	}
	s.attached[account] = subs
	return nil
}

// Close takes no more requests, drops those that wait, and returns when those that are being answered are done.
func (s *Service) Close() {
	if s.detach() {
		close(s.done)
		s.ended.Wait()
	}
}

// detach takes all subscriptions back; false: that was done before.
func (s *Service) detach() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed = true
	for account, subs := range s.attached {
		for _, sub := range subs {
			s.broker.Space(account).Unsubscribe(sub)
		}
	}
	clear(s.attached)
	return true
}

// route is one kind of request.
type route struct {
	subject string
	form    form
	// answer makes what goes into the form; for no answer at all it returns errSilent.
	answer func(*Service, *request) (any, error)
	// quiet: the request has an effect, so it is worked off also where nobody waits for the answer.
	quiet bool
}

// errSilent: who asks is not meant, or has nothing to hear.
var errSilent = errors.New("sysapi: no answer")

// request is one that waits to be answered. It owns its bytes.
type request struct {
	*family
	subject []string // its tokens
	reply   []byte
	header  []byte
	body    []byte
}

// account is the token of $SYS.REQ.ACCOUNT.<account>.…, or for a request of another account that one.
func (r *request) account() string {
	const at = 3
	if r.space != r.service.system || len(r.subject) <= at {
		return r.space.Account()
	}
	return r.subject[at]
}

// family receives the requests of one route in one account.
type family struct {
	service *Service
	space   *broker.Space
	route   route
}

// Deliver implements broker.Receiver: it only queues.
func (f *family) Deliver(batch []broker.Delivery) <-chan struct{} {
	for i := range batch {
		d := &batch[i]
		if len(d.Reply) == 0 && !f.route.quiet {
			continue
		}
		r := &request{family: f, subject: strings.Split(string(d.Subject), "."), reply: append([]byte(nil), d.Reply...),
			header: append([]byte(nil), d.Header...), body: append([]byte(nil), d.Data...)}
		select {
		case f.service.queue <- r:
		default:
			f.service.refuse(r, &failure{Code: codeUnavailable, Description: "insufficient resources"})
		}
	}
	return nil
}

// work answers requests until Close.
func (s *Service) work() {
	for {
		select {
		case <-s.done:
			return
		case r := <-s.queue:
			s.serve(r)
		}
	}
}

// serve answers one request.
func (s *Service) serve(r *request) {
	answer, err := r.route.answer(s, r)
	var refused *failure
	switch {
	case errors.Is(err, errSilent):
	case errors.As(err, &refused):
		s.refuse(r, refused)
	default:
		s.reply(r, s.wrap(r.route.form, answer, err))
	}
}

// introduce describes the server, with the next number.
func (s *Service) introduce() *serverInfo {
	i := &serverInfo{Name: s.self.Name, Host: s.self.Host, ID: s.self.ID, Domain: s.self.Domain, Version: version.NATS, Tags: s.self.Tags,
		Metadata: s.self.Metadata, JetStream: s.self.JetStream, Seq: s.seq.Add(1), Time: time.Now().UTC()}
	if i.JetStream {
		i.Flags = flagJetStream
	}
	return i
}
