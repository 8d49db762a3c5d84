package stream

import (
	"testing"
)

func TestAppendNote(t *testing.T) {
	for header, want := range map[string]string{
		"":                         "",
		"NATS/1.0\r\nA: b\r\n\r\n": "",
		"NATS/1.0\r\nNats-Msg-Id: x\r\nNats-Expected-Stream: S\r\n\r\n":             "",
		"NATS/1.0\r\nA: b\r\nNats-TTL: 5s\r\nNats-Msg-Id: x\r\n\r\n":                "NATS/1.0\r\nNats-TTL: 5s\r\n\r\n",
		"NATS/1.0\r\nKV-Operation: PURGE\r\n\r\n":                                   "NATS/1.0\r\nKV-Operation: PURGE\r\n\r\n",
		"NATS/1.0\r\nKV-Operation: DEL\r\nNats-Rollup: sub\r\n\r\n":                 "",
		"NATS/1.0\r\nNats-Schedule: @every 1s\r\nNats-Schedule-Target: t\r\n\r\n":   "NATS/1.0\r\nNats-Schedule: @every 1s\r\nNats-Schedule-Target: t\r\n\r\n",
		"NATS/1.0\r\nX: Nats-TTL: 5\r\n\r\n":                                        "",
		"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: never\r\nq: r\r\n\r\n": "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: never\r\n\r\n",
	} {
		if got := string(AppendNote(nil, []byte(header), false)); got != want {
			t.Errorf("of %q: %q, want %q", header, got, want)
		}
	}
}

func TestAppendNoteWithID(t *testing.T) {
	const header = "NATS/1.0\r\nA: b\r\nNats-Msg-Id: x\r\n\r\n"
	if got := string(AppendNote(nil, []byte(header), true)); got != "NATS/1.0\r\nNats-Msg-Id: x\r\n\r\n" {
		t.Errorf("the note is %q", got)
	}
}
