package conn

import (
	"math/rand/v2"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/proto"
)

// Timing of pings, as nats-server has it: the first comes early, to learn the round-trip time; the time is measured
// again at least once an hour, however busy the client is.
const (
	firstPingInterval = 2 * time.Second
	rttInterval       = time.Hour
)

// ping answers PING. The first answer is followed by an INFO that tells the client where it landed.
func (c *Conn) ping() bool {
	c.lastIn.Store(time.Now().UnixNano())
	c.mu.Lock()
	open, first := c.isOpen(), c.connected && !c.ponged
	c.ponged = c.ponged || first
	c.mu.Unlock()
	line := []byte(proto.PongLine)
	if first && c.opts.Protocol >= proto.ProtocolInfo {
		info := c.srv.infoFor(c)
		info.ConnectInfo = true
		if id := c.identity.Load(); id != nil {
			info.RemoteAccount = id.Account.Name
			info.SystemAccount = id.Account.System
		}
		line = info.Append(line)
	}
	c.answer(line)
	return open
}

func (c *Conn) pong() {
	c.mu.Lock()
	c.pingsOut = 0
	c.rtt = max(time.Since(c.pingSent), time.Nanosecond)
	c.mu.Unlock()
}

// pingInterval is how long the client may be idle before it is pinged.
func (c *Conn) pingInterval() time.Duration {
	o := c.srv.options()
	if c.via == account.ConnectionWebsocket && o.Websocket != nil && o.Websocket.PingInterval > 0 {
		return o.Websocket.PingInterval
	}
	return o.PingInterval
}

// armPing sets the timer of the next ping. mu is held.
func (c *Conn) armPing() {
	d := c.pingInterval()
	if c.pingTimer == nil {
		c.pingTimer = time.AfterFunc(d, c.pingDue)
		return
	}
	c.pingTimer.Reset(d)
}

// armFirstPing sets the timer of the first ping after CONNECT. It is spread by a fifth, so that clients who came
// together are not pinged together. mu is held.
func (c *Conn) armFirstPing() {
	d := c.pingInterval()
	if !c.srv.options().LongFirstPing {
		d = min(d, firstPingInterval)
	}
	if fifth := int64(d / 5); fifth > 0 {
		d += time.Duration(rand.Int64N(fifth))
	}
	stop(&c.pingTimer)
	c.pingTimer = time.AfterFunc(d, c.pingDue)
}

// pingDue is called by the timer.
func (c *Conn) pingDue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isOpen() {
		return
	}
	now := time.Now()
	needRTT := c.rtt == 0 || now.Sub(c.pingSent) > rttInterval
	if idle := now.Sub(time.Unix(0, c.lastIn.Load())); idle >= c.pingInterval() || needRTT {
		if c.pingsOut+1 > c.srv.options().MaxPingsOut {
			c.send(proto.AppendErr(nil, proto.TextStaleConnection))
			c.closeLocked(StaleConnection)
			return
		}
		c.pingSent = now
		c.pingsOut++
		c.send([]byte(proto.PingLine))
	}
	c.armPing()
}

// roundTrip is how long the client's last answer took.
func (c *Conn) roundTrip() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rtt
}
