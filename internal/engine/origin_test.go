package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/stream"
)

func TestAMirrorKeepsSequencesAndTimesAlsoOverGaps(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		s := w.create(named("S"))
		publish := func(n int) {
			for i := range n {
				w.client.publish("S.a", fmt.Sprint(i))
				time.Sleep(time.Millisecond)
			}
			w.client.take()
		}
		remove := func(from, to uint64) {
			for seq := from; seq <= to; seq++ {
				if err := s.DeleteMessage(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
		}
		publish(300)
		remove(1, 10)    // before the first
		remove(20, 22)   // a few, within a chunk
		remove(30, 130)  // more than a chunk leaves out
		remove(290, 300) // at the end
		m := w.create(mirrorOf("S"))
		w.wait(time.Second)
		sameContent(t, s, m)
		publish(5)
		w.wait(time.Second)
		sameContent(t, s, m)
		w.crash()
		w.startWithAPI()
		s, m = w.stream("S"), w.stream("M")
		sameContent(t, s, m)
		publish(5)
		w.wait(2 * time.Second)
		sameContent(t, s, m)
		info := originInfo(t, m)
		if info.Lag != 0 || info.Error != nil || info.Active < 0 || info.Active > 2*originHeartbeat {
			t.Errorf("%+v", info)
		}
	})
}

func TestAnEmptyMirrorTakesItsOriginsPlace(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		s := w.create(named("S"))
		for range 10 {
			w.client.publish("S.a", "x")
		}
		w.client.take()
		if _, err := s.Purge(t.Context(), PurgeRequest{}); err != nil {
			t.Fatal(err)
		}
		m := w.create(mirrorOf("S"))
		w.wait(time.Second)
		for range 2 {
			info, err := m.Info(api.JSApiStreamInfoRequest{})
			if err != nil || info.State.FirstSeq != 11 || info.State.LastSeq != 10 {
				t.Errorf("first %d, last %d, %v", info.State.FirstSeq, info.State.LastSeq, err)
			}
			w.crash()
			w.startWithAPI()
			m = w.stream("M")
		}
		w.client.publish("S.a", "y")
		w.wait(2 * time.Second)
		sameContent(t, w.stream("S"), m)
	})
}

func TestFiltersTransformsAndStarts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		w.create(named("S"))
		var third time.Time
		for i := range 6 {
			if i == 3 {
				time.Sleep(time.Second)
				third = time.Now()
			}
			w.client.publish([]string{"S.a.1", "S.b.2", "S.c.3"}[i%3], fmt.Sprint(i))
			w.client.take()
		}
		transforms := []api.SubjectTransformConfig{{Source: "S.a.*", Destination: "A.{{wildcard(1)}}"}, {Source: "S.b.*", Destination: ""}}
		for _, c := range []struct {
			src  api.StreamSource
			want []string // sequence in the origin, subject
		}{
			{api.StreamSource{FilterSubject: "S.b.>"}, []string{"2 S.b.2", "5 S.b.2"}},
			{api.StreamSource{SubjectTransforms: transforms}, []string{"1 A.1", "2 S.b.2", "4 A.1", "5 S.b.2"}},
			{api.StreamSource{SubjectTransforms: transforms[:1]}, []string{"1 A.1", "4 A.1"}},
			{api.StreamSource{OptStartSeq: 5}, []string{"5 S.b.2", "6 S.c.3"}},
			{api.StreamSource{OptStartTime: &third}, []string{"4 S.a.1", "5 S.b.2", "6 S.c.3"}},
		} {
			for _, mirror := range []bool{true, false} {
				c.src.Name = "S"
				cfg := sourcesOf()
				if mirror {
					cfg.Mirror = &c.src
				} else {
					cfg.Sources = []*api.StreamSource{&c.src}
				}
				s := w.create(cfg)
				w.wait(time.Second)
				var got []string
				for _, line := range content(t, s) {
					parts := strings.Fields(line)
					seq, _ := strconv.ParseUint(parts[0], 10, 64)
					if !mirror {
						m, err := s.GetMessage(t.Context(), api.JSApiMsgGetRequest{Seq: seq})
						if err != nil {
							t.Fatal(err)
						}
						value, _ := proto.Header(m.Header).Get(stream.SourceHeader)
						parts[0] = strings.Fields(string(value))[1]
					}
					got = append(got, parts[0]+" "+parts[1])
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("%+v, mirror %v: got %v", c.src, mirror, got)
				}
				if err := w.account.DeleteStream(t.Context(), cfg.Name); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestAPromotedMirrorIsAStreamLikeAnyOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		w.create(named("S"))
		m := w.create(mirrorOf("S"))
		for range 3 {
			w.client.publish("S.a", "x")
		}
		w.wait(time.Second)
		cfg := m.Config()
		cfg.Mirror = &api.StreamSource{Name: "S", FilterSubject: "S.b"}
		if _, err := w.account.UpdateStream(t.Context(), cfg, false); !errors.Is(err, jserr.New(jserr.StreamMirrorNotUpdatable)) {
			t.Errorf("a mirror's origin was changed: %v", err)
		}
		cfg.Mirror, cfg.MirrorDirect, cfg.Subjects = nil, false, []string{"new.>"}
		if _, err := w.account.UpdateStream(t.Context(), cfg, false); err != nil {
			t.Fatal(err)
		}
		w.client.publish("S.a", "not mirrored")
		w.client.publish("new.a", "published")
		w.wait(time.Second)
		w.crash()
		w.startWithAPI()
		w.wait(time.Second)
		if c := content(t, w.stream("M")); len(c) != 4 || !strings.HasPrefix(c[3], "4 new.a published") {
			t.Errorf("%v", c)
		}
		if info, err := w.stream("M").Info(api.JSApiStreamInfoRequest{}); err != nil || info.Mirror != nil {
			t.Errorf("%+v, %v", info.Mirror, err)
		}
	})
}

func TestAMirrorAnswersDirectGetsInItsOriginsPlace(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		cfg := named("S")
		cfg.AllowDirect = true
		w.create(cfg)
		w.client.publish("S.a", "x")
		w.create(mirrorOf("S"))
		w.wait(time.Second)
		answers := map[string]int{}
		for range 64 {
			w.client.send("$JS.API.DIRECT.GET.S.S.a", "_INBOX.get", "", "")
			got := w.client.take()
			if len(got) != 1 || got[0].data != "x" {
				t.Fatalf("%v", got)
			}
			from, _ := proto.Header(got[0].header).Get("Nats-Stream")
			answers[string(from)]++
		}
		if answers["S"] == 0 || answers["M"] == 0 {
			t.Errorf("answers %v", answers)
		}
		// The origin is gone, its mirror is not.
		if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		w.client.send("$JS.API.DIRECT.GET.S.S.a", "_INBOX.get", "", "")
		if got := w.client.take(); len(got) != 1 || got[0].data != "x" {
			t.Errorf("%v", got)
		}
	})
}

func TestASourceWithAConsumerOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		s := w.create(named("S"))
		cfg := sourcesOf("S")
		cfg.Sources[0].Consumer = &api.StreamConsumerSource{Name: "c", DeliverSubject: "to.here"}
		a := w.create(cfg)
		w.wait(time.Second)
		if i := originInfo(t, a); i.Error == nil || i.Error.ErrCode != uint16(jserr.ConsumerNotFound) {
			t.Errorf("without the consumer: %+v", i)
		}
		w.consumer(s, api.ConsumerConfig{Durable: "c", DeliverSubject: "to.here", AckPolicy: api.AckFlowControl, Heartbeat: time.Second, FlowControl: true, MaxAckPending: 10, FilterSubject: "S.a"})
		for i := range 30 {
			w.client.publish([]string{"S.a", "S.b"}[i%2], fmt.Sprint(i))
		}
		w.wait(askAgainMost + time.Minute)
		if got := sourced(t, a); len(got) != 15 {
			t.Errorf("%v", got)
		}
		if info, err := s.ConsumerInfo("c"); err != nil || info.NumAckPending != 0 || info.AckFloor.Stream < 29 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// TestAQueueIsNotHeldByConsumersThatNobodyReads: consumers of sources come and go with them.
func TestAQueueIsNotHeldByConsumersThatNobodyReads(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		queue := named("S")
		queue.Retention = api.InterestPolicy
		s := w.create(queue)
		a := w.create(sourcesOf("S"))
		update := func(filters ...string) {
			t.Helper()
			cfg := a.Config()
			cfg.Sources = nil
			for _, f := range filters {
				cfg.Sources = append(cfg.Sources, &api.StreamSource{Name: "S", FilterSubject: f})
			}
			if len(filters) == 0 {
				cfg.Subjects = []string{"a"}
			}
			if _, err := w.account.UpdateStream(t.Context(), cfg, false); err != nil {
				t.Fatal(err)
			}
			w.wait(5 * time.Second)
			if names, err := s.ConsumerNames(); err != nil || len(names) != len(filters) {
				t.Errorf("%d sources have the consumers %v, %v", len(filters), names, err)
			}
			w.client.publish("S.a", "x")
			w.client.publish("S.b", "x")
			w.wait(5 * time.Second)
			if left := content(t, s); len(left) != 0 {
				t.Errorf("filters %v: left are %v", filters, left)
			}
		}
		update("S.a")
		update("S.b")
		update("S.a", "S.b")
		update("S.a")
		update()
		if got := sourced(t, a); len(got) != 5 {
			t.Errorf("sourced %v", got)
		}
	})
}
