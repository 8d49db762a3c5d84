package conn

import (
	"fmt"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/subject"
)

// systemGroup is a queue group that clients may not join, as in nats-server.
const systemGroup = "_sys_"

// sid is the client's id of a subscription: its tag without the blanks around.
func sid(sub *broker.Subscription) string {
	tag := sub.Tag()
	return tag[1 : len(tag)-1]
}

// subscribe runs SUB subject [queue] sid.
func (c *Conn) subscribe(arg []byte) bool {
	args, n := proto.SplitArgs(arg)
	var subj, queue, id string
	switch n {
	case 2:
		subj, id = string(args[0]), string(args[1])
	case 3:
		subj, queue, id = string(args[0]), string(args[1]), string(args[2])
	default:
		c.parseFailed(fmt.Errorf("subscribe: %w: %q", proto.ErrArguments, arg))
		return false
	}
	rights := c.rights()
	c.mu.Lock()
	max, have := c.maxSubs, len(c.subs)
	_, known := c.subs[id]
	c.mu.Unlock()
	switch {
	case !rights.MaySubscribe(subj, queue) || queue == systemGroup:
		c.subscribeViolation(subj, queue, id)
		return true
	case c.srv.options().MaxSubTokens > 0 && subject.NumTokens(subj) > c.srv.options().MaxSubTokens:
		c.sendErr(fmt.Sprintf("Permissions Violation for Subscription to %q, too many tokens", subj))
		c.logViolation("Subscription Violation Too Many Tokens - Subject %q, SID %s", subj, id)
		return true
	case max >= 0 && have >= max:
		c.sendErr(proto.TextMaxSubscriptions)
		c.logViolation(proto.TextMaxSubscriptions)
		return true
	}
	if !known && !c.addSubscription(subj, queue, id) {
		c.sendErr(proto.TextInvalidSubject)
		return true
	}
	if c.verbose {
		c.sendOK()
	}
	return true
}

// addSubscription reports false for a subject that is not valid.
func (c *Conn) addSubscription(subj, queue, id string) bool {
	if !subject.ValidPattern(subj) {
		return false
	}
	c.mu.Lock()
	if !c.isOpen() {
		c.mu.Unlock()
		return true
	}
	c.mu.Unlock()
	sub := broker.NewSubscription(subj, queue, " "+id+" ", c)
	sub.SetFiltered(c.rights().NeedsFilter(subj, queue))
	if err := c.space.Add(sub); err != nil {
		return false
	}
	c.mu.Lock()
	if c.subs == nil {
		c.subs = make(map[string]*broker.Subscription)
	}
	c.subs[sid(sub)] = sub
	c.mu.Unlock()
	return true
}

func (c *Conn) subscribeViolation(subj, queue, id string) {
	if queue != "" {
		c.sendErr(fmt.Sprintf("Permissions Violation for Subscription to %q using queue %q", subj, queue))
		c.logViolation("Subscription Violation - Subject %q, Queue: %q, SID %s", subj, queue, id)
		return
	}
	c.sendErr(fmt.Sprintf("Permissions Violation for Subscription to %q", subj))
	c.logViolation("Subscription Violation - Subject %q, SID %s", subj, id)
}

// unsubscribe runs UNSUB sid [max].
func (c *Conn) unsubscribe(arg []byte) bool {
	args, n := proto.SplitArgs(arg)
	max := -1
	switch n {
	case 1:
	case 2:
		max = proto.ParseSize(args[1])
	default:
		c.parseFailed(fmt.Errorf("unsubscribe: %w: %q", proto.ErrArguments, arg))
		return false
	}
	if c.verbose {
		c.sendOK()
	}
	c.mu.Lock()
	sub := c.subs[string(args[0])]
	if sub != nil {
		if max > 0 && uint64(max) > sub.Delivered {
			sub.SetLimit(uint64(max))
			sub = nil
		} else {
			delete(c.subs, string(args[0]))
		}
	}
	c.mu.Unlock()
	if sub != nil {
		c.space.Unsubscribe(sub)
	}
	return true
}
