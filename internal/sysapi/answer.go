package sysapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
)

// flagJetStream is the bit of serverInfo.Flags that says that JetStream is on. The others tell nats-servers of a cluster
// how to talk to each other.
const flagJetStream = 1

// serverInfo begins every answer and event.
type serverInfo struct {
	Name      string            `json:"name"`
	Host      string            `json:"host"`
	ID        string            `json:"id"`
	Domain    string            `json:"domain,omitempty"`
	Version   string            `json:"ver"`
	Tags      []string          `json:"tags,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	JetStream bool              `json:"jetstream"`
	Flags     uint64            `json:"flags"`
	Seq       uint64            `json:"seq"`
	Time      time.Time         `json:"time"`
}

// The codes of failures.
const (
	codeBadRequest  = 400
	codeFailed      = 500
	codeUnavailable = 503
)

// failure is the error of an answer. As an error of a route it makes an answer of its own, without data.
type failure struct {
	Code        int    `json:"code"`
	Description string `json:"description"`
}

func (f *failure) Error() string { return f.Description }

// badRequest is for bodies that cannot be read.
func badRequest(err error) error {
	text := err.Error()
	if t := (*json.UnmarshalTypeError)(nil); errors.As(err, &t) {
		text = fmt.Sprintf("json: cannot unmarshal %s into %q", t.Value, t.Field) // without the names of our types
	}
	return &failure{Code: codeBadRequest, Description: text}
}

// form is what an answer's result is wrapped in.
type form uint8

const (
	asData   form = iota // {server, data} or {server, data: null, error}
	asEffect             // {server} or {server, error}
	asIs                 // the result alone
)

type dataAnswer struct {
	Server *serverInfo `json:"server"`
	Data   any         `json:"data"`
	Error  *failure    `json:"error,omitempty"`
}

type effectAnswer struct {
	Server *serverInfo `json:"server"`
	Error  *failure    `json:"error,omitempty"`
}

// wrap puts a result into its form.
func (s *Service) wrap(f form, result any, err error) any {
	var failed *failure
	if err != nil {
		failed, result = &failure{Code: codeFailed, Description: err.Error()}, nil
	}
	switch {
	case f == asData:
		return &dataAnswer{Server: s.introduce(), Data: result, Error: failed}
	case f == asEffect || err != nil:
		return &effectAnswer{Server: s.introduce(), Error: failed}
	default:
		return result
	}
}

// refuse answers without looking at the request.
func (s *Service) refuse(r *request, why *failure) {
	s.reply(r, &effectAnswer{Server: s.introduce(), Error: why})
}

// reply sends an answer.
func (s *Service) reply(r *request, answer any) {
	if len(r.reply) == 0 {
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		s.log.Error("encoding an answer of the system account", "subject", strings.Join(r.subject, "."), "error", err)
		return
	}
	m := broker.Msg{Subject: r.reply, Data: body}
	if accepted, ok := proto.Header(r.header).Get("Accept-Encoding"); ok && r.route.form == asData {
		encoding, encoded, err := encode(string(accepted), body)
		if err != nil {
			s.log.Error("compressing an answer of the system account", "encoding", encoding, "error", err)
			return
		}
		m.Header, m.Data = []byte("NATS/1.0\r\nContent-Encoding: "+encoding+"\r\n\r\n"), encoded
	}
	r.space.PublishOnce(m)
}

// encode compresses a body in a way that is accepted: snappy's stream format before gzip. What is neither stays as it is.
func encode(accepted string, body []byte) (encoding string, encoded []byte, err error) {
	accepted = strings.ToLower(accepted)
	var out bytes.Buffer
	var w io.WriteCloser
	switch {
	case strings.Contains(accepted, "snappy"), strings.Contains(accepted, "s2"):
		encoding, w = "snappy", s2.NewWriter(&out, s2.WriterSnappyCompat(), s2.WriterConcurrency(1))
	case strings.Contains(accepted, "gzip"):
		encoding, w = "gzip", gzip.NewWriter(&out)
	default:
		return "identity", body, nil
	}
	if _, err := w.Write(body); err != nil {
		return encoding, nil, fmt.Errorf("sysapi: %s: %w", encoding, err)
	}
	if err := w.Close(); err != nil {
		return encoding, nil, fmt.Errorf("sysapi: %s: %w", encoding, err)
	}
	return encoding, out.Bytes(), nil
}
