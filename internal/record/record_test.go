package record

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	m := StoredMessage{Seq: 7, Time: 1 << 60, Subject: []byte("a.b"), Header: []byte("NATS/1.0\r\nA: b\r\n\r\n"), Data: []byte("data")}
	buf := AppendMessage(nil, 5, &m)
	if len(buf) > MessageSize(&m) {
		t.Errorf("%d bytes, announced at most %d", len(buf), MessageSize(&m))
	}
	buf = AppendSeqs(buf, 6, []uint64{1, 2, 1 << 40})
	buf = AppendPurge(buf, 7, PurgeBody{Subject: "x.>", Upto: 3, Keep: 4})
	buf = AppendExpire(buf, 8, 99)
	buf = AppendConsumer(buf, ConsumerProgress, 9, "name", []byte("state"))
	state := StreamStateBody{First: 3, Last: 20, Gaps: []Gap{{4, 5}, {7, 7}, {19, 20}}}
	buf = AppendStreamState(buf, 10, &state)

	var got []any
	for i := 0; len(buf) > 0; i++ {
		r, rest, err := Next(buf)
		if err != nil {
			t.Fatal(err)
		}
		buf = rest
		if r.Stream != StreamID(5+i) {
			t.Errorf("record %d is of stream %d", i, r.Stream)
		}
		v, err := parse(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
	want := []any{m, []uint64{1, 2, 1 << 40}, PurgeBody{Subject: "x.>", Upto: 3, Keep: 4}, uint64(99), "name/state", state}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// parse reads a record's body according to its kind.
func parse(r Record) (any, error) {
	switch r.Kind {
	case Message:
		return ParseMessage(r.Body)
	case MessageDelete:
		return ParseSeqs(r.Body)
	case Purge:
		return ParsePurge(r.Body)
	case Expire:
		return ParseExpire(r.Body)
	case StreamState:
		return ParseStreamState(r.Body)
	case ConsumerProgress, ConsumerState:
		name, state, err := ParseConsumer(r.Body)
		return string(name) + "/" + string(state), err
	case StreamConfig:
		var b StreamConfigBody
		err := ParseJSON(r.Body, &b)
		return b, err
	case ConsumerConfig:
		var b ConsumerConfigBody
		err := ParseJSON(r.Body, &b)
		return b, err
	}
	return nil, nil
}

func TestStatesThatMakeNoSenseAreRefused(t *testing.T) {
	for _, s := range []StreamStateBody{
		{First: 9, Last: 3},
		{First: 1, Last: 3, Gaps: []Gap{{2, 9}}},
	} {
		r, _, err := Next(AppendStreamState(nil, 1, &s))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseStreamState(r.Body); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v: %v", s, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(AppendMessage(nil, 1, &StoredMessage{Seq: 1, Subject: []byte("a"), Data: []byte("b")}))
	f.Add(AppendStreamState(nil, 1, &StreamStateBody{First: 1, Last: 9, Gaps: []Gap{{2, 3}}}))
	f.Add(AppendSeqs(nil, 1, []uint64{5}))
	f.Add(AppendConsumer(nil, ConsumerState, 1, "c", nil))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		for rest := data; len(rest) > 0; {
			r, next, err := Next(rest)
			if err != nil {
				if !errors.Is(err, ErrMalformed) {
					t.Fatal(err)
				}
				return
			}
			if v, err := parse(r); err != nil && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			} else if m, ok := v.(StoredMessage); ok && err == nil {
				again, _, _ := Next(AppendMessage(nil, r.Stream, &m))
				if !bytes.Equal(again.Body, r.Body) {
					t.Fatal("a message changes when it is written again")
				}
			}
			if len(next) >= len(rest) {
				t.Fatal("no progress")
			}
			rest = next
		}
	})
}
