package conn

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sluicemq/sluice/internal/proto"
)

// compressAbove is the size from which a frame is worth compressing, as for nats-server.
const compressAbove = 64

// frames is a client's WebSocket as a stream of bytes: operations may begin and end anywhere in frames.
type frames struct {
	*websocket.Conn
	message   io.Reader // that is being read; nil between two
	compress  bool      // agreed on
	cookies   cookies
	transport *transport           // under TLS; nil without
	tls       *tls.ConnectionState // nil without
}

// newFrames takes over a connection that was upgraded by a request.
func newFrames(ws *websocket.Conn, r *http.Request, o *WebsocketOptions) *frames {
	f := &frames{Conn: ws, cookies: o.readCookies(r), compress: o.Compression && offersCompression(r)}
	if secure, ok := ws.NetConn().(*tls.Conn); ok {
		state := secure.ConnectionState()
		f.tls = &state
		f.transport, _ = secure.NetConn().(*transport)
	}
	return f
}

// socket is what is under all layers.
func (f *frames) socket() net.Conn {
	if f.transport != nil {
		return f.transport.Conn
	}
	return f.NetConn()
}

// sock gives access to the socket itself; nil where there is none.
func (f *frames) sock() syscall.RawConn {
	sc, ok := f.socket().(syscall.Conn)
	if !ok || !rawIO {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// Read reads on in the current message, or in the next one. A client that says goodbye is at its end.
func (f *frames) Read(b []byte) (int, error) {
	for {
		if f.message == nil {
			_, message, err := f.NextReader()
			var closed *websocket.CloseError
			if errors.As(err, &closed) {
				return 0, io.EOF
			}
			if err != nil {
				return 0, err
			}
			f.message = message
		}
		n, err := f.message.Read(b)
		if err == io.EOF {
			f.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write sends a message of one frame.
func (f *frames) Write(b []byte) (int, error) {
	f.EnableWriteCompression(f.compress && len(b) > compressAbove)
	if err := f.WriteMessage(websocket.BinaryMessage, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (f *frames) SetDeadline(at time.Time) error {
	return errors.Join(f.SetReadDeadline(at), f.SetWriteDeadline(at))
}

// cut closes the socket without a word.
func (f *frames) cut() { f.socket().Close() }

// farewell tells the client why it is closed.
func (f *frames) farewell(why Reason) {
	_ = f.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(why.websocket(), why.String()), time.Now().Add(farewell))
}

// websocket is the status of a closing frame, as nats-server chooses it.
func (r Reason) websocket() int {
	switch r {
	case ClientClosed:
		return websocket.CloseNormalClosure
	case AuthenticationTimeout, AuthenticationViolation, AuthenticationExpired, SlowConsumerPendingBytes, SlowConsumerWriteDeadline,
		MaxAccountConnectionsExceeded, MaxConnectionsExceeded, MaxControlLineExceeded, MaxSubscriptionsExceeded, MissingAccount:
		return websocket.ClosePolicyViolation
	case ParseError, ProtocolViolation, BadClientProtocolVersion:
		return websocket.CloseProtocolError
	case MaxPayloadExceeded:
		return websocket.CloseMessageTooBig
	case WriteError, ReadError, StaleConnection, ServerShutdown:
		return websocket.CloseGoingAway
	}
	return websocket.CloseInternalServerErr
}

// cookies are what a client showed with its upgrade.
type cookies struct{ user, pass, token string }

// complete fills in what a CONNECT leaves out.
func (k *cookies) complete(c *proto.Connect) {
	def(&c.User, k.user)
	def(&c.Pass, k.pass)
	def(&c.Token, k.token)
}
