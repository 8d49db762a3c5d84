package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// serve answers a connection's handshake and then sends text.
func serve(t *testing.T, text string) *Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "INFO {}\r\n")
		handshake := make([]byte, len(ConnectLine)+len("PING\r\n"))
		if _, err := io.ReadFull(c, handshake); err != nil {
			return
		}
		io.WriteString(c, "PONG\r\n"+text)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := Dial(ctx, l.Addr().String(), Options{ReadBuffer: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetReadTimeout(10 * time.Second)
	return conn
}

func TestNext(t *testing.T) {
	long := strings.Repeat("x", 3000)
	conn := serve(t, "MSG a.b 7 2\r\nhi\r\nPING\r\n+OK\r\nMSG a 1 re.ply 0\r\n\r\nHMSG a 1 12 14\r\nNATS/1.0\r\n\r\nok\r\n"+
		"HMSG a 1 re 12 12\r\nNATS/1.0\r\n\r\n\r\nPONG\r\n"+strings.Repeat("MSG long 9 3000\r\n"+long+"\r\n", 5)+"-ERR 'Slow'\r\n")
	want := []string{`a.b 7 "" "" "hi"`, `a 1 "re.ply" "" ""`, `a 1 "" "NATS/1.0\r\n\r\n" "ok"`, `a 1 "re" "NATS/1.0\r\n\r\n" ""`, "PONG"}
	for range 5 {
		want = append(want, fmt.Sprintf(`long 9 "" "" %q`, long))
	}
	for i, w := range want {
		m, err := conn.Next()
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%s %d %q %q %q", m.Subject, m.SID, m.Reply, m.Header, m.Data)
		if m.Kind == Pong {
			got = "PONG"
		}
		if got != w {
			t.Errorf("message %d: %.200s, want %.200s", i, got, w)
		}
	}
	if _, err := conn.Next(); !errors.Is(err, ErrServer) {
		t.Errorf("%v, want the server's error", err)
	}
}

func TestNextRefusesWhatIsNoProtocol(t *testing.T) {
	for _, text := range []string{
		"what\r\n", "MSG a 1\r\n", "MSG a 1 x\r\n", "MSG a 1 -1\r\n", "MSG a b c d e f\r\n", "MSG a x 2\r\nhi\r\n", "MSG a 1 2\r\nhello\r\n",
		"HMSG a 1 5 2\r\nhi\r\n", "MSG a 1 99999999\r\n",
	} {
		if m, err := serve(t, text).Next(); !errors.Is(err, ErrProtocol) {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	}
}

// marked is a message with its mark as a server delivers it.
func marked(index, publisher int) string {
	body := make([]byte, 16)
	PutMark(body, index, publisher)
	return fmt.Sprintf("MSG a 1 16\r\n%s\r\n", body)
}

func TestCountFixed(t *testing.T) {
	f := NewFixed("a", "1", 16)
	f.Cycle, f.Publishers = 3, 2
	for _, tc := range []struct {
		name, text string
		messages   int
		pongs      int
		fault      string // of the error; every other connection ends with EOF
	}{
		{"in order over the cycle", marked(0, 0) + marked(1, 0) + marked(2, 0) + marked(0, 0), 4, 0, ""},
		{"two publishers, mixed", marked(0, 1) + marked(0, 0) + marked(1, 1) + marked(1, 0), 4, 0, ""},
		{"other lines between", marked(0, 0) + "PING\r\nPONG\r\n" + marked(1, 0) + "+OK\r\nPONG\r\n", 2, 2, ""},
		{"one lost", marked(0, 0) + marked(2, 0), 0, 0, "out of order"},
		{"one doubled", marked(0, 0) + marked(0, 0), 0, 0, "out of order"},
		{"unknown publisher", marked(0, 5), 0, 0, "out of order"},
		{"an error", "-ERR 'Slow Consumer'\r\n", 0, 0, "Slow Consumer"},
		{"garbage", "garbage\r\n", 0, 0, "unknown line"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			messages, pongs := 0, 0
			err := serve(t, tc.text).CountFixed(f, func(m, p int) error {
				messages, pongs = messages+m, pongs+p
				return nil
			})
			if tc.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fault) {
					t.Errorf("error %v, want %q", err, tc.fault)
				}
				return
			}
			if !errors.Is(err, io.EOF) || messages != tc.messages || pongs != tc.pongs {
				t.Errorf("%d messages, %d pongs, %v; want %d and %d", messages, pongs, err, tc.messages, tc.pongs)
			}
		})
	}
}
