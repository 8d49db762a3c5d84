package broker

import "time"

// Msg is a message on its way. The slices belong to whoever passes the Msg and are valid during the call only.
type Msg struct {
	Subject []byte
	Reply   []byte // empty: none
	Header  []byte // a whole NATS header block, or empty
	Data    []byte
}

// Delivery is a message that matched a subscription.
type Delivery struct {
	Msg
	Sub *Subscription
	// From is who published it; nil when the server itself did.
	From *Origin
}

// Receiver takes the messages of one or more subscriptions: a client connection, a stream's inbox, a service of the
// server itself. Its dynamic type must be comparable: a pointer.
type Receiver interface {
	// Deliver hands over all the messages that one chunk of one publisher staged for this receiver, in the order of
	// publication. It runs on the publisher's goroutine, so it never waits: it copies what it keeps, since the batch and
	// all that it points to are used again, and returns. A receiver that is behind returns a gate: a channel that is closed when it has caught up or is gone. The publisher
	// waits for it a bounded time before it reads on, which is how back-pressure reaches a client.
	Deliver(batch []Delivery) (gate <-chan struct{})
}

// Outlet is a receiver that passes messages on as protocol bytes: a client connection. It is handed the staged form
// instead of deliveries, so that a message is copied once, from where it was read into what will be written.
type Outlet interface {
	Receiver
	// DeliverStaged is Deliver for a batch. The outlet appends to b.Refused what it could not take because the
	// subscription or the outlet itself has ended; a message of a queue group then goes to another member.
	DeliverStaged(b *Batch) (gate <-chan struct{})
	// Remaining gives how many more messages a subscription with a limit takes.
	Remaining(sub *Subscription) uint64
	// Gone reports whether the outlet has ended.
	Gone() bool
}

// Filter is a receiver that must not get certain messages of its own subscriptions: permissions that deny a part of
// what a wildcard matches. Routes remember the answer until [Space.Invalidate].
type Filter interface {
	Receiver
	// Denies reports whether the receiver may not see the subject through this subscription.
	Denies(sub *Subscription, subject []byte) bool
}

// Origin is who published a message, as advisories and services need to know it. It is immutable.
type Origin struct {
	ID      uint64 // of the connection (INFO client_id)
	Account string
	User    string
	Host    string // address of the peer, without port
	Kind    string // "Client"; "System" for the server's own
	Name    string // CONNECT name, lang and version
	Lang    string
	Version string
	Start   time.Time
	RTT     func() time.Duration // as last measured; nil: unknown
}
