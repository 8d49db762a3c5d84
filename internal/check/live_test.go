package check_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/check"
	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
)

// meddled is a store on which something happens before a certain request. It may take longer than the caller would wait.
type meddled struct {
	store.Store
	at, n int
	do    func()
}

func (m *meddled) meddle() {
	if m.n++; m.n == m.at {
		m.do()
	}
}

// Get implements store.Store.
func (m *meddled) Get(ctx context.Context, k string) (store.Object, error) {
	m.meddle()
	return m.Store.Get(context.WithoutCancel(ctx), k)
}

// GetRange implements store.Store.
func (m *meddled) GetRange(ctx context.Context, k string, offset, length int64) ([]byte, error) {
	m.meddle()
	return m.Store.GetRange(context.WithoutCancel(ctx), k, offset, length)
}

// List implements store.Store.
func (m *meddled) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	m.meddle()
	return m.Store.List(context.WithoutCancel(ctx), opts)
}

// A node does all that moves things from one object to another, at each point of a check, and the check finds nothing.
func TestBesideARunningNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t, nil)
		defer w.stop()
		turn := 0
		live := func() {
			turn++
			w.publish("S", 40)
			s := w.stream("S")
			info, err := s.Info(api.JSApiStreamInfoRequest{})
			if err != nil {
				t.Error(err)
			}
			if err := s.DeleteMessage(t.Context(), info.State.LastSeq-5); err != nil {
				t.Error(err)
			}
			if turn%3 == 0 {
				if _, err := s.Purge(t.Context(), engine.PurgeRequest{Subject: "s.1"}); err != nil {
					t.Error(err)
				}
			}
			w.trim() // segments, checkpoints, manifests, batches deleted
			name := fmt.Sprintf("T%d", turn)
			w.create(name)
			w.publish(name, 20)
			w.trim()
			if turn%2 == 0 {
				if err := w.account.DeleteStream(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(2 * time.Hour) // deleted messages are overdue, and the grace period is over
			for range 2 {
				if err := w.engine.Tidy(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Minute)
			}
		}
		steps := 0
		for at := 1; ; at += 1 + at/8 {
			m := &meddled{Store: w.store, at: at, do: live}
			found, all, _ := findings(t, m, check.Options{})
			for i, f := range found {
				if all[i].Severity > check.Note {
					t.Errorf("before request %d: %s: %s", at, f, all[i].What)
				}
			}
			if m.n < at {
				break
			}
			steps++
		}
		if steps < 10 {
			t.Errorf("%d steps", steps)
		}
		if n := len(keys(t, w.store, key.Manifest.Prefix())); n == 0 {
			t.Error("nothing was compacted")
		}
	})
}
