package engine

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/version"
)

// Statuses of direct gets, which answer with messages instead of JSON: NATS's ADR-31.
const (
	directEmptyRequest = "NATS/1.0 408 Empty Request\r\n\r\n"
	directBadRequest   = "NATS/1.0 408 Bad Request\r\n\r\n"
	directMalformed    = "NATS/1.0 408 Malformed Request\r\n\r\n"
	directNotFound     = "NATS/1.0 404 Message Not Found\r\n\r\n"
	directNoResults    = "NATS/1.0 404 No Results\r\n\r\n"
	directAPILevel     = "NATS/1.0 412 Required Api Level\r\n\r\n"
	directTooMany      = "NATS/1.0 413 Too Many Results\r\n\r\n"
	directBusy         = "NATS/1.0 429 Too Many Requests\r\n\r\n"
	directUnavailable  = "NATS/1.0 503 Message Not Available\r\n\r\n"
)

// directGet answers $JS.API.DIRECT.GET.<stream> and $JS.API.DIRECT.GET.<stream>.<subject>.
func (s *Stream) directGet(m *broker.Msg) {
	if len(m.Reply) == 0 {
		return
	}
	reply := append([]byte(nil), m.Reply...)
	if needsNewerAPI(m.Header) {
		s.directStatus(reply, directAPILevel)
		return
	}
	var ask api.JSApiMsgGetRequest
	// The stream that the subject names is this one, or the one that it mirrors.
	_, subj, _ := strings.Cut(strings.TrimPrefix(PlainAPISubject(string(m.Subject)), apiPrefix+"DIRECT.GET."), ".")
	if refused := parseDirect(&ask, subj, m.Data); refused != "" {
		s.directStatus(reply, refused)
		return
	}
	switch {
	case len(ask.MultiLastFor) > 0:
		s.directMulti(&ask, reply)
	case ask.Batch != 0:
		s.directBatch(&ask, reply)
	default:
		s.directOne(&ask, reply)
	}
}

// needsNewerAPI reports whether a request asks for more than this API's level (header Nats-Required-Api-Level, ADR-44).
func needsNewerAPI(header []byte) bool {
	want, ok := proto.Header(header).Get(api.JSRequiredApiLevel)
	if !ok || len(want) == 0 {
		return false
	}
	level, err := strconv.Atoi(string(want))
	return err != nil || level > version.APILevel
}

// parseDirect reads a request and gives the status that refuses it, or "". subj is what the request's own subject names.
func parseDirect(ask *api.JSApiMsgGetRequest, subj string, body []byte) (refused string) {
	if subj == "" && len(body) == 0 {
		return directEmptyRequest
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, ask); err != nil {
			return directMalformed
		}
	}
	if subj != "" {
		// Of all fields only no_hdr makes sense beside a subject.
		if ask.LastFor != "" || ask.NextFor != "" || len(ask.MultiLastFor) > 0 || ask.Seq != 0 || ask.Batch != 0 ||
			ask.StartTime != nil || ask.UpToSeq != 0 || ask.UpToTime != nil {
			return directBadRequest
		}
		ask.LastFor = subj
		return ""
	}
	if ask.Seq == 0 && ask.LastFor == "" && ask.NextFor == "" && len(ask.MultiLastFor) == 0 && ask.StartTime == nil {
		return directEmptyRequest
	}
	if !consistent(ask) {
		return directBadRequest
	}
	return ""
}

// consistent reports whether a request's fields go together.
func consistent(ask *api.JSApiMsgGetRequest) bool {
	multi := len(ask.MultiLastFor) > 0
	last := ask.LastFor != "" && (ask.Seq > 0 || ask.StartTime != nil || ask.NextFor != "" || ask.Batch > 0 || multi)
	return !last && !(ask.Seq > 0 && ask.StartTime != nil) && !(ask.NextFor != "" && multi) &&
		!(ask.UpToSeq > 0 && ask.UpToTime != nil)
}

// directOne answers with one message.
func (s *Stream) directOne(ask *api.JSApiMsgGetRequest, reply []byte) {
	seq, err := s.find(ask)
	if err != nil {
		s.directStatus(reply, directNotFound)
		return
	}
	bare := ask.NoHeaders
	s.read(seq, func(m *record.StoredMessage, err error) {
		switch {
		case err != nil:
			s.directStatus(reply, directFailure(err))
		case bare:
			s.pub.Publish(broker.Msg{Subject: reply, Data: m.Data})
		default:
			s.pub.Publish(broker.Msg{Subject: reply, Header: s.directHeader(m), Data: m.Data})
		}
	})
}

func directFailure(err error) string {
	if errors.Is(err, errStreamEnded) {
		return directNotFound
	}
	return directUnavailable
}

func (s *Stream) directStatus(reply []byte, header string) {
	s.pub.Publish(broker.Msg{Subject: reply, Header: []byte(header)})
}

// directHeader is the message's header block with where it was found.
func (s *Stream) directHeader(m *record.StoredMessage) []byte {
	b := append(s.openDirect(m), "\r\n"...)
	s.scratch = b
	return b
}

// openDirect is directHeader without its end.
func (s *Stream) openDirect(m *record.StoredMessage) []byte {
	b := openHeader(s.scratch[:0], m.Header)
	b = proto.AppendHeaderField(b, "Nats-Stream", s.name)
	b = proto.AppendHeaderField(b, "Nats-Subject", string(m.Subject))
	b = proto.AppendHeaderField(b, "Nats-Sequence", strconv.FormatUint(m.Seq, 10))
	return proto.AppendHeaderField(b, "Nats-Time-Stamp", time.Unix(0, m.Time).UTC().Format(time.RFC3339Nano))
}
