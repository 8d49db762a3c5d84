// Package logging writes log lines in the form that users of nats-server know:
//
//	[pid] 2026/01/02 15:04:05.000000 [INF] text key=value
//
// to standard error or to a file with rotation by size. Everything above it only knows *slog.Logger.
package logging

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// LevelTrace is for the trace of the client protocol. It is switched apart from debug, as nats-server's -V is from -D,
// and therefore is not simply "everything below debug".
const LevelTrace = slog.Level(-8)

// LevelFatal is for the error that ends the process.
const LevelFatal = slog.Level(12)

// Handler formats records for a Log. It is safe for concurrent use; handlers made from it share its Log, so a change
// of the Log's options reaches them all.
type Handler struct {
	log *Log
	// attrs is the text of the attributes added by WithAttrs, each with a leading space.
	attrs string
	// group is the dotted prefix of the open groups, with a trailing dot.
	group string
}

var _ slog.Handler = (*Handler)(nil)

// Enabled tells whether records of the level are written at present.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool {
	o := h.log.current.Load()
	switch {
	case level >= slog.LevelInfo:
		return true
	case level >= slog.LevelDebug:
		return o.Debug
	default:
		return o.Trace
	}
}

// WithAttrs returns a handler that adds attrs to every record.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	b := []byte(h.attrs)
	for _, a := range attrs {
		b = appendAttr(b, h.group, a)
	}
	return &Handler{log: h.log, attrs: string(b), group: h.group}
}

// WithGroup returns a handler that puts "name." before the keys of later attributes.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &Handler{log: h.log, attrs: h.attrs, group: h.group + name + "."}
}

// lines recycles line buffers; one that grew beyond maxPooledLine is dropped.
var lines = sync.Pool{New: func() any { b := make([]byte, 0, 256); return &b }}

const maxPooledLine = 16 << 10

// pidText never changes and stands at the head of every line.
var pidText = "[" + strconv.Itoa(os.Getpid()) + "] "

// Handle writes one record as one line. The error is that of the write; slog drops it, since there is no better place.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	o := h.log.current.Load()
	p := lines.Get().(*[]byte)
	b := append((*p)[:0], pidText...)
	if !o.NoTime {
		b = appendTime(b, r.Time, o.UTC)
	}
	b = appendLabel(b, r.Level, o.color)
	b = appendMessage(b, r.Message)
	b = append(b, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		b = appendAttr(b, h.group, a)
		return true
	})
	b = append(b, '\n')
	err := h.log.write(b)
	if cap(b) <= maxPooledLine {
		*p = b
		lines.Put(p)
	}
	return err
}

func appendTime(b []byte, t time.Time, utc bool) []byte {
	if t.IsZero() {
		t = time.Now()
	}
	if utc {
		t = t.UTC()
	}
	return t.AppendFormat(b, "2006/01/02 15:04:05.000000 ")
}

// appendLabel writes "[INF] " and its like, in nats-server's colours where o.color asks for them.
func appendLabel(b []byte, level slog.Level, color bool) []byte {
	label, paint := "TRC", "33"
	switch {
	case level >= LevelFatal:
		label, paint = "FTL", "31"
	case level >= slog.LevelError:
		label, paint = "ERR", "31"
	case level >= slog.LevelWarn:
		label, paint = "WRN", "0;93"
	case level >= slog.LevelInfo:
		label, paint = "INF", "32"
	case level >= slog.LevelDebug:
		label, paint = "DBG", "36"
	}
	if !color {
		return append(append(append(b, '['), label...), "] "...)
	}
	b = append(append(append(b, "[\x1b["...), paint...), 'm')
	return append(append(b, label...), "\x1b[0m] "...)
}

// appendMessage keeps a record on one line: text from clients must not be able to forge another.
func appendMessage(b []byte, s string) []byte {
	for _, r := range s {
		switch {
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < ' ' && r != '\t' || r == 0x7f:
			b = append(b, `\x`...)
			b = append(b, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

func appendAttr(b []byte, group string, a slog.Attr) []byte {
	if a.Equal(slog.Attr{}) {
		return b
	}
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, m := range v.Group() {
			b = appendAttr(b, group, m)
		}
		return b
	}
	b = append(b, ' ')
	b = append(b, group...)
	b = append(b, a.Key...)
	b = append(b, '=')
	return appendValue(b, v)
}

func appendValue(b []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10)
	case slog.KindTime:
		return v.Time().AppendFormat(b, time.RFC3339Nano)
	}
	s := v.String()
	if s == "" || slices.ContainsFunc([]rune(s), needsQuote) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

func needsQuote(r rune) bool {
	return r == ' ' || r == '"' || r == '=' || !unicode.IsPrint(r)
}
