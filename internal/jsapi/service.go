// Package jsapi answers the JetStream API: requests on $JS.API.* become calls of the engine, and the engine's errors
// become the API's error codes. One file a request family.
// The API is described in https://docs.nats.io/reference/reference-protocols/nats_api_reference and NATS's ADR-1.
package jsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/version"
)

const (
	// maxPending bounds the requests that are being answered, over all accounts; more are answered with
	// "insufficient resources" at once.
	maxPending = 4096
	// answerWithin is how long a request may wait for the log before it is answered with an error.
	answerWithin = 60 * time.Second
)

// Options of a service.
type Options struct {
	Engine *engine.Engine
	Logger *slog.Logger
}

// Service answers the API in the accounts that it is attached to.
type Service struct {
	engine  *engine.Engine
	log     *slog.Logger
	ctx     context.Context // of everything that is being answered; ends with Close
	cancel  context.CancelFunc
	pending atomic.Int64
	running sync.WaitGroup
	// transfers are the snapshots and restores that are under way.
	transfers atomic.Int64

	mu       sync.Mutex // guards attached
	attached map[*broker.Space]*attachment
}

// New makes a service that is attached nowhere.
func New(opts Options) (*Service, error) {
	if opts.Engine == nil {
		return nil, errors.New("jsapi: no engine")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Service{engine: opts.Engine, log: opts.Logger, ctx: ctx, cancel: cancel, attached: map[*broker.Space]*attachment{}}, nil
}

// Attach answers the API in an account.
func (s *Service) Attach(a *engine.Account) error {
	return s.attach(a.Space(), &attachment{account: a}, slices.Concat(families, clustered))
}

// AttachDisabled answers in an account that has no JetStream, with the error that says so.
func (s *Service) AttachDisabled(space *broker.Space) error {
	return s.attach(space, &attachment{}, slices.Concat(families, clustered))
}

// Detach answers no more in an account.
func (s *Service) Detach(space *broker.Space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.attached[space]; at != nil {
		at.end(space)
		delete(s.attached, space)
	}
}

// AttachSystem is AttachDisabled for the system account, which may ask some things about others.
func (s *Service) AttachSystem(space *broker.Space) error {
	return s.attach(space, &attachment{system: true}, slices.Concat(families, clustered, system))
}

func (s *Service) attach(space *broker.Space, at *attachment, routes []route) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.attached[space]
	if old != nil && old.account == at.account && old.system == at.system {
		return nil
	}
	for _, f := range routes {
		for _, subj := range s.engine.APISubjects(f.subject) {
			sub, err := space.Subscribe(subj, "", &family{service: s, space: space, attachment: at, route: f})
			if err != nil {
				at.end(space)
				return fmt.Errorf("jsapi: subscribing to %s: %w", subj, err)
			}
			at.subs = append(at.subs, sub)
		}
	}
	if old != nil {
		old.end(space)
	}
	s.attached[space] = at
	return nil
}

// attachment is the service's part in an account.
type attachment struct {
	account *engine.Account // nil: JetStream is off there
	system  bool            // it is the system account
	subs    []*broker.Subscription
	// answered counts the requests, failed those that were answered with an error.
	answered, failed atomic.Uint64
}

func (a *attachment) end(space *broker.Space) {
	for _, sub := range a.subs {
		space.Unsubscribe(sub)
	}
}

// Close takes no more requests and waits for those that are being answered.
func (s *Service) Close() {
	s.mu.Lock()
	for space, at := range s.attached {
		at.end(space)
	}
	clear(s.attached)
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}

// route is one kind of request.
type route struct {
	subject string // with a wildcard for each name
	kind    string // the type of the answer
	answer  func(context.Context, *request) (any, error)
}

// request is one request that is being answered.
type request struct {
	*attachment
	service *Service
	subject string
	tokens  []string // of the subject
	reply   []byte   // empty: nobody wants the answer
	header  []byte
	body    []byte
	from    *broker.Origin
	// then, when the answer sets it, goes on after the answer was sent, within a bound of its own.
	then func(context.Context)
}

// name is the token at position i of the subject: $JS.API.STREAM.INFO.<name> has its name at 4.
func (r *request) name(i int) string {
	if i < len(r.tokens) {
		return r.tokens[i]
	}
	return ""
}

// decode reads the body into v; an empty body leaves v as it is.
func (r *request) decode(v any) error {
	if len(r.body) == 0 {
		return nil
	}
	// As nats-server does by default (jetstream { strict }): a field that it does not know is an error, and a value that
	// follows the first is read over it.
	decode := json.NewDecoder(bytes.NewReader(r.body))
	decode.DisallowUnknownFields()
	for {
		err := decode.Decode(v)
		var syntax *json.SyntaxError
		switch {
		case err == nil:
		case err == io.EOF:
			return nil
		case errors.As(err, &syntax):
			return jserr.New(jserr.InvalidJSON, "err", fmt.Sprintf("%v at offset %d", err, syntax.Offset))
		default:
			return jserr.New(jserr.InvalidJSON, "err", err)
		}
	}
}

// mustBody is for requests that make no sense without a body.
func (r *request) mustBody(v any) error {
	if r.isEmpty() {
		return jserr.New(jserr.BadRequest)
	}
	return r.decode(v)
}

// mayBody is for requests that only look at a body which is an object or a list; anything else is passed over.
func (r *request) mayBody(v any) error {
	if begin := bytes.TrimLeft(r.body, " \t\r\n"); len(begin) == 0 || begin[0] != '{' && begin[0] != '[' {
		return nil
	}
	return r.decode(v)
}

// isEmpty reports whether a request says nothing: no body, or an object without fields.
func (r *request) isEmpty() bool {
	if len(r.body) == 0 {
		return true
	}
	var v map[string]json.RawMessage
	err := json.Unmarshal(r.body, &v)
	return err == nil && v != nil && len(v) == 0
}

// noBody is for requests that take none.
func (r *request) noBody() error {
	if !r.isEmpty() {
		return jserr.New(jserr.NotEmptyRequest)
	}
	return nil
}

// family receives the requests of one route in one account.
type family struct {
	*attachment
	service *Service
	space   *broker.Space
	route   route
}

// Deliver implements broker.Receiver.
func (f *family) Deliver(batch []broker.Delivery) <-chan struct{} {
	for i := range batch {
		d := &batch[i]
		subj := engine.PlainAPISubject(string(d.Subject))
		r := &request{
			attachment: f.attachment,
			service:    f.service,
			subject:    subj,
			tokens:     strings.Split(subj, "."),
			reply:      append([]byte(nil), d.Reply...),
			header:     append([]byte(nil), d.Header...),
			body:       append([]byte(nil), d.Data...),
			from:       d.From,
		}
		if f.account == nil && !f.ofSystem() {
			f.reply(r, nil, jserr.New(jserr.NotEnabledForAccount))
			continue
		}
		if f.service.pending.Add(1) > maxPending {
			f.service.pending.Add(-1)
			f.reply(r, nil, jserr.New(jserr.InsufficientResources))
			continue
		}
		f.service.running.Add(1)
		go f.serve(r)
	}
	return nil
}

func (f *family) serve(r *request) {
	defer f.service.running.Done()
	defer f.service.pending.Add(-1)
	ctx, cancel := context.WithTimeout(f.service.ctx, answerWithin)
	defer cancel()
	var answer any
	err := checkLevel(r.header)
	if err == nil {
		answer, err = f.route.answer(ctx, r)
	}
	f.reply(r, answer, err)
	if r.then != nil {
		r.then(f.service.ctx)
	}
}

// checkLevel refuses a request that asks for a newer API (header Nats-Required-Api-Level, ADR-44).
func checkLevel(header []byte) error {
	want, ok := proto.Header(header).Get(api.JSRequiredApiLevel)
	if !ok || len(want) == 0 {
		return nil
	}
	if level, err := strconv.Atoi(string(want)); err != nil || level > version.APILevel {
		return jserr.New(jserr.RequiredApiLevel)
	}
	return nil
}

// reply writes one answer.
func (f *family) reply(r *request, answer any, err error) {
	failed := err != nil
	if failed {
		f.failed.Add(1)
		h := head{Type: f.refusal(), Error: wireError(err).API()}
		if answer = h; failures[h.Type] != nil {
			answer = failures[h.Type](h)
		}
	}
	whole, ok := answer.(full)
	if !ok {
		whole.answer = answer
	}
	if whole.after != nil {
		defer whole.after()
	}
	body, err := json.Marshal(whole.answer)
	if err != nil {
		f.service.log.Error("encoding an answer of the JetStream API", "type", f.route.kind, "error", err)
		return
	}
	f.answered.Add(1)
	if len(r.reply) > 0 {
		f.space.PublishOnce(broker.Msg{Subject: r.reply, Header: whole.header, Data: body})
	}
	f.audit(r, body, failed)
}

// wireError is what a failure is on the wire.
func wireError(err error) *jserr.Error {
	var e *jserr.Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return jserr.New(jserr.ClusterNotAvail)
	}
	e = jserr.New(jserr.StreamGeneralError, "err", err)
	return e
}
