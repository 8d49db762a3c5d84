package consumer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// model is the naive view of what a consumer must do, by message.
type model struct {
	*world
	rng        *rand.Rand
	cfg        api.ConsumerConfig
	deliveries map[uint64]int  // 0: not delivered yet
	done       map[uint64]int  // acknowledged, terminated, given up or removed: with how much progress that is certain
	optional   map[uint64]bool // need not be delivered: the filter changed, or it was not the newest of its subject
	never      map[uint64]bool // must not be delivered: not the newest of its subject when the consumer started
	refilter   bool            // the filter changes now and then
	seed       uint64
	replyNo    int
	groups     groupModel
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		world: newWorld(t), rng: rand.New(rand.NewPCG(seed, 2)), seed: seed,
		deliveries: map[uint64]int{}, done: map[uint64]int{}, optional: map[uint64]bool{}, never: map[uint64]bool{},
	}
	m.world.deliver = m.onDelivery
	m.world.status = m.groups.status
	m.groups.init()
	m.world.advise = func(a *Advisory) {
		if a.Kind == MaxDeliveriesReached {
			m.finish(a.StreamSeq)
		}
	}
	return m
}

func (m *model) fatalf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d: "+format, append([]any{m.seed}, args...)...)
}

// onDelivery checks one delivery.
func (m *model) onDelivery(d *Dispatch) {
	if _, ok := m.done[d.Seq]; ok {
		m.fatalf("message %d is delivered although it is done", d.Seq)
	}
	msg, ok := m.stream.get(d.Seq)
	if !ok {
		m.fatalf("message %d is delivered although it was removed", d.Seq)
	}
	if m.deliveries[d.Seq] == 0 && !m.view.match(msg) {
		m.fatalf("message %d is delivered although it does not pass the filter", d.Seq)
	}
	if m.never[d.Seq] {
		m.fatalf("message %d is delivered although it is not of the list", d.Seq)
	}
	m.deliveries[d.Seq]++
	if int(d.Deliveries) != m.deliveries[d.Seq] {
		m.fatalf("delivery %d of message %d says it is number %d", m.deliveries[d.Seq], d.Seq, d.Deliveries)
	}
	if m.cfg.MaxDeliver > 0 && int(d.Deliveries) > m.cfg.MaxDeliver {
		m.fatalf("message %d is delivered %d times, max_deliver is %d", d.Seq, d.Deliveries, m.cfg.MaxDeliver)
	}
	if d.ConsumerSeq != m.c.delivered.consumer {
		m.fatalf("consumer sequence %d after %d", d.ConsumerSeq, m.c.delivered.consumer-1)
	}
	if m.cfg.AckPolicy == api.AckNone {
		m.finish(d.Seq)
	}
	if err := m.groups.delivered(m.c, d); err != nil {
		m.fatalf("message %d: %v", d.Seq, err)
	}
}

// finish notes that a message is not to come again. That is certain once one more part of the progress is kept.
func (m *model) finish(seq uint64) {
	if _, ok := m.done[seq]; !ok {
		m.done[seq] = len(m.log) + 1
	}
}

// open lists what is delivered and not done.
func (m *model) open() (seqs []uint64) {
	for _, msg := range m.stream.messages {
		if m.deliveries[msg.seq] > 0 {
			if _, ok := m.done[msg.seq]; !ok {
				seqs = append(seqs, msg.seq)
			}
		}
	}
	return seqs
}

func (m *model) step() {
	open := m.open()
	some := func() uint64 { return open[m.rng.IntN(len(open))] }
	switch n := m.rng.IntN(100); {
	case n < 25:
		for range m.rng.IntN(5) {
			m.publish(fmt.Sprintf("s.%d", m.rng.IntN(4)), m.rng.IntN(200))
		}
	case n < 45 && !m.c.push:
		m.request()
	case n < 45:
		on := m.rng.IntN(3) > 0
		m.left[m.cfg.DeliverSubject] = !on && m.rng.IntN(2) == 0
		m.c.Interest(on, m.now)
		m.world.settle()
	case n < 65 && len(open) > 0:
		m.acknowledge(some(), m.rng.IntN(10))
	case n < 72:
		m.advance(time.Duration(m.rng.IntN(3000)) * time.Millisecond)
	case n < 76 && len(m.stream.messages) > 0:
		seq := m.stream.messages[m.rng.IntN(len(m.stream.messages))].seq
		m.finish(seq)
		m.remove(seq)
	case n < 77:
		m.purge()
	case n < 80 && m.cfg.AckPolicy != api.AckNone:
		m.fail()
	case n < 82:
		m.c.Pause(m.now.Add(time.Duration(m.rng.IntN(2000))*time.Millisecond), m.now, &m.fx)
		m.opts.Config = m.c.Config()
		m.world.settle()
	case n < 83:
		cfg := m.c.Config()
		if cfg.AckWait > 0 && len(cfg.BackOff) == 0 {
			cfg.AckWait = time.Duration(1+m.rng.IntN(3000)) * time.Millisecond
		}
		if cfg.MaxAckPending > 0 {
			cfg.MaxAckPending++
		}
		m.opts.Config = cfg
		m.c.UpdateConfig(cfg, nil, m.now, &m.fx)
		m.world.settle()
	case n < 84 && m.c.flow.on:
		m.c.FlowControl([]byte(m.c.flow.id), m.flowAnswer(), m.now, &m.fx)
		m.world.settle()
	}
	if m.refilter && m.rng.IntN(30) == 0 {
		m.changeFilter()
	}
	m.verify()
}

// changeFilter lets the consumer go on with other messages.
func (m *model) changeFilter() {
	cfg := m.c.Config()
	cfg.FilterSubject, cfg.FilterSubjects = "", [][]string{{"s.1"}, {"s.2", "s.3"}, {"s.*"}, {"s.0", "s.1", "s.2"}}[m.rng.IntN(4)]
	var view Messages
	if old := m.c.Config(); !SameFilters(&old, &cfg) {
		m.view = &fakeView{m.stream, cfg.FilterSubjects}
		view = m.view
	}
	m.opts.Config, m.opts.Messages = cfg, m.view
	m.c.UpdateConfig(cfg, view, m.now, &m.fx)
	if view != nil {
		clear(m.never)
		m.skipFirst()
	}
	m.world.settle()
}

func (m *model) request() {
	m.replyNo++
	reply := fmt.Sprintf("r%d", m.replyNo)
	m.left[reply] = m.rng.IntN(6) == 0
	body := fmt.Sprintf(`{"batch":%d,"expires":%d,"no_wait":%v,"max_bytes":%d%s}`,
		m.rng.IntN(6), m.rng.IntN(4)*int(time.Second), m.rng.IntN(4) == 0, m.rng.IntN(3)*300, m.groups.request(m.cfg.PriorityPolicy, reply, m.rng))
	m.c.Pull([]byte(reply), []byte(body), m.now, &m.fx)
	m.world.settle()
}

// flowAnswer is the header of an answer to a flow control message, which acknowledges all that went out.
func (m *model) flowAnswer() []byte {
	if m.cfg.AckPolicy != api.AckFlowControl || m.c.flow.id == "" || len(m.sent) == 0 {
		return nil
	}
	last := m.sent[len(m.sent)-1]
	if last.Seq > m.c.floor.stream && last.ConsumerSeq > m.c.floor.consumer {
		for _, seq := range m.open() {
			if seq <= last.Seq {
				m.finish(seq)
			}
		}
	}
	return flowHeader([]string{fmt.Sprint(last.ConsumerSeq), fmt.Sprint(last.Seq)})
}

func (m *model) acknowledge(seq uint64, how int) {
	if m.cfg.AckPolicy == api.AckFlowControl {
		if m.ack(seq, "", "") {
			m.fatalf("acknowledging %d is answered", seq)
		}
		return
	}
	switch how {
	default:
		m.finish(seq)
		if m.cfg.AckPolicy == api.AckAll {
			for _, s := range m.open() {
				if s <= seq {
					m.finish(s)
				}
			}
		}
		if m.ack(seq, []string{"", "+ACK", "+OK"}[m.rng.IntN(3)], "") != (m.cfg.AckPolicy != api.AckNone) {
			m.fatalf("acknowledging %d is answered wrongly", seq)
		}
	case 5, 6:
		m.ack(seq, "-NAK", "")
	case 7:
		m.ack(seq, fmt.Sprintf("-NAK %dms", m.rng.IntN(3000)), "")
	case 8:
		m.ack(seq, "+WPI", "")
	case 9:
		if m.cfg.AckPolicy == api.AckExplicit {
			m.finish(seq)
			m.ack(seq, "+TERM", "")
		}
	}
}

func (m *model) purge() {
	if len(m.stream.messages) == 0 {
		return
	}
	from := m.rng.IntN(len(m.stream.messages))
	odd := m.rng.IntN(2) == 0
	for _, msg := range append([]fakeMessage(nil), m.stream.messages[:from]...) {
		if odd || msg.seq%2 == 0 {
			m.finish(msg.seq)
			m.stream.remove(msg.seq)
		}
	}
	m.c.Purged(m.now, &m.fx)
	m.world.settle()
}

// fail crashes, perhaps with progress lost: what is not certain may then come again.
func (m *model) fail() {
	lose := 0
	if m.rng.IntN(2) == 0 {
		lose = m.rng.IntN(min(4, len(m.log)))
	}
	m.crash(lose)
	for seq, need := range m.done {
		if _, there := m.stream.get(seq); need > len(m.log) && there {
			delete(m.done, seq)
		}
	}
	if lose > 0 {
		// Deliveries that are forgotten are counted anew.
		for seq := range m.deliveries {
			switch {
			case seq > m.c.delivered.stream:
				m.deliveries[seq] = 0
			case m.deliveries[seq] > 0:
				m.deliveries[seq] = 1
			}
		}
		for _, e := range m.c.pending.all {
			m.deliveries[e.stream] = int(e.deliveries)
		}
	}
	m.c.Interest(!m.left[m.cfg.DeliverSubject], m.now)
	m.world.settle()
}

// verify compares the counts.
func (m *model) verify() {
	m.t.Helper()
	info := m.c.Info(m.now, &m.fx)
	m.effects()
	open := m.open()
	if m.cfg.AckPolicy == api.AckNone {
		open = nil
	}
	if info.NumAckPending != len(open) {
		m.fatalf("num_ack_pending is %d, should be %d: %v", info.NumAckPending, len(open), open)
	}
	again := 0
	for _, seq := range open {
		if m.deliveries[seq] > 1 {
			again++
		}
	}
	if got := m.c.pending.redelivered; got != again {
		m.fatalf("%d redelivered, should be %d", got, again)
	}
	for _, seq := range open {
		if seq <= info.AckFloor.Stream {
			m.fatalf("ack floor %d is above pending message %d", info.AckFloor.Stream, seq)
		}
		if !m.c.NeedsAck(seq) {
			m.fatalf("pending message %d is not needed", seq)
		}
	}
	if len(open) == 0 && (info.AckFloor.Stream != info.Delivered.Stream || info.AckFloor.Consumer != info.Delivered.Consumer) {
		m.fatalf("nothing is pending, the ack floor is %v and delivered is %v", info.AckFloor, info.Delivered)
	}
	if info.NumWaiting > max(m.cfg.MaxWaiting, 0) {
		m.fatalf("%d requests wait", info.NumWaiting)
	}
}

// drain takes everything that is left.
func (m *model) drain() {
	m.c.Pause(time.Time{}, m.now, &m.fx)
	clear(m.left)
	for round := 0; ; round++ {
		if round > 1000 {
			m.fatalf("messages are left that never come")
		}
		if m.c.push {
			m.c.Interest(true, m.now)
			m.c.FlowControl([]byte(m.c.flow.id), m.flowAnswer(), m.now, &m.fx)
		} else {
			m.c.Pull([]byte("drain"), fmt.Appendf(nil, `{"batch":100,"expires":1000000000%s}`, m.groups.last(m.c)), m.now, &m.fx)
		}
		m.world.settle()
		for _, seq := range m.open() {
			if _, done := m.done[seq]; !done {
				m.acknowledge(seq, 0)
			}
		}
		m.verify()
		m.advance(5 * time.Second)
		left := 0
		for _, msg := range m.stream.messages {
			if _, done := m.done[msg.seq]; !done && m.view.match(msg) && !m.optional[msg.seq] {
				left++
			}
		}
		if left == 0 {
			break
		}
	}
	for seq := range m.settled {
		// One that was settled before a crash may not pass the filter any more.
		msg, there := m.stream.get(seq)
		if _, done := m.done[seq]; !done && !(there && (m.optional[seq] || !m.view.match(msg))) {
			m.fatalf("message %d is settled although it is not done", seq)
		}
	}
	for _, msg := range m.stream.messages {
		if _, done := m.done[msg.seq]; done && m.deliveries[msg.seq] > 0 && m.settled[msg.seq] == 0 && !m.c.exhausted.has(msg.seq) {
			m.fatalf("message %d is done and not settled", msg.seq)
		}
	}
	if m.c.numPending != 0 || m.c.pending.live != 0 {
		m.fatalf("drained, and %d messages are to come and %d pending", m.c.numPending, m.c.pending.live)
	}
}

func TestModel(t *testing.T) {
	seeds, steps := 150, 300
	if testing.Short() {
		seeds = 50
	}
	configs := []string{
		`{"ack_policy":"explicit"}`,
		`{"ack_policy":"explicit","max_ack_pending":3,"max_deliver":3}`,
		`{"ack_policy":"explicit","filter_subjects":["s.1","s.2"],"max_ack_pending":-1}`,
		`{"ack_policy":"explicit","max_deliver":4,"backoff":[100000000,500000000,2000000000]}`,
		`{"ack_policy":"all","max_ack_pending":20}`,
		`{"ack_policy":"none"}`,
		`{"ack_policy":"explicit","deliver_subject":"D","max_ack_pending":10}`,
		`{"ack_policy":"none","deliver_subject":"D","flow_control":true,"idle_heartbeat":500000000}`,
		`{"ack_policy":"explicit","deliver_subject":"D","rate_limit_bps":8000,"filter_subject":"s.1"}`,
		`{"ack_policy":"explicit","filter_subject":"s.*","deliver_policy":"last_per_subject"}`,
		`{"ack_policy":"explicit","filter_subjects":["s.0","s.1"],"deliver_policy":"last_per_subject","max_ack_pending":2}`,
		`{"ack_policy":"explicit","filter_subjects":["s.*"],"max_deliver":2}`,
		`{"ack_policy":"explicit","replay_policy":"original"}`,
		`{"ack_policy":"explicit","priority_policy":"overflow","priority_groups":["g"],"max_ack_pending":10}`,
		`{"ack_policy":"explicit","priority_policy":"pinned_client","priority_groups":["g"],"priority_timeout":2000000000}`,
		`{"ack_policy":"explicit","priority_policy":"prioritized","priority_groups":["g"],"max_waiting":10}`,
		`{"ack_policy":"flow_control","deliver_subject":"D","max_ack_pending":7}`,
	}
	for i, raw := range configs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			for seed := range uint64(seeds) {
				m := newModel(t, seed)
				for range m.rng.IntN(20) {
					m.publish(fmt.Sprintf("s.%d", m.rng.IntN(4)), 10)
					m.now = m.now.Add(time.Duration(m.rng.IntN(1000)) * time.Millisecond)
				}
				m.cfg = checkedConfig(t, raw)
				m.cfg.AckWait = max(min(m.cfg.AckWait, 2*time.Second), 0)
				m.opts.MaxPayload, m.opts.Retains = 500, true
				m.refilter = seed%2 == 1 && len(m.cfg.FilterSubjects) > 0
				m.create(m.cfg)
				m.skipFirst()
				for range steps {
					m.step()
				}
				m.checkReplay()
				m.drain()
				m.checkReplay()
			}
		})
	}
}

// skipFirst notes what the deliver policy leaves out.
func (m *model) skipFirst() {
	for _, msg := range m.stream.messages {
		listed := false
		for _, seq := range m.c.skip.seqs {
			listed = listed || seq == msg.seq
		}
		if m.deliveries[msg.seq] == 0 && msg.seq < m.c.cursor && !listed {
			m.optional[msg.seq], m.never[msg.seq] = true, m.c.skip.active()
		}
	}
}

func checkedConfig(t testing.TB, raw string) api.ConsumerConfig {
	t.Helper()
	cfg, err := parseConfig(raw)
	if err == nil {
		cfg, err = CheckConfig(cfg, api.StreamConfig{Name: "S", Replicas: 1}, Limits{}, false)
	}
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return cfg
}
