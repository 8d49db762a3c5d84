// Package wal is the log of a node: batches of records as immutable objects, written in order by one writer, ended by a
// fence, and replayed by whoever continues the node's work. The write-ahead log and the broadcast log are both this.
//
// # Objects
//
// Every start of a node takes a new [Epoch] and writes under that epoch's own prefix. Object 0, 1, 2, … of an epoch is
// a batch, created with If-None-Match: *, or a fence. The log of an epoch ends at its first fence: what lies beyond
// does not exist, and neither does what lies beyond a missing offset. docs/format/wal.md has the bytes.
//
// # Invariants
//
//  1. An entry is committed when its object and those of every earlier offset are in the store. Only then does its
//     sink hear of it, in the order of [Log.Append].
//  2. One offset of one epoch only ever has one content: a writer that is unsure of a create repeats it with the same
//     bytes, and reads back what is there when the store refuses.
//  3. A fence is created only at an offset below which all offsets hold batches, and is never deleted. So a writer
//     that creates an object at or beyond the fence never completes the offset of the fence, and acknowledges nothing.
//  4. A writer has at most [MaxPipeline] offsets under way beyond the first that is not committed. So at most
//     MaxPipeline-1 stray batches lie beyond a fence, which is what lets [FenceLog] and [Truncate] find a fence by
//     looking at few objects.
//  5. Batches are deleted only below an offset that their owner has first recorded as the start of the log elsewhere
//     (see package head). Nobody looks below that offset again, so whatever a delayed request puts there is nothing.
package wal

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/key"
)

// Epoch is a writer's generation. Epochs of a node only grow; 0 is none.
type Epoch uint64

// Offset numbers the objects of one epoch's log from 0.
type Offset uint64

// Kind tells the logs of a node apart.
type Kind uint8

const (
	// WriteAhead is the log that streams are recovered from.
	WriteAhead Kind = 1
	// Broadcast is the log that every node reads.
	Broadcast Kind = 2
)

// String names the kind as its keys do.
func (k Kind) String() string {
	switch k {
	case WriteAhead:
		return "wal"
	case Broadcast:
		return "broadcast"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

func (k Kind) valid() bool { return k == WriteAhead || k == Broadcast }

func (k Kind) family() key.Family {
	if k == Broadcast {
		return key.Broadcast
	}
	return key.WAL
}

// MaxNodeBytes bounds the name of a node.
const MaxNodeBytes = 1024

// LogID names one log: what one node writes, or wrote, in one epoch.
type LogID struct {
	Kind  Kind
	Node  string
	Epoch Epoch
}

// String gives the log's prefix in the store, without the last slash.
func (id LogID) String() string {
	p := id.prefix()
	return p[:len(p)-1]
}

// Key is the key of an offset of the log.
func (id LogID) Key(at Offset) string {
	return key.LogKey(id.Kind.family(), id.Node, uint64(id.Epoch), uint64(at))
}

func (id LogID) prefix() string { return key.LogPrefix(id.Kind.family(), id.Node, uint64(id.Epoch)) }

// Validate reports every fault of the id.
func (id LogID) Validate() error {
	var faults []error
	if !id.Kind.valid() {
		faults = append(faults, fmt.Errorf("wal: unknown log kind %d", id.Kind))
	}
	if id.Node == "" || len(id.Node) > MaxNodeBytes {
		faults = append(faults, fmt.Errorf("wal: node name of %d bytes, want 1 to %d", len(id.Node), MaxNodeBytes))
	}
	if id.Epoch == 0 {
		faults = append(faults, errors.New("wal: epoch 0, want 1 or more"))
	}
	return errors.Join(faults...)
}

// PutID is drawn at random for every object and lies in it, so that whoever is unsure whether a create succeeded can
// tell its own object from another's.
type PutID [16]byte

// String gives the id in hex.
func (p PutID) String() string { return hex.EncodeToString(p[:]) }

var (
	// ErrClosed: the log was closed and takes nothing more.
	ErrClosed = errors.New("wal: log is closed")
	// ErrFenced: the log has ended because somebody else took over. A *FenceError says who.
	ErrFenced = errors.New("wal: log is fenced")
	// ErrFull: too much is accepted and not committed yet; the entry was not taken. It passes when the store keeps up.
	ErrFull = errors.New("wal: too many bytes wait for the store")
	// ErrEntry: the entry is empty, or larger than an entry may be; it was not taken.
	ErrEntry = errors.New("wal: invalid entry")
	// ErrUnresolved: the store did not settle a write within the resolve timeout.
	ErrUnresolved = errors.New("wal: the outcome of a write could not be settled")
	// ErrLost: another writer's batch lies at an offset of this log, so two writers use one epoch.
	ErrLost = errors.New("wal: another writer writes this log")
	// ErrCorrupt: an object is not what its key and checksums say. It is never skipped.
	ErrCorrupt = errors.New("wal: corrupt object")
	// ErrNewerFormat: an object was written by a newer version of Sluice. It is never skipped.
	ErrNewerFormat = errors.New("wal: object of a newer format")
	// ErrGap: an offset within the log holds no object.
	ErrGap = errors.New("wal: an object of the log is missing")
)

// FenceError says that an offset of a log holds a fence: the log ends there. It is an ErrFenced.
type FenceError struct {
	Key   string // of the fence
	Fence Fence
}

// Error tells whose fence it is.
func (e *FenceError) Error() string {
	return fmt.Sprintf("%v: %s by node %q in epoch %d", ErrFenced, e.Key, e.Fence.Node, e.Fence.Epoch)
}

// Is makes errors.Is(err, ErrFenced) true.
func (e *FenceError) Is(target error) bool { return target == ErrFenced }
