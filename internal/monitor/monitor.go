// Package monitor reports the server's state: in nats-server's names and forms, by its HTTP endpoints, and /metrics for
// Prometheus. A Reporter reads the state through the small interfaces below and decides everything that is about a
// report: filters, order, pages. A Handler serves reports over HTTP; the system account asks for the same ones by
// messages.
package monitor

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Source is the whole state that the endpoints show. All methods may be called at any time, by several goroutines.
type Source interface {
	ServerSource
	ConnSource
	SubSource
	AccountSource
	JetStreamSource
	HealthSource
}

// ServerSource tells about the server as a whole.
type ServerSource interface {
	// ServerID is the id of INFO.
	ServerID() string
	// Varz returns a new Varz that holds the server's part; what is about the process or the request is filled in here.
	Varz() *Varz
}

// Options of a Handler.
type Options struct {
	Source Source
	// BasePath stands before every path: "" or "/…".
	BasePath string
	// Gatherer serves /metrics; nil leaves it out.
	Gatherer prometheus.Gatherer
	// Logger is for answers that fail; default slog.Default().
	Logger *slog.Logger
	// MaxRequests bounds the requests that are worked on at once; more wait. Default 16.
	MaxRequests int
}

const defaultMaxRequests = 16

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxRequests == 0 {
		o.MaxRequests = defaultMaxRequests
	}
}

// Validate reports every fault.
func (o *Options) Validate() error {
	var errs []error
	if o.Source == nil {
		errs = append(errs, errors.New("monitor: no Source"))
	}
	if o.MaxRequests < 0 {
		errs = append(errs, errors.New("monitor: MaxRequests is negative"))
	}
	return errors.Join(errs...)
}

// Handler serves the endpoints.
type Handler struct {
	*Reporter
	base   string
	logger *slog.Logger
	mux    *http.ServeMux
	// slots holds an element for each request that is worked on.
	slots chan struct{}
	// counts of the requests by path, as /varz shows them. The map itself never changes.
	counts map[string]*atomic.Uint64
}

// NewHandler returns the handler for all paths.
func NewHandler(o Options) (*Handler, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	h := &Handler{Reporter: NewReporter(o.Source), base: o.BasePath, logger: o.Logger, mux: http.NewServeMux(),
		slots: make(chan struct{}, o.MaxRequests), counts: map[string]*atomic.Uint64{}}
	h.handle("/", h.root)
	h.handle("/varz", h.varz)
	h.handle("/connz", h.connz)
	h.handle("/subsz", h.subsz, "/subscriptionsz")
	h.handle("/accountz", h.accountz)
	h.handle("/accstatz", h.accstatz)
	h.handle("/jsz", h.jsz)
	h.handle("/healthz", h.healthz)
	h.handle("/routez", h.routez)
	h.handle("/leafz", h.leafz)
	h.handle("/gatewayz", h.gatewayz)
	if o.Gatherer != nil {
		metrics := promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelError)})
		h.handle("/metrics", metrics.ServeHTTP)
	}
	return h, nil
}

// handle serves a path and its aliases, and counts its requests.
func (h *Handler) handle(p string, serve http.HandlerFunc, aliases ...string) {
	count := new(atomic.Uint64)
	h.counts[p] = count
	for _, at := range append(aliases, p) {
		full := path.Join("/", h.base, at)
		h.mux.HandleFunc(full, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != full { // the mux takes "/" for everything else too
				http.NotFound(w, r)
				return
			}
			count.Add(1)
			serve(w, r)
		})
	}
}

// ServeHTTP answers one request, when its turn has come.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
		h.mux.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

// requestCounts are the paths that were asked for.
func (h *Handler) requestCounts() map[string]uint64 {
	counts := map[string]uint64{}
	for p, c := range h.counts {
		if n := c.Load(); n > 0 {
			counts[p] = n
		}
	}
	return counts
}

// answer sends v as indented JSON.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	h.send(w, r, http.StatusOK, b, err)
}

func (h *Handler) send(w http.ResponseWriter, r *http.Request, code int, body []byte, err error) {
	if err != nil {
		h.logger.Error("Monitoring: encoding an answer", "path", r.URL.Path, "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.WriteHeader(code)
	w.Write(body) // an error here is the client's going away
}

// refuse answers a request that makes no sense, with the bare text as nats-server does.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusBadRequest)
	w.Write([]byte(err.Error()))
}
