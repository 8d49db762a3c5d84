package sim

import "time"

// Durability is what a stream promises of an acknowledged message.
type Durability uint8

const (
	// Stored streams acknowledge what is in the store: storage: file.
	Stored Durability = iota
	// Async streams acknowledge before, and may lose the end in a crash: persist_mode: async.
	Async
	// Volatile streams are gone with their process: storage: memory.
	Volatile
)

// Retention is who decides what may go.
type Retention uint8

const (
	Limits Retention = iota
	WorkQueue
	Interest
)

// Spec is what the checker knows of a stream. A zero bound is none.
type Spec struct {
	Name       string
	Durability Durability
	Retention  Retention
	MaxMsgs    uint64 // the smallest that ever applied
	DiscardNew bool
	PerSubject uint64 // max_msgs_per_subject
	MaxAge     time.Duration
	// KeepsAtLeast is how many of the newest messages max_bytes leaves in any case; 0: there is no max_bytes.
	KeepsAtLeast uint64
	// Unknown: at the end it is not known whether the stream exists, since its creation or deletion was never answered.
	Unknown   bool
	Consumers []ConsumerSpec
}

// AckPolicy of a consumer.
type AckPolicy uint8

const (
	AckExplicit AckPolicy = iota
	AckAll
	AckNone
)

// ConsumerSpec is what the checker knows of a consumer. All of them begin with the first message.
type ConsumerSpec struct {
	Name       string
	Acks       AckPolicy
	Filter     string // a prefix of subjects; "" is all
	MaxDeliver bool   // it gives messages up
	Ends       bool   // it was deleted, or may have been: its end is not looked at
}
