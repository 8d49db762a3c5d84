// Package head keeps the heads: one small object per node that says who runs it, that it lives, and which logs must be
// replayed when it starts again. docs/format/head.md has the fields.
//
// A head is only ever rewritten by compare-and-swap, never deleted, and its epoch only grows. Whoever runs a node holds
// its head as a [Claimed], which [Claim] gives. Safety comes from the compare-and-swaps and from the fences of the logs
// alone; the lease decides only when it is worth trying.
package head

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/internal/wal"
)

// formatVersion of the heads that this package writes, and the newest that it reads.
const formatVersion = 1

// MaxBytes bounds a head.
const MaxBytes = 4 << 20

var (
	// ErrCorrupt: an object under heads/ is not a head. It is never overwritten.
	ErrCorrupt = errors.New("head: corrupt head")
	// ErrNewerFormat: a head was written by a newer version of Sluice. It is never overwritten.
	ErrNewerFormat = errors.New("head: head of a newer format")
	// ErrNameInUse: another process that lives runs a node of this name.
	ErrNameInUse = errors.New("head: node name is in use")
	// ErrLost: somebody else took over the node's name or its logs. What was acknowledged is safe with them; this
	// process must stop.
	ErrLost = errors.New("head: another node took over")
	// ErrReleased: the node gave its head up.
	ErrReleased = errors.New("head: released")
)

// Head is the content of a node's head.
type Head struct {
	Format int    `json:"format"`
	Node   string `json:"node"`
	// Instance is random per claim: the process that runs the node; "" when somebody else has ended its claim.
	Instance string    `json:"instance"`
	Epoch    wal.Epoch `json:"epoch"`
	// Counter grows with every write, whoever makes it, so that no two contents (and so no two ETags) are the same. It
	// is the heartbeat.
	Counter uint64 `json:"counter"`
	// Released says that nobody runs the node: it was shut down cleanly, or another took its logs over.
	Released bool `json:"released"`
	// TakenBy names who is taking the node's logs over. While it is set, Logs may be listed in that node's head too.
	TakenBy *Taker `json:"taken_by,omitempty"`

	// Host names the running machine and its space of process ids, PID the process: a hint, for others on that host.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`

	ClientAddress string `json:"client_address,omitempty"`
	LinkAddress   string `json:"link_address,omitempty"`

	// Broadcast is the newest batch of the node's broadcast log.
	Broadcast *BroadcastBatch `json:"broadcast,omitempty"`
	// BroadcastLogs are the node's broadcast logs by epoch: what is kept of each. Only the last one may be open.
	BroadcastLogs []LogRange `json:"broadcast_logs,omitempty"`

	// Logs must be replayed, in this order, when the node starts. The last one is the current epoch's own.
	Logs []LogRange `json:"logs"`
}

// Taker is one claim of a node.
type Taker struct {
	Node     string    `json:"node"`
	Epoch    wal.Epoch `json:"epoch"`
	Instance string    `json:"instance"`
}

// BroadcastBatch is a position in a broadcast log.
type BroadcastBatch struct {
	Epoch  wal.Epoch  `json:"epoch"`
	Offset wal.Offset `json:"offset"`
}

// LogRange is the part of a log that holds what is not in segments yet: Start ≤ offset < End.
type LogRange struct {
	Node  string     `json:"node"` // who wrote it
	Epoch wal.Epoch  `json:"epoch"`
	Start wal.Offset `json:"start"`
	// End is the offset of the log's fence, once Open is false.
	End  wal.Offset `json:"end,omitempty"`
	Open bool       `json:"open,omitempty"` // it is being written, or was and is not fenced yet
	// From is the node whose head listed the range before, as long as that head may still list it.
	From string `json:"from,omitempty"`
}

// ID names the range's log.
func (r LogRange) ID() wal.LogID {
	return wal.LogID{Kind: wal.WriteAhead, Node: r.Node, Epoch: r.Epoch}
}

func (r LogRange) same(o LogRange) bool { return r.Node == o.Node && r.Epoch == o.Epoch }

func (r LogRange) empty() bool { return !r.Open && r.Start >= r.End }

// Advance moves the start of a log's range forward, and drops the range when it is closed and nothing is left. Batches
// below the start may be deleted once the head that says so is written, not before.
func (h *Head) Advance(node string, epoch wal.Epoch, start wal.Offset) {
	for i := range h.Logs {
		if r := &h.Logs[i]; r.Node == node && r.Epoch == epoch {
			r.Start = max(r.Start, start)
			if !r.Open {
				r.Start = min(r.Start, r.End)
			}
		}
	}
	h.dropEmpty()
}

func (h *Head) dropEmpty() { h.Logs = slices.DeleteFunc(h.Logs, LogRange.empty) }

// lists reports whether the head lists the log of a range.
func (h *Head) lists(r LogRange) bool { return slices.ContainsFunc(h.Logs, r.same) }

// without gives the ranges of h that other does not list.
func (h *Head) without(other *Head) (rest []LogRange) {
	for _, r := range h.Logs {
		if !other.lists(r) {
			rest = append(rest, r)
		}
	}
	return rest
}

// vacant reports whether it is certain that no process holds the head.
func (h *Head) vacant() bool { return h.Instance == "" || h.Released }

func (h *Head) clone() *Head {
	c := *h
	c.Logs, c.BroadcastLogs = slices.Clone(h.Logs), slices.Clone(h.BroadcastLogs)
	if h.TakenBy != nil {
		c.TakenBy = new(*h.TakenBy)
	}
	if h.Broadcast != nil {
		c.Broadcast = new(*h.Broadcast)
	}
	return &c
}

func (h *Head) encode() ([]byte, error) {
	h.Format = formatVersion
	if h.Logs == nil {
		h.Logs = []LogRange{}
	}
	data, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return nil, fmt.Errorf("head: encode: %w", err)
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("head: head of %d bytes, want at most %d", len(data), MaxBytes)
	}
	return append(data, '\n'), nil
}

// Decode reads a head; k is its key, for the errors, which are ErrCorrupt and ErrNewerFormat.
func Decode(k string, data []byte) (*Head, error) {
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, k, err)
	}
	if version.Format > formatVersion {
		return nil, fmt.Errorf("%w: %s: version %d, this one reads %d", ErrNewerFormat, k, version.Format, formatVersion)
	}
	// An unknown field would be lost by the next rewrite, so it is as good as a newer version.
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	h := new(Head)
	if err := d.Decode(h); err != nil {
		if json.Unmarshal(data, new(Head)) == nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrNewerFormat, k, err)
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, k, err)
	}
	if err := h.check(k); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, k, err)
	}
	return h, nil
}
