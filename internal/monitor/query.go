package monitor

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// badQuery is an answer to a request that makes no sense, in nats-server's words.
type badQuery string

func (b badQuery) Error() string { return string(b) }

// query reads the parameters of a request. It keeps the first error, so that a handler asks once.
type query struct {
	values url.Values
	err    error
}

func newQuery(r *http.Request) *query { return &query{values: r.URL.Query()} }

func (q *query) text(name string) string { return q.values.Get(name) }

func (q *query) flag(name string) bool {
	return parameter(q, name, "boolean", strconv.ParseBool)
}

func (q *query) number(name string) int {
	return parameter(q, name, "int", strconv.Atoi)
}

func (q *query) id(name string) uint64 {
	return parameter(q, name, "uint64", func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
}

// parameter reads one; a missing or empty one is the zero value. The texts are nats-server's.
func parameter[T any](q *query, name, kind string, read func(string) (T, error)) T {
	var zero T
	s := q.values.Get(name)
	if s == "" {
		return zero
	}
	v, err := read(s)
	if err != nil && q.err == nil {
		q.err = badQuery(fmt.Sprintf("Error decoding %s for '%s': %v", kind, name, err))
	}
	if err != nil {
		return zero
	}
	return v
}

// defaultLimit is the length of a page of connections, subscriptions or accounts.
const defaultLimit = 1024

// page cuts the part from offset with at most limit items out of a list.
func page[T any](items []T, offset, limit int) []T {
	offset = min(max(offset, 0), len(items))
	return items[offset : offset+min(limit, len(items)-offset)]
}
