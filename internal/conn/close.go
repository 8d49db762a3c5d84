package conn

import (
	"time"

	"github.com/sluicemq/sluice/internal/broker"
)

// close ends the connection for a reason; only the first call counts.
func (c *Conn) close(reason Reason) {
	c.mu.Lock()
	c.closeLocked(reason)
	c.mu.Unlock()
}

// closeLocked marks the connection as closed. The write loop writes what is left and closes the socket; the read loop,
// interrupted, takes the subscriptions back. mu is held.
func (c *Conn) closeLocked(reason Reason) {
	if !c.isOpen() {
		return
	}
	c.closed = reason
	stop(&c.authTimer)
	stop(&c.pingTimer)
	c.openGate()
	if reason == StaleConnection {
		c.srv.stats.stale.Add(1)
	}
	c.stopped = time.Now()
	c.srv.options().Log.Debug(c.label() + " - Client connection closed: " + reason.String())
	// The read loop ends now, also where the last of the output takes its time.
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	if !reason.flushes() {
		c.cut() // a write under way fails
	}
	switch {
	case c.out.writing: // and finishes
	case reason.flushes() && len(c.out.bufs) > 0:
		c.out.writing = true
		go c.writeLoop()
	default:
		c.finish()
	}
}

// cut closes the socket without a word. mu is held.
func (c *Conn) cut() {
	switch {
	case c.frames != nil:
		c.frames.cut()
	case c.transport != nil:
		c.transport.Conn.Close()
	default:
		c.nc.Close()
	}
}

// part closes the socket, with what TLS and WebSocket have to say at the end. mu is held.
func (c *Conn) part() {
	if c.transport != nil {
		c.transport.leave()
	}
	if c.frames != nil && !c.out.failed {
		c.frames.farewell(c.closed)
	}
	if c.out.failed {
		c.cut()
	}
	c.nc.Close()
}

func stop(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

// subsPerTurn is how many subscriptions a connection takes back before it lets others have their turn.
const subsPerTurn = 512

// cleanup is the end of the read loop: nobody finds the connection any more.
func (c *Conn) cleanup() {
	c.srv.door.turn()
	defer c.srv.door.turnOver()
	if c.pub != nil {
		c.flush()
	}
	c.in.release()
	c.close(c.left)
	c.mu.Lock()
	subs := make([]*broker.Subscription, 0, len(c.subs))
	for _, sub := range c.subs {
		subs = append(subs, sub)
	}
	c.mu.Unlock()
	for i, sub := range subs {
		c.space.Unsubscribe(sub)
		if i%subsPerTurn == subsPerTurn-1 {
			c.srv.door.turnOver()
			c.srv.door.turn()
		}
	}
	c.srv.remove(c)
	c.mu.Lock()
	c.subs = nil
	c.ended()
	c.mu.Unlock()
}
