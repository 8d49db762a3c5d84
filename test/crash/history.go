// Package crash kills the server again and again under load, and checks that what it had promised still holds: every
// acknowledged message is there once, in order, with the sequence that its acknowledgement named, and what a consumer
// acknowledged with a confirmation is not delivered again.
package crash

import (
	"errors"
	"fmt"
	"sync"
)

// message names a published message: no two are the same.
type message struct {
	publisher, index int
}

func (m message) String() string { return fmt.Sprintf("%d.%d", m.publisher, m.index) }

// eventKind is what happened in a history.
type eventKind int

const (
	acknowledged eventKind = iota // the publisher heard that the message has the sequence
	delivered                     // a consumer received the sequence
	confirmed                     // the server confirmed a consumer's acknowledgement of the sequence
)

// event is something that a client saw. Their order in a history is that in which the clients saw them.
type event struct {
	kind     eventKind
	sequence uint64
	message  message // of acknowledged and delivered
}

// history is what the clients saw over all lives of the server. Its methods may be called from several goroutines.
type history struct {
	mu     sync.Mutex // above everything
	events []event
	sent   map[message]bool
}

func newHistory() *history { return &history{sent: map[message]bool{}} }

// send notes that a message is about to be published: it may or may not be stored from now on.
func (h *history) send(m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent[m] = true
}

func (h *history) add(kind eventKind, sequence uint64, m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event{kind, sequence, m})
}

// count tells how many events of a kind there are.
func (h *history) count(kind eventKind) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, e := range h.events {
		if e.kind == kind {
			n++
		}
	}
	return n
}

// stored is one message of the stream as it is in the end.
type stored struct {
	sequence uint64
	message  message
}

// maxFaults is how many faults check reports.
const maxFaults = 20

// check compares the stream in the end with what the clients saw. It reports every kind of fault, up to maxFaults.
func (h *history) check(stream []stored) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	faults := h.checkStream(stream)
	at := map[uint64]message{}
	for _, s := range stream {
		at[s.sequence] = s.message
	}
	faults = append(faults, h.checkEvents(at)...)
	if len(faults) > maxFaults {
		faults = append(faults[:maxFaults], fmt.Errorf("and %d more", len(faults)-maxFaults))
	}
	return errors.Join(faults...)
}

// checkStream looks at the stream alone: sequences without gaps, every message at most once and one that was sent,
// those of one publisher in the order in which it sent them.
func (h *history) checkStream(stream []stored) (faults []error) {
	where := map[message]uint64{}
	last := map[int]stored{}
	for i, s := range stream {
		if s.sequence != uint64(i+1) {
			faults = append(faults, fmt.Errorf("sequence %d stands at place %d of the stream", s.sequence, i+1))
			break
		}
		if !h.sent[s.message] {
			faults = append(faults, fmt.Errorf("sequence %d holds message %v, which nobody sent", s.sequence, s.message))
		}
		if before, ok := where[s.message]; ok {
			faults = append(faults, fmt.Errorf("message %v is stored twice: at %d and %d", s.message, before, s.sequence))
			continue
		}
		where[s.message] = s.sequence
		if before, ok := last[s.message.publisher]; ok && before.message.index > s.message.index {
			faults = append(faults, fmt.Errorf("message %v at %d comes after %v at %d", s.message, s.sequence, before.message, before.sequence))
		}
		last[s.message.publisher] = s
	}
	return faults
}

// checkEvents looks at what the clients were told, given which message is at each sequence.
func (h *history) checkEvents(at map[uint64]message) (faults []error) {
	done, seen := map[uint64]bool{}, map[uint64]bool{}
	for _, e := range h.events {
		switch e.kind {
		case acknowledged:
			if got, ok := at[e.sequence]; !ok {
				faults = append(faults, fmt.Errorf("message %v was acknowledged with sequence %d and is lost", e.message, e.sequence))
			} else if got != e.message {
				faults = append(faults, fmt.Errorf("message %v was acknowledged with sequence %d, which holds %v", e.message, e.sequence, got))
			}
		case delivered:
			if got, ok := at[e.sequence]; !ok || got != e.message {
				faults = append(faults, fmt.Errorf("message %v was delivered as sequence %d, which holds %v in the end", e.message, e.sequence, got))
			}
			seen[e.sequence] = true
			if done[e.sequence] {
				faults = append(faults, fmt.Errorf("sequence %d was delivered again after its acknowledgement had been confirmed", e.sequence))
			}
		case confirmed:
			done[e.sequence] = true
		}
	}
	// Not every message was confirmed: the server may have died with a confirmation on its lips.
	for sequence, m := range at {
		if !seen[sequence] {
			faults = append(faults, fmt.Errorf("message %v at %d was never delivered", m, sequence))
		}
	}
	return faults
}
