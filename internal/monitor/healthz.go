package monitor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// errNotLeader answers leader-only where JetStream is off, in nats-server's words.
var errNotLeader = errors.New("skip zreq: not leader")

// ErrEnding is wrapped by what Ready returns while the server shuts down. The answer is 503 then: the server is going to be
// available again elsewhere or later, while one that is not ready answers 500, as nats-server does.
var ErrEnding = errors.New("the server is shutting down")

// HealthSource tells whether the server works.
type HealthSource interface {
	// Ready is nil when clients can connect.
	Ready() error
	// JetStreamReady tells whether JetStream is configured and, if so, what keeps it from working.
	JetStreamReady() (configured bool, err error)
	// CheckAssets looks at all streams, or at those of an account, at one stream or one consumer where they are named.
	// It says how much of what is named exists, and what is wrong with what was looked at.
	CheckAssets(account, stream, consumer string) (Found, []HealthzError)
}

// Found says how far the names of an account, a stream and a consumer lead.
type Found int

// FoundConsumer includes the stream, and that the account.
const (
	FoundNothing Found = iota
	FoundAccount
	FoundStream
	FoundConsumer
)

// HealthzError is one thing that is wrong, where details are wanted.
type HealthzError struct {
	Type     string `json:"type"` // CONNECTION, BAD_REQUEST, JETSTREAM, ACCOUNT, STREAM or CONSUMER
	Account  string `json:"account,omitempty"`
	Stream   string `json:"stream,omitempty"`
	Consumer string `json:"consumer,omitempty"`
	Error    string `json:"error,omitempty"`
}

// HealthStatus is the answer of /healthz. The form is that of draft-inadarei-api-health-check.
type HealthStatus struct {
	Status string         `json:"status"` // "ok", "unavailable" or "error"
	Error  string         `json:"error,omitempty"`
	Errors []HealthzError `json:"errors,omitempty"`
}

// Health is an outcome before it is put into the form that is wanted.
type Health struct {
	Code   int // of HTTP
	status string
	errors []HealthzError
}

// HealthzQuery says what is to be looked at.
type HealthzQuery struct {
	Enabled     bool   `json:"js-enabled"` // the old name of EnabledOnly
	EnabledOnly bool   `json:"js-enabled-only"`
	ServerOnly  bool   `json:"js-server-only"`
	Account     string `json:"account"`
	Stream      string `json:"stream"`
	Consumer    string `json:"consumer"`
	Details     bool   `json:"details"` // for whoever puts the outcome into its form
}

func (h *Handler) healthz(w http.ResponseWriter, r *http.Request) {
	q := newQuery(r)
	// js-enabled is the old name. js-meta-only and leaf-remotes-connected are about what is not there and so in order.
	enabledOnly := q.flag("js-enabled") || q.flag("js-enabled-only")
	serverOnly, details := q.flag("js-server-only"), q.flag("details")
	q.flag("js-meta-only")
	q.flag("leaf-remotes-connected")
	if q.err != nil {
		refuse(w, q.err)
		return
	}
	found := h.Healthz(HealthzQuery{Account: q.text("account"), Stream: q.text("stream"), Consumer: q.text("consumer"), ServerOnly: serverOnly, EnabledOnly: enabledOnly})
	if len(found.errors) > 0 {
		h.logger.Warn("Healthcheck failed", "error", found.errors[0].Error, "errors", len(found.errors))
	}
	b, err := json.Marshal(found.Status(details))
	h.send(w, r, found.Code, b, err)
}

// Status is the form of the outcome: with all that is wrong, or the first.
func (f *Health) Status(details bool) HealthStatus {
	switch {
	case len(f.errors) == 0:
		return HealthStatus{Status: "ok"}
	case details:
		return HealthStatus{Status: "error", Errors: f.errors}
	default:
		return HealthStatus{Status: f.status, Error: f.errors[0].Error}
	}
}

// Healthz looks whether the server works.
func (r *Reporter) Healthz(q HealthzQuery) Health {
	fine := Health{Code: http.StatusOK}
	account, stream, consumer := q.Account, q.Stream, q.Consumer
	switch {
	case account == "" && stream != "":
		return badRequest("account", "stream")
	case stream == "" && consumer != "":
		return badRequest("stream", "consumer")
	}
	if err := r.source.Ready(); errors.Is(err, ErrEnding) {
		return unavailable(http.StatusServiceUnavailable, HealthzError{Type: "CONNECTION", Error: err.Error()})
	} else if err != nil {
		return Health{http.StatusInternalServerError, "error", []HealthzError{{Type: "CONNECTION", Error: err.Error()}}}
	}
	if q.ServerOnly {
		return fine
	}
	configured, err := r.source.JetStreamReady()
	if !configured {
		return fine
	}
	if err != nil {
		return unavailable(http.StatusServiceUnavailable, HealthzError{Type: "JETSTREAM", Error: err.Error()})
	}
	if q.Enabled || q.EnabledOnly {
		return fine
	}
	found, wrong := r.source.CheckAssets(account, stream, consumer)
	switch {
	case len(wrong) > 0:
		return unavailable(http.StatusServiceUnavailable, wrong...)
	case account != "" && found < FoundAccount:
		return unavailable(http.StatusNotFound, HealthzError{Type: "ACCOUNT", Account: account, Error: fmt.Sprintf("JetStream account %q not found", account)})
	case stream != "" && found < FoundStream:
		return unavailable(http.StatusNotFound, HealthzError{Type: "STREAM", Account: account, Stream: stream,
			Error: fmt.Sprintf("JetStream stream %q not found on account %q", stream, account)})
	case consumer != "" && found < FoundConsumer:
		return unavailable(http.StatusNotFound, HealthzError{Type: "CONSUMER", Account: account, Stream: stream, Consumer: consumer,
			Error: fmt.Sprintf("JetStream consumer %q not found for stream %q on account %q", consumer, stream, account)})
	}
	return fine
}

func badRequest(missing, what string) Health {
	return Health{http.StatusBadRequest, "error", []HealthzError{{Type: "BAD_REQUEST",
		Error: fmt.Sprintf("%q must not be empty when checking %s health", missing, what)}}}
}

func unavailable(code int, wrong ...HealthzError) Health { return Health{code, "unavailable", wrong} }
