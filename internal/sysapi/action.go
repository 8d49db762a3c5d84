package sysapi

import (
	"encoding/json"
	"errors"
)

// effects are the requests that do something, by the last token.
var effects = map[string]route{
	"KICK": {answer: func(s *Service, r *request) (any, error) {
		return nil, toClient(r, s.server.Kick, "no such client or leafnode id")
	}},
	"LDM": {answer: func(s *Service, r *request) (any, error) {
		return nil, toClient(r, s.server.TellLameDuck, "no such client id")
	}},
	"RELOAD": {answer: reading(func(s *Service, _ none) (any, error) {
		s.log.Info("The system account asks for a reload")
		return nil, s.server.ReadConfig()
	})},
}

// toClient does something to the client that the body names. A body that names none is an error, where nats-server
// says nothing.
func toClient(r *request, do func(cid uint64) bool, unknown string) error {
	var q struct {
		CID uint64 `json:"cid"`
	}
	if err := json.Unmarshal(r.body, &q); err != nil {
		return badRequest(err)
	}
	if !do(q.CID) {
		return errors.New(unknown)
	}
	return nil
}
