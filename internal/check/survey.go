package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/segment"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// survey is what one look at heads, manifests and logs tells.
type survey struct {
	checker *checker
	only    map[record.StreamID]string // the streams that are looked at; nil: all

	heads     []*node
	bySegment map[string]*node // by the segment of the node's name
	listed    map[wal.LogID]bool
	manifests map[record.StreamID]*listing
	ledgers   map[record.StreamID]*ledger

	faults []Finding
	live   bool // a node may run
	broken bool // a head or a log has an error, so what the logs do not name may only not be seen
	stale  bool // the heads went on while the logs were read: look again
}

// node is a head, and the logs that count as its own.
type node struct {
	key, etag string
	head      *head.Head // nil: it cannot be read
	ranges    []head.LogRange
	index     map[wal.LogID]int
}

// vacant reports whether the head itself says that no process holds it.
func (n *node) vacant() bool { return n.head != nil && (n.head.Released || n.head.Instance == "") }

// closedByItself reports whether the process of the head's epoch released it by itself. A head that others have emptied may
// still have a process that sleeps.
func (n *node) closedByItself() bool {
	if n.head == nil || !n.head.Released {
		return false
	}
	for _, r := range n.head.Logs {
		if r.Node == n.head.Node && r.Epoch == n.head.Epoch {
			return true
		}
	}
	return false
}

// listing is what is kept of a manifest until its stream is looked at.
type listing struct {
	key  string
	swap manifest.ID
	from manifest.Place
	err  error
}

// damaged says what an error tells of an object that was read; "" where it tells nothing.
func damaged(err error) string {
	for _, e := range []error{head.ErrCorrupt, wal.ErrCorrupt, manifest.ErrCorrupt, segment.ErrCorrupt, record.ErrMalformed} {
		if errors.Is(err, e) {
			return "damaged"
		}
	}
	for _, e := range []error{head.ErrNewerFormat, wal.ErrNewerFormat, manifest.ErrNewerFormat, segment.ErrNewerFormat} {
		if errors.Is(err, e) {
			return "newer"
		}
	}
	if errors.Is(err, segment.ErrKey) {
		return "key"
	}
	return ""
}

const (
	doNewer   = "Check it with the version that wrote it"
	doRestore = "Bring the object back from a version or a backup of the bucket"
)

// look reads heads, manifests and logs, in this order.
func (c *checker) look(ctx context.Context, only map[record.StreamID]string) (*survey, error) {
	s := &survey{
		checker: c, only: only, broken: c.broken, bySegment: map[string]*node{}, listed: map[wal.LogID]bool{},
		manifests: map[record.StreamID]*listing{}, ledgers: map[record.StreamID]*ledger{},
	}
	if err := s.readHeads(ctx); err != nil {
		return nil, err
	}
	if err := s.share(ctx); err != nil || s.stale {
		return s, err
	}
	if err := s.readManifests(ctx); err != nil {
		return nil, err
	}
	for _, n := range s.heads {
		for i := range n.ranges {
			if err := s.readRange(ctx, n, i); err != nil || s.stale {
				return s, err
			}
		}
	}
	return s, nil
}

// fault notes a finding; an error breaks the survey.
func (s *survey) fault(f Finding) {
	s.broken = s.broken || f.Severity == Error
	if len(s.faults) < maxFaults {
		s.faults = append(s.faults, f)
	} else if len(s.faults) == maxFaults {
		s.faults = append(s.faults, Finding{Severity: Error, Kind: "too-many", Key: f.Key, What: "there are more findings of heads and logs than are told", Do: "See to those that are told, and check again"})
	}
}

// readHead reads one head; no head is a node of neither head nor error.
func (c *checker) readHead(ctx context.Context, k string) (n *node, err error) {
	n = &node{key: k, index: map[wal.LogID]int{}}
	for range 2 { // what arrived damaged need not be stored so
		o, found, getErr := get(ctx, c.store, k)
		if getErr != nil || !found {
			return n, getErr
		}
		n.etag = o.ETag
		if n.head, err = head.Decode(k, o.Data); err == nil {
			return n, nil
		}
	}
	return n, err
}

func (s *survey) readHeads(ctx context.Context) error {
	return s.checker.list(ctx, key.Head.Prefix(), func(o store.Attributes) error {
		p, err := key.Parse(o.Key)
		if err != nil {
			return nil // told of in the walk
		}
		n, err := s.checker.readHead(ctx, o.Key)
		switch damaged(err) {
		case "damaged":
			s.fault(Finding{Severity: Error, Kind: "head-damaged", Key: o.Key, What: err.Error(),
				Means: "Its node cannot start, and which logs it has to replay is not known", Do: doRestore})
		case "newer":
			s.fault(Finding{Severity: Error, Kind: "head-newer", Key: o.Key, What: err.Error(),
				Means: "The logs that it lists were not checked", Do: doNewer})
		default:
			if err != nil {
				return err
			}
			if n.head == nil {
				return nil
			}
		}
		s.live = s.live || !n.vacant()
		s.heads = append(s.heads, n)
		s.bySegment[p.Node] = n
		return nil
	})
}

// share gives every log to one head. While ranges move from one head to another both list them, and the one that is to
// lose them says so.
func (s *survey) share(ctx context.Context) error {
	owners := map[wal.LogID]*node{}
	for _, n := range s.heads {
		if n.head == nil {
			continue
		}
		var taker *node
		if t := n.head.TakenBy; t != nil {
			taker = s.bySegment[key.Segment(t.Node)]
		}
		for _, r := range n.head.Logs {
			id := r.ID()
			s.listed[id] = true
			if taker != nil && taker.head != nil && taker.lists(id) {
				continue
			}
			if other := owners[id]; other != nil {
				still, err := s.bothList(ctx, id, n, other)
				if err != nil || !still {
					s.stale = !still
					return err
				}
				s.fault(Finding{Severity: Error, Kind: "log-listed-twice", Key: n.key, What: fmt.Sprintf("it lists %s, and so does %s", id, other.key),
					Means: "Two nodes would each recover the same streams", Do: "Start neither; compare both heads with older versions of them"})
				continue
			}
			owners[id] = n
			n.index[id] = len(n.ranges)
			n.ranges = append(n.ranges, r)
		}
	}
	return nil
}

func (n *node) lists(id wal.LogID) bool {
	for _, r := range n.head.Logs {
		if r.ID() == id {
			return true
		}
	}
	return false
}

// bothList reports whether two heads list a log still. They are read one after the other: it may have moved in between.
func (s *survey) bothList(ctx context.Context, id wal.LogID, nodes ...*node) (bool, error) {
	for _, n := range nodes {
		now, err := s.checker.readHead(ctx, n.key)
		if err != nil && damaged(err) == "" {
			return false, err
		}
		if now.head == nil || !now.lists(id) || now.head.TakenBy != nil {
			return false, nil
		}
	}
	return true, nil
}

// needed reports whether a head still lists an offset of a log; if not, the look is stale.
func (s *survey) needed(ctx context.Context, n *node, id wal.LogID, at wal.Offset) (bool, error) {
	now, err := s.checker.readHead(ctx, n.key)
	if err != nil {
		return true, ignoreDamage(err)
	}
	if now.etag == n.etag || now.head == nil {
		return true, nil
	}
	for _, r := range now.head.Logs {
		if r.ID() == id && r.Start <= at {
			return true, nil
		}
	}
	s.stale = true
	return false, nil
}

func ignoreDamage(err error) error {
	if damaged(err) != "" {
		return nil
	}
	return err
}

// readManifests notes where each stream's replay begins. Manifests are read again when their streams are looked at.
func (s *survey) readManifests(ctx context.Context) error {
	return s.checker.list(ctx, key.Manifest.Prefix(), func(o store.Attributes) error {
		p, err := key.Parse(o.Key)
		if err != nil || p.Family != key.Manifest || !s.wants(record.StreamID(p.ID)) {
			return nil
		}
		v, err := s.checker.loadManifest(ctx, o.Key, p.ID)
		if err != nil && damaged(err) == "" {
			return err
		}
		l := &listing{key: o.Key, err: err}
		if v.Manifest != nil {
			l.swap, l.from = v.Manifest.Swap, v.Manifest.From
		}
		if err != nil || v.Manifest != nil {
			s.manifests[record.StreamID(p.ID)] = l
		}
		return nil
	})
}

func (s *survey) wants(id record.StreamID) bool {
	if s.only == nil {
		return true
	}
	_, ok := s.only[id]
	return ok
}

func (c *checker) loadManifest(ctx context.Context, k string, id uint64) (v manifest.Version, err error) {
	err = persist(ctx, func() (err error) {
		v, err = manifest.LoadKey(ctx, c.store, k, id)
		return err
	})
	return v, err
}
