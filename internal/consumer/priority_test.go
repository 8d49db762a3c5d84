package consumer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nats-io/jsm.go/api"
)

// groupModel checks the deliveries of priority groups: three clients, who send the pin that they got last.
type groupModel struct {
	asked   map[string]groupRequest // by reply subject
	pins    map[int]string          // by client: the pin that it believes in
	holders map[string]int          // by pin: the client that got it
}

type groupRequest struct {
	client                    int
	pin                       string
	minPending, minAckPending int
	number                    int
}

func (g *groupModel) init() {
	*g = groupModel{asked: map[string]groupRequest{}, pins: map[int]string{}, holders: map[string]int{}}
}

// request adds what a pull request says of its group.
func (g *groupModel) request(policy api.PriorityPolicy, reply string, rng *rand.Rand) string {
	r := groupRequest{client: rng.IntN(3)}
	defer func() { g.asked[reply] = r }()
	switch policy {
	case api.PriorityOverflow:
		r.minPending, r.minAckPending = rng.IntN(4), rng.IntN(4)
		return fmt.Sprintf(`,"group":"g","min_pending":%d,"min_ack_pending":%d`, r.minPending, r.minAckPending)
	case api.PriorityPinnedClient:
		r.pin = g.pins[r.client]
		return fmt.Sprintf(`,"group":"g","id":%q`, r.pin)
	case api.PriorityPrioritized:
		r.number = rng.IntN(10)
		return fmt.Sprintf(`,"group":"g","priority":%d`, r.number)
	}
	return ""
}

// last is a request that gets everything.
func (g *groupModel) last(c *Consumer) string {
	if c.cfg.PriorityPolicy == api.PriorityNone {
		return ""
	}
	g.asked["drain"] = groupRequest{client: 99, pin: c.pin.id}
	if c.pin.id == "" {
		return `,"group":"g"`
	}
	delete(g.holders, c.pin.id) // shared with requests that wait
	return fmt.Sprintf(`,"group":"g","id":%q`, c.pin.id)
}

func (g *groupModel) status(s Status) {
	if strings.HasPrefix(string(s.Header), "NATS/1.0 423 ") {
		delete(g.pins, g.asked[s.To].client)
	}
}

func (g *groupModel) delivered(c *Consumer, d *Dispatch) error {
	r, policy := g.asked[d.To], c.cfg.PriorityPolicy
	switch {
	case d.Pinned != (policy == api.PriorityPinnedClient):
		return fmt.Errorf("pinned: %v", d.Pinned)
	case policy == api.PriorityOverflow && (r.minPending > 0 || r.minAckPending > 0):
		pending := c.pending.live
		if d.Deliveries == 1 {
			pending-- // this one
		}
		if !(r.minPending > 0 && uint64(r.minPending) <= d.Pending+1) && !(r.minAckPending > 0 && r.minAckPending <= pending) {
			return fmt.Errorf("%+v is served with %d to come and %d pending", r, d.Pending, pending)
		}
	case policy == api.PriorityPrioritized:
		for w := c.waiting.head; w != nil; w = w.next {
			if w.priority.number < r.number {
				return fmt.Errorf("%d is served before %d", r.number, w.priority.number)
			}
		}
	case policy == api.PriorityPinnedClient:
		if d.PinID == "" || r.pin != "" && r.pin != d.PinID {
			return fmt.Errorf("%+v is served with pin %q", r, d.PinID)
		}
		if holder, known := g.holders[d.PinID]; known && holder != r.client && d.To != "drain" {
			return fmt.Errorf("the pin %s goes from client %d to %d", d.PinID, holder, r.client)
		}
		if g.pins[r.client] = d.PinID; d.To != "drain" {
			g.holders[d.PinID] = r.client
		}
	}
	return nil
}

func TestPinIDs(t *testing.T) {
	w := newWorld(t)
	w.create(checkedConfig(t, `{"ack_policy":"explicit"}`))
	seen := map[string]bool{}
	for range 1000 {
		id := w.c.newPinID()
		if len(id) != pinIDLength || strings.Trim(id, flowIDDigits) != "" || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
}
