package conn

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/certtest"
)

// websocketServer also listens for WebSocket clients; the URL is theirs.
func websocketServer(t testing.TB, settings account.Settings, change func(*WebsocketOptions)) (s *Server, tcp, url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &WebsocketOptions{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
	if change != nil {
		change(o)
	}
	s, tcp = startServer(t, settings, func(all *Options) { all.Websocket, all.LongFirstPing = o, true })
	served := make(chan error, 1)
	go func() { served <- s.ServeWebsocket(l) }()
	t.Cleanup(func() {
		_ = s.Shutdown(t.Context()) // before the one of startServer
		if err := <-served; !errors.Is(err, ErrClosed) {
			t.Errorf("ServeWebsocket returned %v", err)
		}
	})
	scheme := "ws://"
	if o.TLS != nil {
		scheme = "wss://"
	}
	return s, tcp, scheme + l.Addr().String()
}

// client dials and is a client that has been greeted.
func client(t testing.TB, url string, d *websocket.Dialer, header http.Header) (*raw, *websocket.Conn) {
	t.Helper()
	ws, _, err := d.Dial(url, header)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return wrap(t, &frames{Conn: ws, compress: d.EnableCompression}), ws
}

// TestWebsocketFrames: operations begin and end anywhere in frames.
func TestWebsocketFrames(t *testing.T) {
	payload := strings.Repeat("0123456789", 20_000)
	input := "CONNECT {\"verbose\":false}\r\nSUB a 1\r\nPUB a 5\r\nhello\r\nPUB a 200000\r\n" + payload + "\r\nPING\r\n"
	want := "MSG a 1 5\r\nhello\r\nMSG a 1 200000\r\n" + payload + "\r\nPONG\r\n"
	for _, compress := range []bool{false, true} {
		_, _, url := websocketServer(t, account.Settings{}, func(o *WebsocketOptions) { o.Compression = true })
		for _, size := range []int{1, 7, 1000, 70_000, len(input)} {
			c, ws := client(t, url, &websocket.Dialer{EnableCompression: compress}, nil)
			go func() {
				for rest, sent := input, 0; rest != ""; sent++ {
					n := min(size, len(rest))
					if sent > 100 {
						n = min(max(size, 50_000), len(rest)) // the rest would take long
					}
					if ws.WriteMessage(websocket.BinaryMessage, []byte(rest[:n])) != nil {
						return
					}
					rest = rest[n:]
				}
			}()
			c.expect(want)
		}
	}
}

func TestWebsocketINFO(t *testing.T) {
	s, tcp, url := websocketServer(t, account.Settings{}, func(o *WebsocketOptions) { o.Host, o.ConnectURLs = "ws.example", []string{"ws.example:443"} })
	ws, _, err := websocket.DefaultDialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	_, info, err := ws.ReadMessage()
	if err != nil || !strings.Contains(string(info), `"host":"ws.example"`) || !strings.Contains(string(info), `"connect_urls":["ws.example:443"]`) {
		t.Errorf("INFO is %s, %v", info, err)
	}
	dial(t, tcp).handshake("")
	for _, c := range s.Connections(false) {
		if c.Websocket != (c.ID == 1) || c.IP != "127.0.0.1" || c.Port == 0 {
			t.Errorf("monitoring shows %+v", c)
		}
	}
}

// TestWebsocketClose: a client hears -ERR and then why it is closed; one that closes is a client that closed.
func TestWebsocketClose(t *testing.T) {
	s, _, url := websocketServer(t, account.Settings{}, nil)
	c, ws := client(t, url, websocket.DefaultDialer, nil)
	c.send("NONSENSE\r\n")
	c.expect("-ERR 'Unknown Protocol Operation'\r\n")
	_, _, err := ws.NextReader()
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.CloseProtocolError || closed.Text != "Protocol Violation" {
		t.Errorf("closed with %v", err)
	}
	_, polite := client(t, url, websocket.DefaultDialer, nil)
	if err := polite.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		list, _ := s.ClosedConnections()
		return len(list) == 2 && list[1].Reason == "Client Closed"
	})
	// Pings are answered in between.
	c, ws = client(t, url, websocket.DefaultDialer, nil)
	ponged := make(chan struct{})
	ws.SetPongHandler(func(text string) error { close(ponged); return nil })
	if err := ws.WriteControl(websocket.PingMessage, []byte("x"), time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	c.handshake("")
	select {
	case <-ponged:
	default:
		t.Error("no pong")
	}
}

func TestWebsocketOrigin(t *testing.T) {
	tests := []struct {
		same    bool
		allowed []string
		origin  string
		in      bool
	}{
		{false, nil, "http://anywhere", true},
		{true, nil, "", true},
		{true, nil, "http://HOST", true},
		{true, nil, "https://HOST", false},
		{true, nil, "http://other", false},
		{false, []string{"https://a.example", "http://b.example:81"}, "https://A.example:443", true},
		{false, []string{"https://a.example", "http://b.example:81"}, "http://b.example:81", true},
		{false, []string{"https://a.example", "http://b.example:81"}, "http://b.example", false},
		{false, []string{"https://a.example"}, "http://a.example", false},
		{false, []string{"https://a.example"}, ":nonsense", false},
	}
	for _, tc := range tests {
		_, _, url := websocketServer(t, account.Settings{}, func(o *WebsocketOptions) { o.SameOrigin, o.AllowedOrigins = tc.same, tc.allowed })
		header := http.Header{}
		if tc.origin != "" {
			header.Set("Origin", strings.ReplaceAll(tc.origin, "HOST", strings.TrimPrefix(url, "ws://")))
		}
		ws, answer, err := websocket.DefaultDialer.Dial(url, header)
		if (err == nil) != tc.in {
			t.Errorf("%+v: %v", tc, err)
		}
		if err == nil {
			ws.Close()
		} else if answer == nil || answer.StatusCode != http.StatusForbidden {
			t.Errorf("%+v: %v, %v", tc, answer, err)
		}
	}
}

func TestWebsocketUpgrade(t *testing.T) {
	_, _, url := websocketServer(t, account.Settings{}, func(o *WebsocketOptions) {
		o.Headers, o.HandshakeTimeout = map[string]string{"X-Test": "yes"}, 200*time.Millisecond
	})
	addr := strings.TrimPrefix(url, "ws://")
	upgrade := "Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	tests := []struct{ name, input, want string }{
		{"right", "GET / HTTP/1.1\r\n" + upgrade, "HTTP/1.1 101 "},
		{"any path", "GET /a/b HTTP/1.1\r\n" + upgrade, "HTTP/1.1 101 "},
		{"no GET", "POST / HTTP/1.1\r\nContent-Length: 0\r\n" + upgrade, "HTTP/1.1 405 "},
		{"no upgrade", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 "},
		{"an old version", "GET / HTTP/1.1\r\n" + strings.Replace(upgrade, "13", "8", 1), "HTTP/1.1 400 "},
		{"MQTT", "GET /mqtt HTTP/1.1\r\n" + upgrade, "HTTP/1.1 404 "},
		{"a leaf node", "GET /leafnode HTTP/1.1\r\n" + upgrade, "HTTP/1.1 404 "},
		{"the plain protocol", "CONNECT {}\r\n", "HTTP/1.1 400 "},
		{"silence", "", ""},
		{"headers without end", "GET / HTTP/1.1\r\nX: y\r\n", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			_ = nc.SetDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(nc, tc.input); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, max(len(tc.want), 1))
			n, err := io.ReadFull(nc, got)
			if string(got[:n]) != tc.want && !(tc.want == "" && strings.HasPrefix(string(got[:n]), "H")) {
				t.Errorf("got %q, %v", got[:n], err)
			}
			if errors.Is(err, net.ErrClosed) || err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("the connection stays open: %v", err)
			}
		})
	}
}

// TestWebsocketBadFrames: what is no frame ends the connection.
func TestWebsocketBadFrames(t *testing.T) {
	s, _, url := websocketServer(t, account.Settings{}, nil)
	for _, input := range []string{"\x82\x05hello", "\xff\xff\xff\xff\xff", "\x83\x80\x00\x00\x00\x00", "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", "\x80\x80\x00\x00\x00\x00"} {
		_, ws := client(t, url, websocket.DefaultDialer, nil)
		if _, err := io.WriteString(ws.NetConn(), input); err != nil {
			t.Fatal(err)
		}
		_ = ws.NetConn().SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, ws.NetConn()); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("after %q the connection stays open", input)
		}
	}
	waitFor(t, func() bool { return s.Stats().Connections == 0 })
}

func TestWebsocketAuth(t *testing.T) {
	list := account.Settings{Users: []account.UserSettings{
		{Name: "a", Password: "p"}, {Name: "tcp", Password: "p", ConnectionTypes: []string{"STANDARD"}}, {Name: "ws", Password: "p", ConnectionTypes: []string{"WEBSOCKET"}},
	}}
	anyone := list
	anyone.Websocket.NoAuthUser = "ws"
	token := account.Settings{Websocket: account.WebsocketSettings{Token: "t"}}
	tests := []struct {
		name        string
		settings    account.Settings
		connect     string
		cookie      string
		overWS, tcp bool
	}{
		{"a user", list, `"user":"a","pass":"p"`, "", true, true},
		{"a wrong password", list, `"user":"a","pass":"x"`, "", false, false},
		{"a user of TCP", list, `"user":"tcp","pass":"p"`, "", false, true},
		{"a user of WebSocket", list, `"user":"ws","pass":"p"`, "", true, false},
		{"nobody", list, `"name":"x"`, "", false, false},
		{"nobody may be somebody", anyone, `"name":"x"`, "", true, false},
		{"a token of its own", token, `"auth_token":"t"`, "", true, true},
		{"a wrong token of its own", token, `"auth_token":"x"`, "", false, true},
		{"cookies", list, `"name":"x"`, "u=a; p=p", true, false},
		{"CONNECT before cookies", list, `"user":"a","pass":"x"`, "u=a; p=p", false, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, tcp, url := websocketServer(t, tc.settings, func(o *WebsocketOptions) { o.UserCookie, o.PassCookie = "u", "p" })
			header := http.Header{}
			if tc.cookie != "" {
				header.Set("Cookie", tc.cookie)
			}
			ws, _ := client(t, url, websocket.DefaultDialer, header)
			for _, c := range []struct {
				*raw
				in bool
			}{{ws, tc.overWS}, {dial(t, tcp), tc.tcp}} {
				c.send("CONNECT {\"verbose\":false," + tc.connect + "}\r\nPING\r\n")
				if c.in {
					c.expect("PONG\r\n")
				} else {
					c.expect("-ERR 'Authorization Violation'\r\n")
				}
			}
		})
	}
}

// TestWebsocketNATSGo runs the client that people use, with TLS and compression, from many goroutines.
func TestWebsocketNATSGo(t *testing.T) {
	ca := certtest.New(t)
	for _, options := range [][]nats.Option{nil, {nats.Compression(true)}} {
		s, tcp, url := websocketServer(t, account.Settings{}, func(o *WebsocketOptions) {
			o.Compression = true
			o.TLS = &TLSOptions{Config: &tls.Config{Certificates: []tls.Certificate{ca.Leaf(t, nil)}}}
		})
		sub, err := nats.Connect(tcp)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		const publishers, messages = 4, 500
		got := make(chan *nats.Msg, publishers*messages)
		if _, err := sub.ChanSubscribe("a", got); err != nil {
			t.Fatal(err)
		}
		if err := sub.Flush(); err != nil {
			t.Fatal(err)
		}
		payload := []byte(strings.Repeat("payload ", 300))
		var wg sync.WaitGroup
		for range publishers {
			wg.Go(func() {
				nc, err := nats.Connect(url, append(options, nats.Secure(clientTLS(ca)))...)
				if err != nil {
					t.Error(err)
					return
				}
				defer nc.Close()
				for range messages {
					if err := nc.Publish("a", payload); err != nil {
						t.Error(err)
					}
				}
				if err := nc.Flush(); err != nil {
					t.Error(err)
				}
			})
		}
		for range publishers * messages {
			select {
			case m := <-got:
				if string(m.Data) != string(payload) {
					t.Fatalf("got %d other bytes", len(m.Data))
				}
			case <-time.After(patience):
				t.Fatal("messages are missing")
			}
		}
		wg.Wait()
		for _, c := range s.Connections(false) {
			if c.Websocket && c.TLS == nil {
				t.Error("monitoring shows no TLS")
			}
		}
	}
}

// TestWebsocketTLSReload: a new certificate is for new connections.
func TestWebsocketTLSReload(t *testing.T) {
	ca, next := certtest.New(t), certtest.New(t)
	s, _, url := websocketServer(t, account.Settings{}, func(o *WebsocketOptions) {
		o.TLS = &TLSOptions{Config: &tls.Config{Certificates: []tls.Certificate{ca.Leaf(t, nil)}}}
	})
	old, _ := client(t, url, &websocket.Dialer{TLSClientConfig: clientTLS(ca)}, nil)
	reload(t, s, account.Settings{}, func(o *Options) {
		w := *o.Websocket
		w.TLS = &TLSOptions{Config: &tls.Config{Certificates: []tls.Certificate{next.Leaf(t, nil)}}}
		o.Websocket = &w
	})
	old.handshake("")
	c, _ := client(t, url, &websocket.Dialer{TLSClientConfig: clientTLS(next)}, nil)
	c.handshake("")
}
