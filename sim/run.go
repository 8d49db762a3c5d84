package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/fault"
	"github.com/sluicemq/sluice/internal/wal"
)

// Result of a run.
type Result struct {
	Seed    uint64
	History History
	Faults  []string // none: nothing acknowledged was lost
	Lives   int
	Objects int // that ever landed in the log
	Deleted int // of those
	Refused int // creates, since there was something
	Injured int // requests that the store treated badly
	log     store.Store
}

// Dump writes everything that ever landed in the log, if the run was asked to keep it.
func (r *Result) Dump(w io.Writer) error {
	if r.log == nil {
		return nil
	}
	return wal.Dump(context.Background(), r.log, w, wal.DumpOptions{Prefix: "wal/", Describe: describe})
}

// describe prints the records of a batch.
func describe(body []byte, line func(string)) error {
	for len(body) > 0 {
		r, rest, err := record.Next(body)
		if err != nil {
			return err
		}
		line(record.Describe(r))
		body = rest
	}
	return nil
}

// Run makes the run of a seed. It must be called in a synctest bubble, and leaves no goroutine behind.
func Run(seed uint64) *Result { return run(seed, options{}) }

func run(seed uint64, opts options) *Result {
	w, err := newWorld(seed, opts)
	if err != nil {
		return &Result{Seed: seed, Faults: []string{err.Error()}}
	}
	ok := w.setUp()
	for range w.plan.steps {
		if !ok {
			break
		}
		if ok = w.tend(); ok {
			w.step()
			time.Sleep(time.Duration(w.random.Int64N(int64(w.plan.pause))))
		}
	}
	if ok {
		w.finish()
	}
	w.shutDown()
	w.journal.history.Specs = w.specs
	faults := append(w.faults, w.audit.faults...)
	if ok {
		faults = append(faults, Check(&w.journal.history)...)
	}
	return &Result{Seed: seed, History: w.journal.history, Faults: faults, Lives: w.lives, Objects: len(w.audit.wrote),
		Deleted: w.audit.truncated, Refused: w.audit.refused, Injured: w.injured(), log: w.audit.all}
}

// setUp makes the streams while all is well.
func (w *world) setUp() bool {
	if !w.revive() {
		return false
	}
	for _, s := range w.plan.streams {
		if s.spec.Name == comes {
			continue
		}
		w.specs = append(w.specs, s.spec)
		if err := w.create(context.Background(), s); err != nil {
			w.fault("creating %s: %v", s.spec.Name, err)
			return false
		}
	}
	_ = w.faulty.SetRules(w.plan.rules)
	return true
}

// recreateVolatile makes the streams that went with their process.
func (w *world) recreateVolatile() {
	for _, s := range w.plan.streams {
		if s.spec.Durability == Volatile {
			if err := w.create(context.Background(), s); err != nil {
				w.fault("creating %s: %v", s.spec.Name, err)
			}
		}
	}
}

// settleTime is longer than any write is delayed.
const settleTime = 3 * time.Minute

// finish heals the store, lets everything land, and looks at what is there.
func (w *world) finish() {
	if !w.tend() {
		return
	}
	w.heal()
	for _, p := range w.paused {
		p.link.resume()
	}
	time.Sleep(settleTime)
	for len(w.paused) > 0 {
		if p := w.paused[0]; p.lost.Load() == nil {
			w.fault("life %d was taken over from, is awake, and does not know it", p.number)
		}
		w.bury(0, "the run ends")
	}
	if !w.tend() {
		return
	}
	w.crash("the run ends")
	time.Sleep(settleTime)
	if !w.revive() {
		return
	}
	w.drain()
	drained := w.contents(true)
	w.crash("to look at it once more")
	time.Sleep(settleTime) // a heartbeat that was under way would make the dead process look alive
	if !w.revive() {
		return
	}
	if again := w.contents(false); !slices.Equal(drained, again) {
		w.fault("a crash while all was well changed what is there: before\n%v\nafter\n%v", drained, again)
	}
}

// drain fetches and acknowledges everything.
func (w *world) drain() {
	w.journal.add(Event{Kind: Drained, Life: w.current.number})
	for quiet := 0; quiet < 15; quiet++ {
		for _, s := range w.plan.streams {
			for _, c := range s.consumers {
				if c.DeliverSubject == "" {
					w.pullFrom(w.current, s.spec.Name, c.Durable, 200)
				}
			}
		}
		time.Sleep(time.Second)
		if w.answer(true) > 0 {
			quiet = 0
		}
		if time.Since(w.journal.begun) > 100*time.Hour {
			w.fault("the consumers never come to an end")
			return
		}
	}
}

// contents lists what the Stored streams hold that lose nothing by time, and records what all hold.
func (w *world) contents(record bool) (all []string) {
	l := w.current
	add := func(e Event) {
		if record {
			l.hear(e)
		}
	}
	for _, s := range w.plan.streams {
		label := w.label(s.spec.Name)
		st, err := l.account.Stream(s.spec.Name)
		if err != nil {
			if s.spec.Name == comes && label == comes || s.spec.Durability == Volatile {
				continue
			}
			w.fault("%s is not there: %v", label, err)
			continue
		}
		if s.spec.Name == comes && label == comes {
			continue // it may be
		}
		info, err := st.Info(api.JSApiStreamInfoRequest{})
		if err != nil {
			w.fault("%s: %v", label, err)
			continue
		}
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
			m, err := st.GetMessage(context.Background(), api.JSApiMsgGetRequest{Seq: seq})
			var none *jserr.Error
			if errors.As(err, &none) {
				continue
			}
			if err != nil {
				w.fault("%s: sequence %d cannot be read: %v", label, seq, err)
				continue
			}
			add(Event{Kind: Content, Stream: label, Seq: seq, Message: parsePayload(m.Data), Subject: m.Subject})
			if s.spec.Durability != Volatile && s.spec.MaxAge == 0 {
				all = append(all, fmt.Sprintf("%s %d %d %s %d", label, seq, parsePayload(m.Data), m.Subject, m.Time.UnixNano()))
			}
		}
		add(Event{Kind: State, Stream: label, Seq: info.State.FirstSeq, Last: info.State.LastSeq})
		if op, err := strconv.Atoi(st.Config().Description); err == nil {
			add(Event{Kind: Changed, Stream: label, Op: op})
		} else {
			add(Event{Kind: Changed, Stream: label})
		}
		names, err := st.ConsumerNames()
		if err != nil {
			w.fault("%s: %v", label, err)
		}
		for _, name := range names {
			add(Event{Kind: Exists, Stream: label, Consumer: name})
		}
		for _, c := range s.consumers {
			info, err := st.ConsumerInfo(c.Durable)
			if err != nil {
				w.fault("consumer %s of %s: %v", c.Durable, label, err)
				continue
			}
			add(Event{Kind: ConsumerInfo, Stream: label, Consumer: c.Durable, Seq: info.AckFloor.Stream, Last: info.NumPending})
		}
	}
	return all
}

// shutDown ends every process and every request.
func (w *world) shutDown() {
	for len(w.paused) > 0 {
		w.bury(0, "the run ends")
	}
	if w.current != nil {
		w.crash("the run ends")
	}
	w.requests.Wait()
	_ = w.faulty.Close() // drops what is pending, and has no error
}

// injured counts the injected faults.
func (w *world) injured() (n int) {
	for kind := fault.Lost; kind <= fault.Broken; kind++ {
		n += w.faulty.Count(kind)
	}
	return n
}
