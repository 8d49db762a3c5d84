package stream

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"
)

func FuzzSchedule(f *testing.F) {
	for _, pattern := range []string{"@at 2024-01-01T00:00:00Z", "@every 1h", "@hourly", "0 30 14 * * mon-fri", "*/5 1,2 ? * jan *", "@every 2562047h"} {
		f.Add(pattern, "Europe/Berlin", int64(1_700_000_000_000_000_000))
		f.Add(pattern, "", int64(0))
	}
	f.Fuzz(func(t *testing.T, pattern, zone string, after int64) {
		after = min(max(after, 0), 4_000_000_000_000_000_000)
		var z []byte
		if zone != "" {
			z = []byte(zone)
		}
		at, repeats, err := nextFiring([]byte(pattern), z, after, after)
		if err != nil || at.IsZero() {
			return
		}
		if repeats && at.UnixNano() <= after-int64(time.Second) && at.Year() < 2262 {
			t.Errorf("%q in %q after %v fires at %v", pattern, zone, time.Unix(0, after).UTC(), at)
		}
		if again, _, err := nextFiring([]byte(pattern), z, after, after); err != nil || !again.Equal(at) {
			t.Errorf("%q gives %v and then %v, %v", pattern, at, again, err)
		}
	})
}

func TestASchedulesNextTimeIsFoundQuickly(t *testing.T) {
	begun := time.Now()
	for _, pattern := range []string{", * * * * *", "* , * * * *", "* * ,, * * *", "* * * , * *", "* * * * , *", "* * * * * ,", "0 0 0 31 2 *", "59 59 23 29 2 mon"} {
		_, _, err := nextFiring([]byte(pattern), []byte("America/St_Johns"), 1_700_000_000_000_000_000, 0)
		if pattern[0] != '5' && !errors.Is(err, errPattern) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

func FuzzParseFast(f *testing.F) {
	f.Add([]byte("i.k.10.fail.1.0.$FI"))
	f.Add([]byte("i.k.10.ok.7.4.$FI"))
	f.Add([]byte(".....$FI"))
	f.Fuzz(func(t *testing.T, reply []byte) {
		if !IsFast(reply) {
			return
		}
		m, ok := ParseFast(reply)
		if ok && (m.Seq == 0 || m.Seq == math.MaxUint64 || m.flow == 0 || m.eob && !m.commit || !bytes.Contains(reply, m.ID)) {
			t.Errorf("%q is %+v", reply, m)
		}
	})
}

func TestFieldsOfHeadersAreTakenOut(t *testing.T) {
	const block = "NATS/1.0\r\nA: 1\r\nNats-TTL: 5\r\nNats-TTLs: 6\r\nNats-Schedule: x\r\nNats-Scheduler: y\r\nNats-TTL:7\r\n\r\n"
	for _, c := range []struct {
		keys []string
		want string
	}{
		{nil, block},
		{[]string{"Nats-TTL"}, "NATS/1.0\r\nA: 1\r\nNats-TTLs: 6\r\nNats-Schedule: x\r\nNats-Scheduler: y\r\n\r\n"},
		{[]string{"Nats-Schedule*", "A", "NATS/1.0"}, "NATS/1.0\r\nNats-TTL: 5\r\nNats-TTLs: 6\r\nNats-TTL:7\r\n\r\n"},
		{[]string{"nats-ttl", "Nats"}, block},
	} {
		if got := string(appendWithout(nil, []byte(block), c.keys...)); got != c.want {
			t.Errorf("without %q: %q, want %q", c.keys, got, c.want)
		}
	}
	if got := string(appendField([]byte("NATS/1.0\r\n\r\n"), "A", "b")); got != "NATS/1.0\r\nA: b\r\n\r\n" {
		t.Errorf("with a field: %q", got)
	}
}
