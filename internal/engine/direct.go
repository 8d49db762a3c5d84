package engine

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/record"
)

// Statuses of direct gets, which answer with a message instead of JSON: NATS's ADR-31.
const (
	directEmptyRequest = "NATS/1.0 408 Empty Request\r\n\r\n"
	directBadRequest   = "NATS/1.0 408 Bad Request\r\n\r\n"
	directNotFound     = "NATS/1.0 404 Message Not Found\r\n\r\n"
	directUnavailable  = "NATS/1.0 503 Message Not Available\r\n\r\n"
)

// directGet answers $JS.API.DIRECT.GET.<stream> and $JS.API.DIRECT.GET.<stream>.<subject>.
func (s *Stream) directGet(m *broker.Msg) {
	reply := append([]byte(nil), m.Reply...)
	if len(reply) == 0 {
		return
	}
	var ask api.JSApiMsgGetRequest
	prefix := apiPrefix + "DIRECT.GET." + s.name
	if rest := strings.TrimPrefix(PlainAPISubject(string(m.Subject)), prefix); rest != "" {
		if len(m.Data) > 0 {
			s.directStatus(reply, directBadRequest)
			return
		}
		ask.LastFor = rest[1:]
	} else if len(m.Data) == 0 {
		s.directStatus(reply, directEmptyRequest)
		return
	} else if err := json.Unmarshal(m.Data, &ask); err == nil && reflect.ValueOf(ask).IsZero() {
		s.directStatus(reply, directEmptyRequest)
		return
	} else if err != nil || !validDirect(&ask) {
		s.directStatus(reply, directBadRequest)
		return
	}
	seq, err := s.find(&ask)
	if err != nil {
		s.directStatus(reply, directNotFound)
		return
	}
	s.read(seq, func(m *record.StoredMessage, err error) {
		if err != nil {
			s.directStatus(reply, directFailure(err))
			return
		}
		s.pub.Publish(broker.Msg{Subject: reply, Header: s.directHeader(m), Data: m.Data})
	})
}

func directFailure(err error) string {
	if errors.Is(err, errStreamEnded) {
		return directNotFound
	}
	return directUnavailable
}

// validDirect reports whether a request asks for one message in one way.
func validDirect(ask *api.JSApiMsgGetRequest) bool {
	if ask.Batch > 0 || len(ask.MultiLastFor) > 0 || ask.UpToSeq > 0 || ask.UpToTime != nil {
		return false // batches of direct gets: docs/compat.md
	}
	if ask.LastFor != "" {
		return ask.Seq == 0 && ask.NextFor == "" && ask.StartTime == nil
	}
	return ask.Seq > 0 || ask.NextFor != "" || ask.StartTime != nil
}

func (s *Stream) directStatus(reply []byte, header string) {
	s.pub.Publish(broker.Msg{Subject: reply, Header: []byte(header)})
}

// directHeader is the message's header block with where it was found.
func (s *Stream) directHeader(m *record.StoredMessage) []byte {
	b := openHeader(s.scratch[:0], m.Header)
	b = proto.AppendHeaderField(b, "Nats-Stream", s.name)
	b = proto.AppendHeaderField(b, "Nats-Subject", string(m.Subject))
	b = proto.AppendHeaderField(b, "Nats-Sequence", strconv.FormatUint(m.Seq, 10))
	b = proto.AppendHeaderField(b, "Nats-Time-Stamp", time.Unix(0, m.Time).UTC().Format(time.RFC3339Nano))
	b = append(b, "\r\n"...)
	s.scratch = b
	return b
}
