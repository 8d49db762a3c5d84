package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

func scheduleStream() api.StreamConfig {
	cfg := fileStream
	cfg.AllowMsgSchedules = true
	return cfg
}

// schedule sends a message with a schedule.
func (c *client) schedule(subject, pattern, target, more, data string) {
	c.send(subject, "_INBOX.ack", "NATS/1.0\r\nNats-Schedule: "+pattern+"\r\nNats-Schedule-Target: "+target+"\r\n"+more+"\r\n", data)
}

// on lists the data of the messages on a subject.
func on(content []string, subject string) (all []string) {
	for _, line := range content {
		if parts := strings.Split(line, " "); parts[1] == subject {
			all = append(all, parts[2])
		}
	}
	return all
}

func TestASchedulePublishesOnceOrAgainAndAgain(t *testing.T) {
	for _, storage := range []api.StorageType{api.FileStorage, api.MemoryStorage} {
		bubble(t, func(t *testing.T, w *world) {
			w.opts.TailBytes = 1 // every read goes to the store
			w.start()
			cfg := scheduleStream()
			cfg.Storage = storage
			s := w.create(cfg)
			at := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339)
			w.client.schedule("s.once", "@at "+at, "s.out1", "", "once")
			w.client.schedule("s.often", "@every 2s", "s.out2", "", "often")
			w.client.publish("s.value", "old")
			w.client.schedule("s.copy", "@every 10s", "s.out3", "Nats-Schedule-Source: s.value\r\n", "no")
			for _, a := range w.client.acks() {
				if a.Error != nil {
					t.Fatal(a.Error)
				}
			}
			time.Sleep(4 * time.Second)
			w.client.publish("s.value", "new")
			time.Sleep(7 * time.Second)
			c := content(t, s)
			if got := on(c, "s.out1"); !slices.Equal(got, []string{"once"}) {
				t.Errorf("once: %v", got)
			}
			if got := on(c, "s.once"); len(got) != 0 {
				t.Errorf("a schedule that is over is still there: %v", got)
			}
			if got := on(c, "s.out2"); len(got) != 5 {
				t.Errorf("every 2 s, within 11 s: %v", got)
			}
			if got := on(c, "s.out3"); !slices.Equal(got, []string{"new"}) {
				t.Errorf("another's value: %v", got)
			}
		})
	}
}

func TestSchedulesGoOnAfterACrash(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		w.create(scheduleStream())
		w.client.schedule("s.often", "@every 10s", "s.out", "", "often")
		at := time.Now().Add(15 * time.Second).UTC().Format(time.RFC3339)
		w.client.schedule("s.once", "@at "+at, "s.late", "", "once")
		w.client.take()
		time.Sleep(12 * time.Second)
		w.crash()
		time.Sleep(30 * time.Second) // 42 s
		w.start()
		time.Sleep(step)
		c := content(t, w.stream("S"))
		if got := on(c, "s.out"); len(got) != 2 {
			t.Errorf("what was missed fires once: %v", c)
		}
		if got := on(c, "s.late"); len(got) != 1 {
			t.Errorf("what was due meanwhile: %v", c)
		}
		w.crash()
		w.start()
		time.Sleep(step)
		if again := content(t, w.stream("S")); !slices.Equal(c, again) {
			t.Errorf("there was\n%v\nafter another crash there is\n%v", c, again)
		}
	})
}
