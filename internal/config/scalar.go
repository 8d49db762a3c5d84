package config

import (
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// The setters for single values. Each reports a value of the wrong form and then leaves the field alone.

func (d *decoder) text(field *string) setter {
	return func(v value) {
		if s, ok := d.asText(v); ok {
			*field = s
		}
	}
}

func (d *decoder) asText(v value) (string, bool) {
	s, ok := v.v.(string)
	if !ok {
		hint := ""
		if _, number := v.v.(int64); number {
			hint = `; put it in quotes`
		}
		d.fault(v, "expected a string, got %s%s", describe(v.v), hint)
	}
	return s, ok
}

// texts reads a string or a list of strings.
func (d *decoder) texts(field *[]string) setter {
	return func(v value) {
		for _, item := range v.list() {
			if s, ok := d.asText(item); ok {
				*field = append(*field, s)
			}
		}
	}
}

func (d *decoder) flag(field *bool) setter {
	return func(v value) {
		if b, ok := d.asBool(v); ok {
			*field = b
		}
	}
}

func (d *decoder) asBool(v value) (bool, bool) {
	b, ok := v.v.(bool)
	if !ok {
		d.fault(v, "expected true or false, got %s", describe(v.v))
	}
	return b, ok
}

// number reads a whole number from lo to hi, which must fit into the field.
func number[T int | int32 | int64](d *decoder, field *T, lo, hi int64) setter {
	return func(v value) {
		n, ok := v.v.(int64)
		switch {
		case !ok:
			d.fault(v, "expected a whole number, got %s", describe(v.v))
		case n < lo || n > hi:
			d.fault(v, "%d is out of the range %d to %d", n, lo, hi)
		default:
			*field = T(n)
		}
	}
}

// port reads a port number; 0 takes the default and -1 a free port.
func (d *decoder) port(field *int) setter { return number(d, field, RandomPort, math.MaxUint16) }

// real reads a number with or without a fraction.
func (d *decoder) real(field *float64) setter {
	return func(v value) {
		switch n := v.v.(type) {
		case int64:
			*field = float64(n)
		case float64:
			*field = n
		default:
			d.fault(v, "expected a number, got %s", describe(v.v))
		}
	}
}

// storage reads a size in bytes as nats-server does for JetStream: a number, or a string with one of the suffixes K, M,
// G and T, which are powers of 1024.
func (d *decoder) storage(field *int64) setter {
	return func(v value) {
		switch s := v.v.(type) {
		case int64:
			*field = s
		case string:
			n, ok := parseStorage(s)
			if !ok {
				d.fault(v, `expected a size such as 1GB or "10G", got %q`, s)
				return
			}
			*field = n
		default:
			d.fault(v, "expected a size, got %s", describe(v.v))
		}
	}
}

func parseStorage(s string) (int64, bool) {
	if s == "" {
		return 0, true
	}
	shift := 10 * (1 + strings.IndexByte("KMGT", s[len(s)-1]))
	n, err := strconv.ParseInt(s[:len(s)-1], 10, 64)
	if shift == 0 || err != nil || n > math.MaxInt64>>shift || n < math.MinInt64>>shift {
		return 0, false
	}
	return n << shift, true
}

// duration reads a string such as "10s".
func (d *decoder) duration(field *time.Duration) setter {
	return func(v value) {
		if dur, ok := d.asDuration(v); ok {
			*field = dur
		}
	}
}

func (d *decoder) asDuration(v value) (time.Duration, bool) {
	s, ok := v.v.(string)
	if !ok {
		d.fault(v, `expected a duration such as "10s", got %s`, describe(v.v))
		return 0, false
	}
	dur, err := time.ParseDuration(s)
	if err != nil {
		d.fault(v, `expected a duration such as "10s", got %q`, s)
	}
	return dur, err == nil
}

// durationOrSeconds also takes a bare number of seconds, the old form of some settings.
func (d *decoder) durationOrSeconds(field *time.Duration) setter {
	return func(v value) {
		n, ok := v.v.(int64)
		if !ok {
			d.duration(field)(v)
			return
		}
		if n < -maxSeconds || n > maxSeconds {
			d.fault(v, "%d seconds are too many", n)
			return
		}
		// Also the trap of an unquoted 1m, which the syntax reads as a million.
		d.warn(v, `read as %d seconds; write durations as "10s"`, n)
		*field = time.Duration(n) * time.Second
	}
}

const maxSeconds = int64(math.MaxInt64 / time.Second)

// listen reads "host:port" or a port alone.
func (d *decoder) listen(host *string, port *int, hostName, portName string) setter {
	return func(v value) {
		h, p := "", 0
		switch s := v.v.(type) {
		case int64:
			d.port(&p)(v)
		case string:
			var text string
			var err error
			if h, text, err = net.SplitHostPort(s); err != nil {
				d.fault(v, "expected host:port, got %q", s)
				return
			}
			if p, err = strconv.Atoi(text); err != nil || p < RandomPort || p > math.MaxUint16 {
				d.fault(v, "%q is no port", text)
				return
			}
		default:
			d.fault(v, "expected a port or host:port, got %s", describe(v.v))
			return
		}
		if h != "" && d.claim(hostName, v, h) {
			*host = h
		}
		if d.claim(portName, v, int64(p)) {
			*port = p
		}
	}
}
