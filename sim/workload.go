package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/jserr"
)

// comes is the stream that is created and deleted again and again.
const comes = "come"

// step does one thing at random.
func (w *world) step() {
	r := w.random
	if n := r.IntN(1000); n < w.plan.violence {
		w.violence()
		return
	}
	if n := r.IntN(1000); n < w.plan.outages && !w.healed.Load() {
		w.outage()
		return
	}
	s := pick(r, w.plan.streams...)
	if s.spec.Name == comes {
		if r.IntN(8) == 0 || w.label(comes) == comes {
			w.comeOrGo(s)
			return
		}
	}
	switch n := r.IntN(100); {
	case n < 45:
		for range 1 + r.IntN(8) {
			w.publish(s)
		}
	case n < 60:
		w.pull(s)
	case n < 80:
		w.answer(false)
	case n < 84:
		w.read(s)
	case n < 88:
		w.remove(s)
	case n < 91:
		w.update(s)
	case n < 95:
		w.passingConsumer(s)
	default:
		w.trim()
	}
}

// at is the process that a client happens to talk to: mostly the one that runs.
func (w *world) at() *life {
	if len(w.paused) > 0 && w.random.IntN(3) == 0 {
		return pick(w.random, w.paused...)
	}
	return w.current
}

// violence happens to the process.
func (w *world) violence() {
	r := w.random
	switch r.IntN(5) {
	case 0, 1:
		w.crash("killed")
	case 2:
		l := w.current
		w.current = nil
		w.journal.add(Event{Kind: LifeEnded, Life: l.number, Text: "is stopping"})
		ctx, cancel := context.WithTimeout(context.Background(), pick(r, time.Millisecond, 10*time.Second, 5*time.Minute))
		if err := l.stop(ctx); err != nil {
			w.journal.note(l.number, "the stop: %v", err)
		}
		cancel()
		l.kill()
	case 3:
		l := w.current
		w.current = nil
		w.journal.note(l.number, "paused")
		l.link.pause()
		l.contested.Store(true)
		w.paused = append(w.paused, l)
		for range r.IntN(3) { // nobody has noticed yet
			w.publishAt(l, pick(r, w.plan.streams...))
		}
	case 4:
		if len(w.paused) == 0 {
			w.crash("killed")
			break
		}
		i := r.IntN(len(w.paused))
		if r.IntN(4) == 0 {
			w.bury(i, "killed while it was paused")
			break
		}
		w.journal.note(w.paused[i].number, "wakes up")
		w.paused[i].link.resume()
	}
	if r.IntN(2) == 0 {
		time.Sleep(time.Duration(r.Int64N(int64(10 * time.Second))))
	}
}

// outage takes the store away for a while.
func (w *world) outage() {
	d := time.Duration(w.random.Int64N(int64(pick(w.random, 3*time.Second, 4*time.Minute))))
	w.journal.note(w.lives, "the store is away for %v", d.Round(time.Millisecond))
	_ = w.faulty.SetRules(away(w.random))
	w.requests.Go(func() {
		time.Sleep(d)
		if w.healed.Load() {
			return
		}
		_ = w.faulty.SetRules(w.plan.rules)
	})
	if w.random.IntN(2) == 0 {
		time.Sleep(time.Duration(w.random.Int64N(int64(d) + 1)))
	}
}

// publish sends one message.
func (w *world) publish(s *streamPlan) { w.publishAt(w.at(), s) }

func (w *world) publishAt(l *life, s *streamPlan) {
	r := w.random
	label := l.label(s.spec.Name)
	if s.spec.Name == comes && (label == comes || l.contested.Load()) {
		return // it is not there, or not that one
	}
	if s.ids && len(w.resent) > 0 && r.IntN(5) == 0 {
		if again := pick(r, w.resent...); again.stream == s && again.label == label {
			w.sendMessage(l, s, Event{Message: again.number, Subject: again.subject, MsgID: true})
			return
		}
	}
	w.numbers++
	e := Event{Message: w.numbers, Subject: s.subject(r)}
	switch {
	case s.ids && r.IntN(3) == 0:
		e.MsgID = true
		w.resent = append(w.resent, resend{e.Message, s, label, e.Subject})
	case s.rollups && r.IntN(10) == 0:
		e.Rollup = true
	case s.expects && r.IntN(4) == 0:
		w.mu.Lock()
		if r.IntN(2) == 0 {
			e.ExpectLast = w.last[label] + 1 + uint64(r.IntN(2))
		} else {
			e.ExpectOfSubject = w.last[label+" "+e.Subject] + 1
		}
		w.mu.Unlock()
	}
	w.sendMessage(l, s, e)
}

func (w *world) sendMessage(l *life, s *streamPlan, e Event) {
	e.Kind, e.Life, e.Stream = Sent, l.number, l.label(s.spec.Name)
	header := ""
	add := func(name string, value any) { header += fmt.Sprintf("%s: %v\r\n", name, value) }
	if e.MsgID {
		add("Nats-Msg-Id", "id-"+strconv.Itoa(e.Message))
	}
	if e.Rollup {
		add("Nats-Rollup", "sub")
	}
	if e.ExpectLast > 0 {
		add("Nats-Expected-Last-Sequence", e.ExpectLast-1)
	}
	if e.ExpectOfSubject > 0 {
		add("Nats-Expected-Last-Subject-Sequence", e.ExpectOfSubject-1)
	}
	if header != "" {
		header = "NATS/1.0\r\n" + header + "\r\n"
	}
	w.journal.add(e)
	l.session.send(e.Subject, fmt.Sprintf("_INBOX.p.%d.%s.%s", e.Message, e.Stream, e.Subject), header, payload(e.Message))
}

// pull asks for messages.
func (w *world) pull(s *streamPlan) {
	if len(s.consumers) == 0 {
		return
	}
	c := pick(w.random, s.consumers...)
	w.pullFrom(w.at(), s.spec.Name, c.Durable, 1+w.random.IntN(10))
}

func (w *world) pullFrom(l *life, stream, consumer string, n int) {
	l.session.send("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer, "_INBOX.m", "", fmt.Sprintf(`{"batch":%d,"expires":%d}`, n, 2*time.Second))
}

// answer deals with what was delivered: acknowledges it plainly or doubly, refuses it, or leaves it. all acknowledges
// everything plainly.
func (w *world) answer(all bool) (answered int) {
	lives := append([]*life{w.current}, w.paused...)
	for _, l := range lives {
		for _, d := range l.session.take() {
			if all {
				w.ack(l, d, "+ACK", false)
				answered++
				continue
			}
			switch n := w.random.IntN(20); {
			case n < 6:
				w.ack(l, d, "+ACK", false)
			case n < 12:
				w.ack(l, d, "+ACK", true)
			case n < 14:
				w.ack(l, d, "-NAK", false)
			case n < 15:
				w.ack(l, d, "+TERM", w.random.IntN(2) == 0)
			case n < 16:
				w.ack(l, d, "+WPI", false)
			}
		}
	}
	return answered
}

func (w *world) ack(l *life, d delivery, verb string, double bool) {
	e := Event{Kind: AckSent, Life: l.number, Stream: l.label(d.stream), Consumer: d.consumer, Seq: d.seq, Text: verb}
	reply := ""
	if double {
		w.operation++
		e.Op = w.operation
		reply = fmt.Sprintf("_INBOX.a.%d.%s", e.Op, e.Stream)
	}
	w.journal.add(e)
	l.session.send(d.reply, reply, "", verb)
}

// read gets a message that ought to be there.
func (w *world) read(s *streamPlan) {
	l := w.at()
	label := l.label(s.spec.Name)
	w.mu.Lock()
	last := w.last[label]
	w.mu.Unlock()
	seq := 1 + w.random.Uint64N(last+1)
	l.op(func(ctx context.Context) {
		st, err := l.account.Stream(s.spec.Name)
		if err != nil {
			return
		}
		m, err := st.GetMessage(ctx, api.JSApiMsgGetRequest{Seq: seq})
		if isError(err, jserr.NoMessageFound) && seq <= last && !l.contested.Load() && l.label(s.spec.Name) == label {
			l.hear(Event{Kind: Gone, Stream: label, Seq: seq})
		}
		if err == nil && l.label(s.spec.Name) == label {
			l.hear(Event{Kind: Read, Stream: label, Seq: seq, Message: parsePayload(m.Data), Subject: m.Subject})
		}
	})
}

// hear records what a request was answered, unless the process is dead: nobody hears the dead.
func (l *life) hear(e Event) {
	if l.session.gone.Load() {
		return
	}
	e.Life = l.number
	l.world.journal.add(e)
}

// remove deletes a message or purges.
func (w *world) remove(s *streamPlan) {
	l, r := w.current, w.random
	if !s.deletes {
		return
	}
	w.operation++
	op, label := w.operation, w.label(s.spec.Name)
	w.mu.Lock()
	last := w.last[label]
	w.mu.Unlock()
	if last == 0 {
		return
	}
	if r.IntN(3) > 0 {
		seq := 1 + r.Uint64N(last)
		w.journal.add(Event{Kind: DeleteSent, Life: l.number, Stream: label, Op: op, Seq: seq})
		l.op(func(ctx context.Context) {
			st, err := l.account.Stream(s.spec.Name)
			if err == nil {
				err = st.DeleteMessage(ctx, seq)
			}
			if err == nil {
				l.hear(Event{Kind: DeleteDone, Stream: label, Op: op})
			}
		})
		return
	}
	if r.IntN(3) > 0 {
		return
	}
	filter := ""
	if r.IntN(2) == 0 {
		filter = s.subject(r)
	}
	w.journal.add(Event{Kind: PurgeSent, Life: l.number, Stream: label, Op: op, Subject: filter})
	l.op(func(ctx context.Context) {
		st, err := l.account.Stream(s.spec.Name)
		if err == nil {
			_, err = st.Purge(ctx, engine.PurgeRequest{Subject: filter})
		}
		if err == nil {
			l.hear(Event{Kind: PurgeDone, Stream: label, Op: op})
		}
	})
}

// update changes a stream's configuration: its bound, or only its description.
func (w *world) update(s *streamPlan) {
	l, r := w.current, w.random
	if s.spec.Name == comes || s.spec.Durability != Stored {
		return
	}
	cfg := s.cfg
	w.operation++
	op := w.operation
	cfg.Description = strconv.Itoa(op)
	if s.updates {
		cfg.MaxMsgs = 1 + r.Int64N(30)
		w.journal.add(Event{Kind: ConfigSent, Life: l.number, Stream: s.spec.Name, Seq: uint64(cfg.MaxMsgs)})
	}
	w.journal.add(Event{Kind: ChangeSent, Life: l.number, Stream: s.spec.Name, Op: op})
	l.op(func(ctx context.Context) {
		if _, err := l.account.UpdateStream(ctx, cfg, false); err != nil {
			w.journal.note(l.number, "updating %s: %v", cfg.Name, err)
			return
		}
		l.hear(Event{Kind: ChangeDone, Stream: s.spec.Name, Op: op})
	})
}

// passingConsumer creates, or deletes, a consumer that nobody relies on.
func (w *world) passingConsumer(s *streamPlan) {
	if s.spec.Retention != Limits {
		return
	}
	l, r := w.current, w.random
	if r.IntN(3) == 0 {
		w.lastingConsumer(s)
		return
	}
	name := fmt.Sprintf("pass-%d", r.IntN(2))
	ask := api.JSApiConsumerCreateRequest{Stream: s.spec.Name, Config: api.ConsumerConfig{Durable: name, AckPolicy: api.AckExplicit}}
	create := r.IntN(2) == 0
	if create && r.IntN(2) == 0 {
		ask.Config.InactiveThreshold = 2 * time.Second
	}
	l.op(func(ctx context.Context) {
		st, err := l.account.Stream(s.spec.Name)
		switch {
		case err != nil:
		case create:
			_, err = st.CreateConsumer(ctx, ask)
		default:
			err = st.DeleteConsumer(ctx, name)
		}
		_ = err // either way
	})
	if r.IntN(2) == 0 {
		w.pullFrom(l, s.spec.Name, name, 3)
	}
}

// lastingConsumer creates a consumer of a name of its own, and may delete it again.
func (w *world) lastingConsumer(s *streamPlan) {
	if s.spec.Durability != Stored || s.spec.Name == comes {
		return
	}
	l := w.current
	w.operation++
	ask := api.JSApiConsumerCreateRequest{Stream: s.spec.Name, Config: api.ConsumerConfig{Durable: fmt.Sprintf("own-%d", w.operation)}}
	ask.Config.AckPolicy = pick(w.random, api.AckExplicit, api.AckAll, api.AckNone)
	remove, change := w.random.IntN(2) == 0, w.random.IntN(3) == 0
	l.op(func(ctx context.Context) {
		e := Event{Kind: Made, Stream: s.spec.Name, Consumer: ask.Config.Durable}
		st, err := l.account.Stream(s.spec.Name)
		if err == nil {
			_, err = st.CreateConsumer(ctx, ask)
		}
		if err != nil {
			return
		}
		l.hear(e)
		if change {
			ask.Config.Description = "changed"
			_, _ = st.CreateConsumer(ctx, ask) // either way
		}
		if remove {
			e.Kind = Unmade
			l.hear(Event{Kind: Unsure, Stream: s.spec.Name, Consumer: e.Consumer})
			if err := st.DeleteConsumer(ctx, e.Consumer); err == nil {
				l.hear(e)
			}
		}
	})
}

// trim lets the log's front go.
func (w *world) trim() {
	l := w.current
	l.op(func(ctx context.Context) {
		err := l.engine.Trim(ctx)
		w.journal.note(l.number, "trimmed: %v", err)
		err = l.engine.Tidy(ctx)
		w.journal.note(l.number, "tidied: %v", err)
	})
}

// comeOrGo creates or deletes the stream that comes and goes, and waits for the answer. While that is not known it is
// asked again.
func (w *world) comeOrGo(s *streamPlan) {
	l := w.current
	ctx, cancel := context.WithTimeout(context.Background(), pick(w.random, 2*time.Second, answerWithin))
	defer cancel()
	if label := w.label(comes); label != comes {
		w.setLabel(comes, "")
		w.goes = true
		w.unknown(label, true)
	}
	if w.goes {
		w.journal.note(l.number, "deleting %s", comes)
		err := l.account.DeleteStream(ctx, comes)
		if err != nil && !isError(err, jserr.StreamNotFound) || l.lost.Load() != nil {
			w.journal.note(l.number, "deleting %s: %v", comes, err)
			return
		}
		w.goes = false
		w.journal.note(l.number, "%s is deleted", comes)
		if w.random.IntN(2) == 0 {
			return
		}
	}
	w.journal.note(l.number, "creating %s", comes)
	if err := w.create(ctx, s); err != nil {
		w.journal.note(l.number, "creating %s: %v", comes, err)
		return
	}
	w.incarnations++
	label := fmt.Sprintf("%s#%d", comes, w.incarnations)
	w.setLabel(comes, label)
	spec := s.spec
	spec.Name = label
	w.specs = append(w.specs, spec)
	w.journal.note(l.number, "%s is created", label)
}

// unknown notes that it is not known at the end what a stream holds.
func (w *world) unknown(label string, unknown bool) {
	for i := range w.specs {
		if w.specs[i].Name == label {
			w.specs[i].Unknown = unknown
		}
	}
}

// create makes a stream with its consumers.
func (w *world) create(ctx context.Context, s *streamPlan) error {
	st, err := w.current.account.CreateStream(ctx, s.cfg, false)
	if err != nil {
		return err
	}
	for _, c := range s.consumers {
		if _, err := st.CreateConsumer(ctx, api.JSApiConsumerCreateRequest{Stream: s.spec.Name, Config: c}); err != nil {
			return fmt.Errorf("consumer %s: %w", c.Durable, err)
		}
	}
	return nil
}

func isError(err error, code jserr.Code) bool {
	var e *jserr.Error
	return errors.As(err, &e) && e.Is(jserr.New(code))
}
