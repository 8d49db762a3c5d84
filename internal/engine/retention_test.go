package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// contents are the data of what a stream holds, in order.
func contents(t *testing.T, s *Stream) (data []string) {
	t.Helper()
	for _, line := range content(t, s) {
		data = append(data, strings.Fields(line)[2])
	}
	return data
}

// retaining starts a world with a stream of a retention.
func retaining(w *world, retention api.RetentionPolicy) *Stream {
	w.start()
	cfg := fileStream
	cfg.Retention = retention
	return w.create(cfg)
}

// answer says something to each delivery, and waits until what follows has been stored.
func (w *world) answer(msgs []letterGot, body string) {
	for _, m := range msgs {
		w.client.send(m.reply, "", "", body)
	}
	w.client.take()
	time.Sleep(step)
	w.client.take()
}

// refuse refuses all that a consumer delivers until it gives it up.
func (w *world) giveUp(s *Stream, consumer string) {
	for range 10 {
		msgs := w.client.pull(s, consumer, 10)
		if len(msgs) == 0 {
			return
		}
		w.answer(msgs, "-NAK")
	}
	w.t.Fatal("it is delivered for ever")
}

// What a consumer has given up stays, for somebody may still acknowledge it; then, or with the consumer, it goes.
func TestWhatReachedMaxDeliverDoesNotLeak(t *testing.T) {
	for _, retention := range []api.RetentionPolicy{api.InterestPolicy, api.WorkQueuePolicy} {
		for _, crashes := range []bool{false, true} {
			t.Run(retention.String()+map[bool]string{true: ", crash"}[crashes], func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					s := retaining(w, retention)
					w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit, MaxDeliver: 2, AckWait: time.Hour})
					for _, data := range []string{"1", "2", "3"} {
						w.client.publish("s.a", data)
					}
					first := w.client.pull(s, "C", 1)
					w.giveUp(s, "C")
					w.answer(first, "-NAK")
					w.giveUp(s, "C")
					if crashes {
						w.crash()
						w.start()
						s = w.stream("S")
					}
					if got := contents(t, s); !slices.Equal(got, []string{"1", "2", "3"}) {
						t.Fatalf("given up, there are %v", got)
					}
					w.answer(first, "+ACK")
					if got := contents(t, s); !slices.Equal(got, []string{"2", "3"}) {
						t.Errorf("after a late acknowledgement there are %v", got)
					}
					w.client.publish("s.a", "4")
					w.answer(w.client.pull(s, "C", 5), "+ACK")
					if got := contents(t, s); !slices.Equal(got, []string{"2", "3"}) {
						t.Errorf("after one that is acknowledged as usual there are %v", got)
					}
					if err := s.DeleteConsumer(t.Context(), "C"); err != nil {
						t.Fatal(err)
					}
					if retention == api.WorkQueuePolicy {
						// The queue goes on with whoever comes: nothing is lost, and nothing is left.
						w.consumer(s, api.ConsumerConfig{Durable: "D", AckPolicy: api.AckExplicit})
						w.answer(w.client.pull(s, "D", 5), "+ACK")
					}
					time.Sleep(step)
					if got := contents(t, s); len(got) != 0 {
						t.Errorf("in the end there are %v", got)
					}
				})
			})
		}
	}
}

// A consumer that is deleted needs nothing any more, whether it had seen a message or not; what others need stays.
func TestADeletedConsumerLeavesNothingBehind(t *testing.T) {
	for _, crashes := range []bool{false, true} {
		t.Run(map[bool]string{false: "live", true: "crash"}[crashes], func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				s := retaining(w, api.InterestPolicy)
				for _, name := range []string{"A", "B"} {
					w.consumer(s, api.ConsumerConfig{Durable: name, AckPolicy: api.AckExplicit})
				}
				for _, data := range []string{"1", "2", "3", "4"} {
					w.client.publish("s.a", data)
				}
				w.answer(w.client.pull(s, "A", 2), "+ACK") // 1 and 2; 3 and 4 it has not seen
				w.client.pull(s, "B", 3)                   // delivered and not acknowledged
				if err := s.DeleteConsumer(t.Context(), "B"); err != nil {
					t.Fatal(err)
				}
				if crashes {
					w.crash()
					w.start()
					s = w.stream("S")
				}
				time.Sleep(step)
				if got := contents(t, s); !slices.Equal(got, []string{"3", "4"}) {
					t.Errorf("after one was deleted there are %v", got)
				}
				if err := s.DeleteConsumer(t.Context(), "A"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(step)
				if got := contents(t, s); len(got) != 0 {
					t.Errorf("after both were deleted there are %v", got)
				}
			})
		})
	}
}

// A message goes when every consumer whose filter it passes is done with it, also where filters overlap in part, and
// whatever the order.
func TestOverlappingFiltersLeakNothing(t *testing.T) {
	orders := [][]string{{"A", "B", "C"}, {"C", "B", "A"}, {"B", "A", "C"}}
	for _, order := range orders {
		t.Run(strings.Join(order, ""), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				s := retaining(w, api.InterestPolicy)
				filters := map[string][]string{"A": {"s.a.*"}, "B": {"s.*.x"}, "C": {"s.a.x", "s.b.*"}}
				for name, f := range filters {
					w.consumer(s, api.ConsumerConfig{Durable: name, AckPolicy: api.AckExplicit, FilterSubjects: f})
				}
				wanted := map[string]int{"s.a.x": 3, "s.a.y": 1, "s.b.x": 2, "s.b.y": 1, "s.c.x": 1, "s.c.y": 0}
				for subject := range wanted {
					w.client.publish(subject, subject)
				}
				w.client.take()
				time.Sleep(step)
				for _, name := range order {
					for _, m := range w.client.pull(s, name, 10) {
						w.answer([]letterGot{m}, "+ACK")
						if wanted[m.subject]--; slices.Contains(contents(t, s), m.subject) != (wanted[m.subject] > 0) {
							t.Errorf("after %s acknowledged %s, %d want it and there are %v", name, m.subject, wanted[m.subject], contents(t, s))
						}
					}
				}
				if got := contents(t, s); len(got) != 0 {
					t.Errorf("in the end there are %v", got)
				}
			})
		})
	}
}

// What no consumer wants takes no room from what one does, and is not republished; its sequence counts, also after a
// crash.
func TestWhatNobodyWantsPushesNothingOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		cfg := fileStream
		cfg.Retention, cfg.MaxMsgs = api.InterestPolicy, 2
		cfg.RePublish = &api.RePublish{Source: ">", Destination: "_INBOX.again.>"}
		s := w.create(cfg)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit, FilterSubject: "s.a"})
		for _, data := range []string{"1", "2"} {
			w.client.publish("s.a", data)
		}
		w.client.take()
		for range 5 {
			w.client.publish("s.b", "unwanted")
		}
		if got := w.client.take(); len(got) != 5 || !strings.Contains(got[4].data, `"seq":7`) {
			t.Errorf("the answers: %v", got)
		}
		look := func(s *Stream) {
			t.Helper()
			info, err := s.Info(api.JSApiStreamInfoRequest{})
			if got := contents(t, s); err != nil || !slices.Equal(got, []string{"1", "2"}) || info.State.LastSeq != 7 {
				t.Errorf("there are %v, up to %d, %v", got, info.State.LastSeq, err)
			}
		}
		look(s)
		w.crash()
		w.start()
		s = w.stream("S")
		look(s)
		if got := w.client.pull(s, "C", 5); len(got) != 2 {
			t.Errorf("delivered: %v", got)
		}
		w.client.publish("s.a", "3")
		w.client.take()
		if info, err := s.Info(api.JSApiStreamInfoRequest{}); err != nil || info.State.LastSeq != 8 {
			t.Errorf("a sequence was given again: the last is %d, %v", info.State.LastSeq, err)
		}
	})
}

// What was acknowledged, with or without an answer, is not delivered again after orderly restarts.
func TestARollingRestartDeliversNothingAgain(t *testing.T) {
	for _, policy := range []api.AckPolicy{api.AckExplicit, api.AckAll} {
		t.Run(policy.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.start()
				s := w.create(fileStream)
				w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: policy, AckWait: time.Hour})
				for _, data := range strings.Fields("1 2 3 4 5 6 7 8 9") {
					w.client.publish("s.a", data)
				}
				var got []string
				for range 3 {
					for _, m := range w.client.pull(w.stream("S"), "C", 3) {
						got = append(got, m.data)
						w.client.send(m.reply, "", "", "+ACK")
					}
					w.client.take()
					if err := w.engine.Stop(t.Context()); err != nil {
						t.Fatal(err)
					}
					w.crash()
					w.start()
				}
				if more := w.client.pull(w.stream("S"), "C", 9); len(more) > 0 || !slices.Equal(got, strings.Fields("1 2 3 4 5 6 7 8 9")) {
					t.Errorf("delivered %v, and in the end again %v", got, more)
				}
			})
		})
	}
}

// A stream that becomes an interest stream lets go of what nobody wants.
func TestAnUpdateToInterestLetsGo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := retaining(w, api.LimitsPolicy)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit, FilterSubject: "s.a"})
		for _, subject := range []string{"s.a", "s.b", "s.a"} {
			w.client.publish(subject, subject)
		}
		w.client.take()
		w.answer(w.client.pull(s, "C", 1), "+ACK")
		cfg := s.Config()
		cfg.Retention = api.InterestPolicy
		if err := s.update(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		time.Sleep(step)
		if got := content(t, s); len(got) != 1 || !strings.HasPrefix(got[0], "3 s.a") {
			t.Errorf("there are %v", got)
		}
	})
}
