package consumer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// sweepEvery is how often a full waiting queue is searched for requests of requesters who left.
const sweepEvery = int64(time.Second)

// Pull takes a request for messages: the payload of $JS.API.CONSUMER.MSG.NEXT.<stream>.<consumer>, whose reply subject
// the messages go to. It is empty (one message), a number, or JSON (api.JSApiConsumerGetNextRequest). Requests that
// cannot wait are answered with a status. Both slices are copied where needed.
func (c *Consumer) Pull(reply, body []byte, now time.Time, fx *Effects) {
	if len(reply) == 0 {
		return
	}
	to := string(reply)
	if c.push {
		fx.status(to, statusPushBased)
		return
	}
	t := now.UnixNano()
	req, formal, err := parsePull(body)
	if err != nil {
		fx.statusLine(to, 400, "Bad Request - "+err.Error())
		return
	}
	code, text := c.refusePull(&req)
	if code == 0 {
		code, text = c.refuseGroup(&req, formal, t)
	}
	if code != 0 {
		fx.statusLine(to, code, text)
		return
	}
	if c.waiting.full() && t-c.waiting.swept >= sweepEvery {
		c.waiting.swept = t
		c.sweep(t, false, fx)
	}
	if req.NoWait && c.refuseNoWait(to, &req, t, fx) {
		return
	}
	if c.waiting.full() {
		// One who listens for heartbeats notices that they are missing; answered, it would ask again at once.
		if req.Heartbeat == 0 {
			fx.status(to, statusMaxWaiting)
		}
		return
	}
	r := c.waiting.new()
	r.reply, r.messages, r.bytes, r.noWait = to, req.Batch, req.MaxBytes, req.NoWait
	r.priority = priorityOf(&req, formal)
	if req.Expires != 0 {
		r.expires = later(t, int64(req.Expires))
	}
	if req.Heartbeat > 0 {
		r.heartbeat = int64(req.Heartbeat)
		r.beatAt = later(t, r.heartbeat)
	}
	c.waiting.add(r)
	c.sawActivity(t)
}

// RefuseLevel answers a pull request that asks for a newer API than the server has (header Nats-Required-Api-Level).
func (c *Consumer) RefuseLevel(reply []byte, fx *Effects) {
	switch {
	case len(reply) == 0:
	case c.push:
		fx.status(string(reply), statusPushBased)
	default:
		fx.status(string(reply), statusAPILevel)
	}
}

// refusePull checks a request against the limits of the configuration.
func (c *Consumer) refusePull(req *api.JSApiConsumerGetNextRequest) (code int, text string) {
	cfg := &c.cfg
	switch {
	case cfg.MaxRequestBatch > 0 && req.Batch > cfg.MaxRequestBatch:
		return 409, fmt.Sprintf("Exceeded MaxRequestBatch of %d", cfg.MaxRequestBatch)
	case cfg.MaxRequestExpires > 0 && req.Expires > cfg.MaxRequestExpires:
		return 409, fmt.Sprintf("Exceeded MaxRequestExpires of %v", cfg.MaxRequestExpires)
	case cfg.MaxRequestMaxBytes > 0 && req.MaxBytes > cfg.MaxRequestMaxBytes:
		return 409, fmt.Sprintf("Exceeded MaxRequestMaxBytes of %v", cfg.MaxRequestMaxBytes)
	}
	return 0, ""
}

// refuseNoWait answers a request that is not to wait, when there is nothing for it.
func (c *Consumer) refuseNoWait(to string, req *api.JSApiConsumerGetNextRequest, now int64, fx *Effects) bool {
	available := c.numPending + uint64(c.redeliver.live)
	if available == 0 {
		if req.Expires != 0 {
			return false
		}
		c.sawActivity(now)
		fx.status(to, statusNoMessages)
		return true
	}
	c.sweep(now, false, fx)
	if wanted := c.waiting.wanted(); wanted > 0 && available < uint64(wanted) {
		c.sawActivity(now)
		fx.status(to, statusRequestsPending)
		return true
	}
	return false
}

var errLargeHeartbeat = errors.New("heartbeat value too large")

// parsePull reads the payload of a pull request: formal is JSON. What is neither JSON nor a number asks for one message.
func parsePull(body []byte) (req api.JSApiConsumerGetNextRequest, formal bool, err error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '{' {
		req.Batch = 1
		if n, err := strconv.Atoi(string(body)); err == nil {
			req.Batch = n
		}
		return req, false, nil
	}
	if !scanPull(body, &req) {
		if req, err = decodePull(body); err != nil {
			return req, true, err
		}
	}
	if req.Heartbeat > 0 && req.Heartbeat > req.Expires/2 {
		return req, true, errLargeHeartbeat
	}
	return req, true, nil
}

func decodePull(body []byte) (req api.JSApiConsumerGetNextRequest, err error) {
	err = json.Unmarshal(body, &req)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		switch wrong.Field {
		case "group", "min_pending", "min_ack_pending", "id", "priority":
			wrong.Field = "PriorityGroup." + wrong.Field // where nats-server has it
		}
	}
	return req, err
}

// scanPull reads the JSON that clients usually send, a flat object of integers and booleans, without the cost of the
// general decoder. It returns false for anything else, right or wrong.
func scanPull(s []byte, req *api.JSApiConsumerGetNextRequest) bool {
	s = s[1:] // the opening brace
	for first := true; ; first = false {
		s = bytes.TrimLeft(s, " \t\r\n")
		switch {
		case len(s) == 1 && s[0] == '}' && first:
			return true
		case len(s) == 0 || s[0] != '"':
			return false
		}
		key, rest, ok := bytes.Cut(s[1:], []byte{'"'})
		s = bytes.TrimLeft(rest, " \t\r\n")
		if !ok || len(s) == 0 || s[0] != ':' {
			return false
		}
		s = bytes.TrimLeft(s[1:], " \t\r\n")
		end := bytes.IndexAny(s, ",} \t\r\n")
		if end < 0 || !setPull(req, key, s[:end]) {
			return false
		}
		s = bytes.TrimLeft(s[end:], " \t\r\n")
		if len(s) == 1 && s[0] == '}' {
			return true
		}
		if len(s) == 0 || s[0] != ',' {
			return false
		}
		s = s[1:]
	}
}

// setPull sets one field.
func setPull(req *api.JSApiConsumerGetNextRequest, key, value []byte) bool {
	if string(key) == "no_wait" {
		req.NoWait = string(value) == "true"
		return req.NoWait || string(value) == "false"
	}
	digits, rest, ok := number(value)
	if !ok || len(rest) > 0 || digits > 1<<62 || len(value) > 1 && value[0] == '0' {
		return false
	}
	switch n := int64(digits); string(key) {
	case "batch":
		req.Batch = int(n)
	case "expires":
		req.Expires = time.Duration(n)
	case "max_bytes":
		req.MaxBytes = int(n)
	case "idle_heartbeat":
		req.Heartbeat = time.Duration(n)
	default:
		return false
	}
	return true
}
