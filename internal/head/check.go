package head

import (
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/key"
)

// check reports every way in which a decoded head contradicts itself or its key.
func (h *Head) check(k string) error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(h.Format != formatVersion, "format %d", h.Format)
	fault(h.Node == "" || key.HeadKey(h.Node) != k, "it is the head of node %q", h.Node)
	fault(h.Epoch == 0, "epoch 0")
	fault(h.TakenBy != nil && (h.Instance != "" || h.TakenBy.Node == "" || h.TakenBy.Instance == ""), "half taken over")
	for i, r := range h.Logs {
		if err := r.ID().Validate(); err != nil {
			faults = append(faults, fmt.Errorf("log %d: %w", i, err))
		}
		fault(!r.Open && r.Start > r.End, "log %d starts at %d and ends at %d", i, r.Start, r.End)
		fault(r.Node == h.Node && r.Epoch > h.Epoch, "log %d is of the future epoch %d", i, r.Epoch)
		for _, other := range h.Logs[:i] {
			fault(r.same(other), "log %d (%s) is listed twice", i, r.ID())
		}
	}
	for i, r := range h.BroadcastLogs {
		fault(r.Node != h.Node || r.Epoch == 0 || r.Epoch > h.Epoch, "broadcast log %d is of node %q, epoch %d", i, r.Node, r.Epoch)
		fault(i > 0 && r.Epoch <= h.BroadcastLogs[i-1].Epoch, "broadcast log %d is out of order", i)
		fault(!r.Open && r.Start > r.End, "broadcast log %d starts at %d and ends at %d", i, r.Start, r.End)
		fault(r.Open && i < len(h.BroadcastLogs)-1, "broadcast log %d is open and not the last", i)
	}
	return errors.Join(faults...)
}
