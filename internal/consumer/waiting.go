package consumer

// request is a pull request that waits for messages.
type request struct {
	reply     string
	messages  int   // still wanted; a request for none or fewer is served one
	delivered int   // messages that it got
	bytes     int   // room left of max_bytes; 0: no limit
	expires   int64 // 0: never
	heartbeat int64 // nanoseconds, 0: none
	beatAt    int64 // when its next idle heartbeat is due, 0: never
	noWait    bool
	priority  priority

	prev, next *request
}

// waitingQueue holds the pull requests, at most max. Requests are served in turn: one that wants more goes to the end
// after each message, with sorted set to the end of those of its priority.
type waitingQueue struct {
	max        int
	sorted     bool
	count      int
	noWait     int // requests that do not wait once there is nothing more to deliver
	head, tail *request
	free       *request // at most freeCount, linked by next
	freeCount  int
	// due is no later than the earliest expiry or heartbeat; 0: none.
	due   int64
	swept int64 // when a full queue was last searched
}

// keepFree bounds the requests that are kept for reuse.
const keepFree = 16

func (w *waitingQueue) full() bool { return w.count >= w.max }

// new gives a zero request.
func (w *waitingQueue) new() *request {
	r := w.free
	if r == nil {
		return &request{}
	}
	w.free = r.next
	w.freeCount--
	r.next = nil
	return r
}

func (w *waitingQueue) add(r *request) {
	w.link(r)
	w.count++
	if r.noWait {
		w.noWait++
	}
	w.schedule(r)
}

// schedule makes sure that due is no later than what the request waits for.
func (w *waitingQueue) schedule(r *request) {
	for _, at := range [...]int64{r.expires, r.beatAt} {
		if at != 0 && (w.due == 0 || at < w.due) {
			w.due = at
		}
	}
}

// link puts a request behind those that go before it.
func (w *waitingQueue) link(r *request) {
	before := w.tail
	for w.sorted && before != nil && before.priority.number > r.priority.number {
		before = before.prev
	}
	w.linkAfter(r, before)
}

// linkAfter puts a request behind another, or to the front.
func (w *waitingQueue) linkAfter(r, before *request) {
	r.prev = before
	if before != nil {
		r.next, before.next = before.next, r
	} else {
		r.next, w.head = w.head, r
	}
	if r.next != nil {
		r.next.prev = r
	} else {
		w.tail = r
	}
}

// sort makes the queue sorted or not; those that wait are put in order.
func (w *waitingQueue) sort(sorted bool) {
	if sorted == w.sorted {
		return
	}
	w.sorted = sorted
	r := w.head
	for w.head, w.tail = nil, nil; r != nil; {
		next := r.next
		w.link(r)
		r = next
	}
}

func (w *waitingQueue) unlink(r *request) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		w.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		w.tail = r.prev
	}
}

// remove drops a request; it may be reused at once.
func (w *waitingQueue) remove(r *request) {
	w.unlink(r)
	w.count--
	if r.noWait {
		w.noWait--
	}
	if w.count == 0 {
		w.due = 0
	}
	*r = request{}
	if w.freeCount < keepFree {
		r.next = w.free
		w.free = r
		w.freeCount++
	}
}

// rotate moves the request at the head to where it belongs after it was served or passed over.
func (w *waitingQueue) rotate() {
	if r := w.head; r != w.tail {
		w.unlink(r)
		w.link(r)
	}
}

// find gives the request with a reply subject, or nil.
func (w *waitingQueue) find(reply string) *request {
	for r := w.head; r != nil; r = r.next {
		if r.reply == reply {
			return r
		}
	}
	return nil
}

// wanted is how many messages the requests still want.
func (w *waitingQueue) wanted() int {
	n := 0
	for r := w.head; r != nil; r = r.next {
		n += r.messages
	}
	return n
}

// sweep ends the requests that expired, sends heartbeats, and drops those of requesters who left. With exhausted set,
// there is nothing to deliver now, which ends the requests that do not wait for it.
func (c *Consumer) sweep(now int64, exhausted bool, fx *Effects) {
	w := &c.waiting
	w.due = 0
	for r := w.head; r != nil; {
		next := r.next
		switch {
		case r.expires != 0 && now >= r.expires:
			c.expireRequest(r, fx)
		case exhausted && r.noWait && (r.expires == 0 || r.delivered > 0):
			fx.status(r.reply, statusNoMessages)
			c.sawActivity(now)
			w.remove(r)
		case c.opts.Listening != nil && !c.opts.Listening(r.reply):
			w.remove(r)
		default:
			if r.beatAt != 0 && now >= r.beatAt {
				fx.heartbeat(r.reply, c.delivered.consumer, c.cursor-1, "")
				r.beatAt = later(now, r.heartbeat)
			}
			w.schedule(r)
		}
		r = next
	}
}

func (c *Consumer) expireRequest(r *request, fx *Effects) {
	fx.requestStatus(r, "408 Request Timeout")
	c.sawActivity(r.expires)
	c.waiting.remove(r)
}

// ServerStops ends all pull requests because the server is about to stop.
func (c *Consumer) ServerStops(fx *Effects) {
	for c.waiting.head != nil {
		fx.requestStatus(c.waiting.head, "409 Server Shutdown")
		c.waiting.remove(c.waiting.head)
	}
}

// Deleted ends all pull requests because the consumer is deleted.
func (c *Consumer) Deleted(fx *Effects) {
	for c.waiting.head != nil {
		fx.status(c.waiting.head.reply, statusDeleted)
		c.waiting.remove(c.waiting.head)
	}
}
