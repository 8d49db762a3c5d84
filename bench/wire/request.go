package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Client makes requests one at a time over a connection of its own: the control side of a benchmark.
type Client struct {
	*Conn
	inbox string
	n     int
}

// DialClient connects a Client. The inbox prefix must be unique among the connections of a server.
func DialClient(ctx context.Context, addr, inbox string) (*Client, error) {
	c, err := Dial(ctx, addr, Options{ReadBuffer: 1 << 20})
	if err != nil {
		return nil, err
	}
	if err := c.Write(fmt.Appendf(nil, "SUB %s.* 1\r\n", inbox)); err != nil {
		return nil, err
	}
	return &Client{Conn: c, inbox: inbox}, c.Flush()
}

// Request publishes data and returns the reply's payload, which is valid until the next call. It waits up to 30 s.
func (c *Client) Request(subject string, data []byte) ([]byte, error) {
	c.n++
	reply := c.inbox + "." + strconv.Itoa(c.n)
	if err := c.Write(AppendPub(nil, subject, reply, data)); err != nil {
		return nil, err
	}
	c.SetReadTimeout(30 * time.Second)
	defer c.SetReadTimeout(0)
	for {
		m, err := c.Next()
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", subject, err)
		}
		if m.Kind != Msg || string(m.Subject) != reply {
			continue
		}
		if bytes.HasPrefix(m.Header, []byte("NATS/1.0 503")) {
			return nil, fmt.Errorf("request %s: no responders", subject)
		}
		return m.Data, nil
	}
}

// Pull publishes data and returns the next message that comes, which keeps the subject that it has in its stream: the
// answer to a pull of one. It is valid until the next call.
func (c *Client) Pull(subject string, data []byte) (Message, error) {
	c.n++
	if err := c.Write(AppendPub(nil, subject, c.inbox+"."+strconv.Itoa(c.n), data)); err != nil {
		return Message{}, err
	}
	c.SetReadTimeout(30 * time.Second)
	defer c.SetReadTimeout(0)
	for {
		if m, err := c.Next(); err != nil || m.Kind == Msg {
			return m, err
		}
	}
}

// API makes a JetStream API request: it marshals request (nil is an empty body), and unmarshals the reply into
// response unless that is nil. An error in the reply is an error here.
func (c *Client) API(subject string, request, response any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	reply, err := c.Request("$JS.API."+subject, body)
	if err != nil {
		return err
	}
	var failure struct {
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply, &failure); err != nil {
		return fmt.Errorf("$JS.API.%s: %w in %q", subject, err, clip(reply))
	}
	if failure.Error != nil {
		return fmt.Errorf("$JS.API.%s: %w: %s (%d)", subject, ErrServer, failure.Error.Description, failure.Error.Code)
	}
	if response == nil {
		return nil
	}
	if err := json.Unmarshal(reply, response); err != nil {
		return fmt.Errorf("$JS.API.%s: %w", subject, err)
	}
	return nil
}

// AppendPub appends a PUB with its payload to b. An empty reply means none.
func AppendPub(b []byte, subject, reply string, payload []byte) []byte {
	b = append(b, "PUB "...)
	b = append(b, subject...)
	b = append(b, ' ')
	if reply != "" {
		b = append(b, reply...)
		b = append(b, ' ')
	}
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, "\r\n"...)
	b = append(b, payload...)
	return append(b, "\r\n"...)
}

// AppendSub appends a SUB to b. An empty queue means none.
func AppendSub(b []byte, subject, queue, sid string) []byte {
	b = append(b, "SUB "...)
	b = append(b, subject...)
	b = append(b, ' ')
	if queue != "" {
		b = append(b, queue...)
		b = append(b, ' ')
	}
	b = append(b, sid...)
	return append(b, "\r\n"...)
}
