package broadcast

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/fault"
	"github.com/sluicemq/sluice/internal/store/mem"
)

// world is nodes on one store, in virtual time.
type world struct {
	t     *testing.T
	mem   *mem.Store
	nodes []*node
}

func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		m, err := mem.New(mem.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, mem: m}
		defer func() {
			for _, n := range w.nodes {
				n.stop()
			}
		}()
		f(t, w)
	})
}

// node is one process.
type node struct {
	t       *testing.T
	name    string
	store   *fault.Store
	head    *head.Claimed
	broker  *broker.Broker
	service *Service
	beating context.CancelFunc
	beats   sync.WaitGroup
	heard   map[string]*hearer // by account
	ended   bool

	registry *prometheus.Registry
}

// hearer notes what the subscribers of a node get.
type hearer struct {
	mu  sync.Mutex
	got []string
}

func (h *hearer) Deliver(batch []broker.Delivery) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range batch {
		h.got = append(h.got, fmt.Sprintf("%s%s %s", d.Subject, headerText(d.Header), d.Data))
	}
	return nil
}

func headerText(h []byte) string {
	return strings.NewReplacer("NATS/1.0\r\n", " [", "\r\n\r\n", "]", "\r\n", ",").Replace(string(h))
}

func (h *hearer) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

// start starts a node whose accounts are A and B, with broadcast subjects news.> in both.
func (w *world) start(name string, change func(*Options), rules ...fault.Rule) *node {
	w.t.Helper()
	f, err := fault.New(w.mem, fault.Options{Rules: rules, Seed: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	n := &node{t: w.t, name: name, store: f, broker: broker.New(broker.Options{}), heard: map[string]*hearer{}, registry: prometheus.NewRegistry()}
	w.nodes = append(w.nodes, n)
	if n.head, err = head.Claim(w.t.Context(), f, head.Options{Names: []string{name}, Host: name, NoAdopt: true}); err != nil {
		w.t.Fatal(err)
	}
	var beat context.Context
	beat, n.beating = context.WithCancel(context.Background())
	n.beats.Go(func() { n.head.Run(beat) })
	for _, account := range []string{"A", "B", "SYS"} {
		n.heard[account] = &hearer{}
		for _, subj := range []string{"news.>", "inbox", "$SYS.>"} {
			if _, err := n.broker.Space(account).Subscribe(subj, "", n.heard[account]); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	o := Options{
		Store: f, Head: n.head, Subjects: map[string][]string{"A": {"news.>"}, "B": {"news.>"}},
		Space: func(a string) *broker.Space {
			if n.heard[a] == nil {
				return nil
			}
			return n.broker.Space(a)
		},
		System: n.broker.Space("SYS"), ServerID: name, Registerer: n.registry,
	}
	if change != nil {
		change(&o)
	}
	if n.service, err = Start(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// stop ends a node cleanly.
func (n *node) stop() {
	if n.ended {
		return
	}
	n.ended = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if n.service != nil {
		if err := n.service.Stop(ctx); err != nil {
			n.t.Errorf("stopping %s: %v", n.name, err)
		}
	}
	n.beating()
	n.beats.Wait()
	if err := n.head.Release(ctx); err != nil {
		n.t.Logf("releasing %s: %v", n.name, err)
	}
	n.store.Close()
}

// kill ends a node as a crash does: nothing of it reaches the store any more, and its head is not released.
func (n *node) kill() {
	n.ended = true
	n.beating()
	n.beats.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.service.Stop(ctx)
	n.store.Close()
}

func (n *node) publish(account, subj, reply, header, data string) {
	if header != "" {
		header = "NATS/1.0\r\n" + header + "\r\n\r\n"
	}
	n.broker.Space(account).PublishOnce(broker.Msg{Subject: []byte(subj), Reply: []byte(reply), Header: []byte(header), Data: []byte(data)})
}

// expect compares what an account's subscribers got so far.
func (n *node) expect(account string, want ...string) {
	n.t.Helper()
	if got := n.heard[account].all(); !slices.Equal(got, want) {
		n.t.Errorf("%s, account %s got %d:\n%s\nwant %d:\n%s", n.name, account, len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}

func numbered(n int, form string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(form, i))
	}
	return all
}

// settle lets virtual time pass, and what is to happen in it.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// metric compares a counter of the node, given without its prefix and suffix.
func (n *node) metric(name string, want float64) {
	n.t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "sluice_broadcast_"+name+"_total" {
			if got := f.GetMetric()[0].GetCounter().GetValue(); got != want {
				n.t.Errorf("%s: %s is %v, want %v", n.name, name, got, want)
			}
			return
		}
	}
	n.t.Fatalf("no metric %s", name)
}

// keys lists the offsets of a node's broadcast logs.
func (w *world) keys(node string) (all []string) {
	page, err := w.mem.List(w.t.Context(), store.ListOptions{Prefix: key.LogNodePrefix(key.Broadcast, node)})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range page.Objects {
		all = append(all, o.Key)
	}
	return all
}

func receiptOf(t *testing.T, text string) (r Receipt) {
	t.Helper()
	_, body, _ := strings.Cut(text, " ")
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return r
}
