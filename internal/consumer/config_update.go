package consumer

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/subject"
)

// Existing is the consumer that has the name of one that is to be created.
type Existing struct {
	Config api.ConsumerConfig
	// Bound: somebody listens on its deliver subject.
	Bound bool
}

// Resolve decides what a create request does: cfg as CheckConfig returned it, with its name set, and the consumer of
// that name, or nil. It returns the configuration to create or to update with. changed is false when the consumer
// exists and already has it. Errors are *jserr.Error.
func Resolve(action api.ConsumerAction, cfg api.ConsumerConfig, existing *Existing) (_ api.ConsumerConfig, changed bool, err error) {
	if existing == nil {
		if action == api.ActionUpdate {
			return cfg, false, jserr.New(jserr.ConsumerDoesNotExist)
		}
		return cfg, true, nil
	}
	old := existing.Config
	// Pausing has a request of its own.
	cfg.PauseUntil = old.PauseUntil
	if equal(old, cfg) {
		return old, false, nil
	}
	if action == api.ActionCreate {
		return cfg, false, jserr.New(jserr.ConsumerAlreadyExists)
	}
	return cfg, true, CheckUpdate(old, cfg, existing.Bound)
}

// CheckUpdate tells whether a consumer may change from one configuration to another, both as CheckConfig returned
// them. bound: somebody listens on its deliver subject.
func CheckUpdate(old, cfg api.ConsumerConfig, bound bool) error {
	if what := fixedFieldChanged(&old, &cfg); what != "" {
		return jserr.New(jserr.ConsumerCreate, "err", what+" can not be updated")
	}
	if old.DeliverSubject != cfg.DeliverSubject {
		switch {
		case old.DeliverSubject == "":
			return jserr.New(jserr.ConsumerCreate, "err", "can not update pull consumer to push based")
		case cfg.DeliverSubject == "":
			return jserr.New(jserr.ConsumerCreate, "err", "can not update push consumer to pull based")
		case bound:
			return jserr.New(jserr.ConsumerNameExist)
		}
	}
	if old.MaxWaiting != cfg.MaxWaiting {
		return jserr.New(jserr.ConsumerCreate, "err", "max waiting can not be updated")
	}
	return nil
}

// fixedFieldChanged names what differs and may not.
func fixedFieldChanged(old, cfg *api.ConsumerConfig) string {
	switch {
	case old.DeliverPolicy != cfg.DeliverPolicy:
		return "deliver policy"
	case old.MemoryStorage != cfg.MemoryStorage:
		return "storage type"
	case old.Direct != cfg.Direct:
		return "direct"
	case old.Sourcing != cfg.Sourcing:
		return "sourcing"
	case old.OptStartSeq != cfg.OptStartSeq:
		return "start sequence"
	case !sameStart(old, cfg):
		return "start time"
	case old.AckPolicy != cfg.AckPolicy:
		return "ack policy"
	case old.ReplayPolicy != cfg.ReplayPolicy:
		return "replay policy"
	case old.Heartbeat != cfg.Heartbeat:
		return "heart beats"
	case old.FlowControl != cfg.FlowControl:
		return "flow control"
	}
	return ""
}

func sameStart(old, cfg *api.ConsumerConfig) bool {
	if old.OptStartTime == nil || cfg.OptStartTime == nil {
		return old.OptStartTime == cfg.OptStartTime
	}
	return old.OptStartTime.Equal(*cfg.OptStartTime)
}

// equal compares configurations by what the client said: the server's own metadata, nil or empty lists, and the way a
// time is written make no difference.
func equal(a, b api.ConsumerConfig) bool {
	return sameStart(&a, &b) && a.PauseUntil.Equal(b.PauseUntil) && reflect.DeepEqual(comparable(a), comparable(b))
}

func comparable(c api.ConsumerConfig) api.ConsumerConfig {
	c.OptStartTime = nil
	c.PauseUntil = c.PauseUntil.UTC().Round(0)
	own := maps.Clone(c.Metadata)
	maps.DeleteFunc(own, func(k, _ string) bool { return strings.HasPrefix(k, "_nats.") })
	if c.Metadata = own; len(own) == 0 {
		c.Metadata = nil
	}
	if len(c.BackOff) == 0 {
		c.BackOff = nil
	}
	if len(c.FilterSubjects) == 0 {
		c.FilterSubjects = nil
	}
	return c
}

// SameFilters reports whether two configurations filter by the same subjects.
func SameFilters(a, b *api.ConsumerConfig) bool {
	x, y := slices.Sorted(slices.Values(Filters(a))), slices.Sorted(slices.Values(Filters(b)))
	return slices.Equal(x, y)
}

// CheckWorkQueue checks a consumer of a work queue stream against the stream's other consumers, so that every message
// has one consumer at most. created is false for an update.
func CheckWorkQueue(cfg *api.ConsumerConfig, others []api.ConsumerConfig, created bool) error {
	filters := Filters(cfg)
	others = slices.DeleteFunc(slices.Clone(others), func(o api.ConsumerConfig) bool { return o.Direct || o.Sourcing })
	if created {
		switch {
		case cfg.Direct || cfg.Sourcing:
			return nil
		case cfg.AckPolicy != api.AckExplicit && cfg.AckPolicy != api.AckFlowControl:
			return jserr.New(jserr.ConsumerWQRequiresExplicitAck)
		case cfg.DeliverPolicy != api.DeliverAll:
			return jserr.New(jserr.ConsumerWQConsumerNotDeliverAll)
		case len(others) > 0 && len(filters) == 0:
			return jserr.New(jserr.ConsumerWQMultipleUnfiltered)
		}
	}
	for i := range others {
		theirs := Filters(&others[i])
		if len(theirs) == 0 && len(filters) > 0 {
			return jserr.New(jserr.ConsumerWQConsumerNotUnique)
		}
		for _, f := range filters {
			if slices.ContainsFunc(theirs, func(t string) bool { return subject.Overlap(f, t) }) {
				return jserr.New(jserr.ConsumerWQConsumerNotUnique)
			}
		}
	}
	return nil
}
