package consumer

import (
	"math"
	"regexp"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// Priority groups decide which of the waiting pull requests gets a message (ADR-42):
//
//   - overflow: a request with min_pending or min_ack_pending is served only while the consumer is that far behind;
//   - pinned_client: one client gets everything. It holds a pin, whose id its deliveries carry in the header Nats-Pin-Id
//     and its requests name; the others wait until it stops asking for its priority_timeout;
//   - prioritized: requests of a lower number come first.
//
// As in nats-server, a pin is not part of the progress: after a restart nobody holds it, requests that name the old one
// are answered with 423, and the first that names none gets the next. A consumer has one pin, whatever the number of its
// groups.

// groupName is what the name of a priority group looks like.
var groupName = regexp.MustCompile(`^[a-zA-Z0-9/_=-]{1,16}$`)

// CheckGroup checks the name of a priority group in a request.
func CheckGroup(name string) error {
	if !groupName.MatchString(name) {
		return jserr.New(jserr.ConsumerInvalidGroupName)
	}
	return nil
}

// noPriority is the priority of a request without any: it comes last.
const noPriority = math.MaxInt32

// priority is what a pull request says of its group.
type priority struct {
	group         string
	pin           string // the id that it names, and later the one that it was given
	minPending    int64
	minAckPending int64
	number        int // lower is served first
}

// pin is the right of one client to all messages.
type pin struct {
	id    string // empty: nobody has it
	group string // that it was given in
	since int64
	until int64 // when it ends, unless its client asks before
}

// pinIDLength is that of the ids that nats-server gives.
const pinIDLength = 22

// newPinID draws an id.
func (c *Consumer) newPinID() string {
	b := make([]byte, 0, pinIDLength)
	for n := uint64(0); len(b) < pinIDLength; n /= uint64(len(flowIDDigits)) {
		if n == 0 {
			n = c.random()
		}
		b = append(b, flowIDDigits[n%uint64(len(flowIDDigits))])
	}
	return string(b)
}

// givePin gives the client of a request the pin. Requests outside a group get none, and are served all the same.
func (c *Consumer) givePin(r *request, now int64, fx *Effects) {
	if r.priority.group == "" {
		return
	}
	c.pin = pin{id: c.newPinID(), group: r.priority.group, since: now}
	c.renewPin(now)
	r.priority.pin = c.pin.id
	c.advise(fx, Advisory{Kind: Pinned, Group: c.pin.group, PinID: c.pin.id})
}

// renewPin starts the time of the pin anew.
func (c *Consumer) renewPin(now int64) { c.pin.until = later(now, int64(c.cfg.PinnedTTL)) }

// expirePin takes the pin from a client that does not ask any more.
func (c *Consumer) expirePin(now int64, fx *Effects) {
	if c.pin.id == "" || now < c.pin.until {
		return
	}
	c.advise(fx, Advisory{Kind: Unpinned, Group: c.pin.group, Reason: "timeout"})
	c.pin = pin{}
}

// Unpin takes the pin from whoever has it. Errors are *jserr.Error: the consumer does not have the group.
func (c *Consumer) Unpin(group string, fx *Effects) error {
	for _, g := range c.cfg.PriorityGroups {
		if g == group {
			c.pin = pin{}
			c.advise(fx, Advisory{Kind: Unpinned, Group: group, Reason: "admin"})
			return nil
		}
	}
	return jserr.New(jserr.ConsumerInvalidPriorityGroup)
}

// refuseGroup checks what a request says of its group against the configuration. formal: it is JSON; what is not names
// no group, and is served nevertheless.
func (c *Consumer) refuseGroup(req *api.JSApiConsumerGetNextRequest, formal bool, now int64) (code int, text string) {
	policy := c.cfg.PriorityPolicy
	switch {
	case policy != api.PriorityOverflow && (req.MinPending != 0 || req.MinAckPending != 0):
		return 400, "Bad Request - Not a Overflow Priority consumer"
	case policy != api.PriorityPinnedClient && req.Id != "":
		return 400, "Bad Request - Not a Pinned Client Priority consumer"
	case req.Priority < 0 || req.Priority > 9:
		return 400, "Bad Request - Priority must be between 0 and 9"
	case policy == api.PriorityNone || !formal:
		return 0, ""
	case req.Group == "":
		return 400, "Bad Request - Priority Group missing"
	case !hasGroup(&c.cfg, req.Group):
		return 400, "Bad Request - Invalid Priority Group"
	}
	if c.pin.id != "" && req.Id != "" {
		if req.Id != c.pin.id {
			return 423, "Nats-Pin-Id mismatch"
		}
		c.renewPin(now)
	}
	return 0, ""
}

func hasGroup(cfg *api.ConsumerConfig, group string) bool {
	for _, g := range cfg.PriorityGroups {
		if g == group {
			return true
		}
	}
	return false
}

func priorityOf(req *api.JSApiConsumerGetNextRequest, formal bool) priority {
	p := priority{req.Group, req.Id, req.MinPending, req.MinAckPending, req.Priority}
	if !formal {
		p.number = noPriority
	}
	return p
}

// turn says what becomes of a request when there is a message to deliver.
type turn uint8

const (
	served   turn = iota
	givenPin      // served, and it gets the pin
	passed        // it stays, and another one is served
	wrongPin      // it names a pin that is not valid
)

// turnOf decides for one request; again: the message is a redelivery, which is not among those to come.
func (c *Consumer) turnOf(r *request, again bool) turn {
	p := &r.priority
	switch c.cfg.PriorityPolicy {
	case api.PriorityPinnedClient:
		switch {
		case p.pin != "" && p.pin != c.pin.id:
			return wrongPin
		case c.pin.id == "":
			return givenPin
		case p.pin == "":
			return passed
		}
	case api.PriorityOverflow:
		left := int64(min(c.numPending, math.MaxInt64-1))
		if again {
			left++
		}
		far := p.minPending > 0 && p.minPending <= left || p.minAckPending > 0 && p.minAckPending <= int64(c.pending.live)
		if (p.minPending > 0 || p.minAckPending > 0) && !far {
			return passed
		}
	}
	return served
}

// anybodyServed reports whether choosing a request for a message would change anything.
func (c *Consumer) anybodyServed(again bool, now int64) bool {
	if c.cfg.PriorityPolicy != api.PriorityPinnedClient && c.cfg.PriorityPolicy != api.PriorityOverflow {
		return c.waiting.head != nil
	}
	for r := c.waiting.head; r != nil; r = r.next {
		if r.expires != 0 && now >= r.expires || c.turnOf(r, again) != passed {
			return true
		}
	}
	return false
}

// groupStates is what the consumer info says of the groups: as in nats-server, only of the first.
func (c *Consumer) groupStates() []api.PriorityGroupState {
	if len(c.cfg.PriorityGroups) == 0 {
		return nil
	}
	s := api.PriorityGroupState{Group: c.cfg.PriorityGroups[0], PinnedClientID: c.pin.id}
	if c.pin.id != "" {
		s.PinnedTS = *instant(c.pin.since)
	}
	return []api.PriorityGroupState{s}
}

// checkPriority checks the priority groups of a configuration.
func checkPriority(cfg *api.ConsumerConfig, _ *api.StreamConfig, _ Limits) error {
	if cfg.PriorityPolicy == api.PriorityNone {
		switch {
		case len(cfg.PriorityGroups) > 0:
			return jserr.New(jserr.ConsumerPriorityGroupWithPolicyNone)
		case cfg.PinnedTTL > 0:
			return jserr.New(jserr.ConsumerPinnedTTLWithoutPriorityPolicyNone)
		}
		return nil
	}
	switch {
	case cfg.DeliverSubject != "":
		return jserr.New(jserr.ConsumerPushWithPriorityGroup)
	case len(cfg.PriorityGroups) == 0:
		return jserr.New(jserr.ConsumerPriorityPolicyWithoutGroup)
	}
	for _, group := range cfg.PriorityGroups {
		if group == "" {
			return jserr.New(jserr.ConsumerEmptyGroupName)
		}
		if err := CheckGroup(group); err != nil {
			return err
		}
	}
	return nil
}
