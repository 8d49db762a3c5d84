package conn

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/sluicemq/sluice/internal/account"
)

// traceLog keeps the trace, without who it is about.
type traceLog struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *traceLog) Enabled(context.Context, slog.Level) bool { return true }
func (l *traceLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level != LevelTrace {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, text, _ := strings.Cut(r.Message, " - cid:1 - ")
	l.lines = append(l.lines, text)
	return nil
}

func (l *traceLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// TestTrace looks for the lines that nats-server traces for the same operations.
func TestTrace(t *testing.T) {
	log := &traceLog{}
	_, addr := startServer(t, account.Settings{}, func(o *Options) { o.Trace, o.MaxTraced, o.Log = true, 10, slog.New(log) })
	c := dial(t, addr)
	c.send(`CONNECT {"verbose":false,"headers":true,"pass":"hunter2","auth_token":"hunter2"}` + "\r\nSUB a.* q 1\r\nPUB a.x 5\r\nhello\r\nPUB a.x rep 0\r\n\r\n" +
		"HPUB a.x 12 17\r\nNATS/1.0\r\n\r\nhello\r\nPUB none rep 2\r\nhi\r\nUNSUB 1 5\r\nPING\r\n")
	c.expect("MSG a.x 1 5\r\nhello\r\nMSG a.x 1 rep 0\r\n\r\nHMSG a.x 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\nPONG\r\n")
	got := log.text()
	at := 0
	for _, line := range []string{ // in this order
		"<<- [SUB a.* q 1]", "<<- [PUB a.x 5]", `<<- MSG_PAYLOAD: ["hello"]`, "<<- [PUB a.x rep 0]", "<<- [HPUB a.x 12 17]",
		`<<- MSG_PAYLOAD: ["NATS/1.0\r\n..."]`, "<<- [PUB none rep 2]", `<<- MSG_PAYLOAD: ["hi"]`, "<<- [UNSUB 1 5]", "<<- [PING]", "->> [PONG]",
	} {
		i := strings.Index(got[at:], line)
		if i < 0 {
			t.Fatalf("no %s, or not there, in\n%s", line, got)
		}
		at += i
	}
	for _, line := range []string{"->> [MSG a.x 1 5]", `->> MSG_PAYLOAD: ["hello"]`, "->> [MSG a.x 1 rep 0]", "->> [HMSG a.x 1 12 17]", `->> MSG_PAYLOAD: ["NATS/1.0\r\n..."]`} {
		if !strings.Contains(got, line) {
			t.Errorf("no %s in\n%s", line, got)
		}
	}
	if strings.Contains(got, "hunter2") || strings.Contains(got, `[""]`) {
		t.Errorf("secrets or empty payloads in\n%s", got)
	}
}
