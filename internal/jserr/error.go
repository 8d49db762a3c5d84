// Package jserr names the errors of the JetStream API. Codes and texts come from NATS's published table
// (github.com/nats-io/jsm.go, schemas/server/errors.json) and, where nats-server is ahead of it, from newer.json;
// code.go is generated from both.
package jserr

//go:generate go run ./gen

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/jsm.go/schemas"
)

// Code is an error code of the JetStream API (err_code in JSON).
type Code uint16

// Error is a failure in the terms of the JetStream API. The domain returns it; jsapi writes it on the wire.
type Error struct {
	Code        Code
	Status      int // the HTTP-like class: 400, 404, 503 …
	Description string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.Code) }

// Is makes errors of one code equal, whatever their description.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// API is the error as JSON carries it.
func (e *Error) API() *api.ApiError {
	return &api.ApiError{Code: e.Status, ErrCode: uint16(e.Code), Description: e.Description}
}

// New builds an error. args are pairs of a placeholder's name in the description, without braces, and its value.
func New(code Code, args ...any) *Error {
	row := table()[code]
	text := row.Description
	for i := 0; i+1 < len(args); i += 2 {
		text = strings.ReplaceAll(text, "{"+fmt.Sprint(args[i])+"}", fmt.Sprint(args[i+1]))
	}
	return &Error{Code: code, Status: row.Code, Description: text}
}

type row struct {
	Constant    string `json:"constant"`
	Code        int    `json:"code"`
	ErrorCode   Code   `json:"error_code"`
	Description string `json:"description"`
}

//go:embed newer.json
var newer []byte

var table = sync.OnceValue(func() map[Code]row {
	raw, err := schemas.Load("server/errors.json")
	if err != nil {
		panic(fmt.Sprintf("jserr: the error table is not embedded: %v", err))
	}
	m := make(map[Code]row)
	for _, part := range [][]byte{raw, newer} {
		var rows []row
		if err := json.Unmarshal(part, &rows); err != nil {
			panic(fmt.Sprintf("jserr: the error table does not parse: %v", err))
		}
		for _, r := range rows {
			m[r.ErrorCode] = r
		}
	}
	return m
})
