package engine

import "time"

// A new consumer delivers when its creation has been answered, so that whoever asked for it hears of it before its
// messages come, and learns how many there are before the first one goes out. Meanwhile it takes requests.

// longestHold is how long a new consumer waits for its answer at most.
const longestHold = 100 * time.Millisecond

// hold lets a consumer take requests, but not deliver yet.
func (c *Consumer) hold() {
	close(c.up)
	c.heldUntil = c.stream.now.Add(longestHold)
	c.listen()
	c.changed(c.stream.now)
}

// release lets a consumer deliver. It does nothing to one that does already, or is gone.
func (c *Consumer) release() {
	c.heldUntil = time.Time{}
	if c.started || c.gone || c.stream.ended {
		return
	}
	c.started = true
	c.wake()
	c.changed(c.stream.now)
}
