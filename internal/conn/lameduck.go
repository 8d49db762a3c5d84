package conn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluicemq/sluice/internal/proto"
)

// maxLeaveInterval is the longest pause between two clients that are closed in lame duck mode.
const maxLeaveInterval = time.Second

// LameDuck lets nobody new in, tells the clients to go elsewhere, and after a grace period closes them one by one over
// the lame duck duration. It returns when the last is gone, or with the context's error. Shutdown comes after it.
func (s *Server) LameDuck(ctx context.Context) error {
	s.mu.Lock()
	if s.stopped || s.lame {
		s.mu.Unlock()
		return ErrClosed
	}
	s.lame = true
	s.closeListeners()
	s.mu.Unlock()
	o := s.options()
	o.Log.Info("Entering lame duck mode, stop accepting new clients")
	conns := s.all()
	if len(conns) == 0 {
		return nil
	}
	s.tellClients(true)
	if err := s.pause(ctx, o.LameDuckGrace); err != nil {
		return err
	}
	o.Log.Info("Closing existing clients")
	rand.Shuffle(len(conns), func(i, j int) { conns[i], conns[j] = conns[j], conns[i] })
	span := o.LameDuckDuration - o.LameDuckGrace
	if span <= 0 {
		span = time.Second
	}
	interval := min(span/time.Duration(len(conns)), maxLeaveInterval)
	for i, c := range conns {
		c.close(ServerShutdown)
		if i == len(conns)-1 {
			break
		}
		// At least half of the interval, so that the pauses are uneven.
		wait := interval / 2
		if wait > 0 {
			wait += time.Duration(rand.Int64N(int64(wait)))
		}
		if err := s.pause(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-s.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("conn: lame duck mode: %w", ctx.Err())
	}
}

// tellClients sends an INFO to all clients that take one at any time and have had their first PONG: for the others it
// comes with that.
func (s *Server) tellClients(lameDuck bool) {
	for _, c := range s.all() {
		c.tell(lameDuck)
	}
}

// tell is tellClients for one client.
func (c *Conn) tell(lameDuck bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ponged && c.opts.Protocol >= proto.ProtocolInfo {
		info := c.srv.infoFor(c)
		info.LameDuck = lameDuck
		c.send(info.Append(nil))
	}
}
