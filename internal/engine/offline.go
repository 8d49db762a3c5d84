package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/wal"
)

// streamName names a stream.
type streamName struct{ account, name string }

// offlineStream is a stream whose history cannot be read: its manifest or a segment is damaged, missing, or of a newer
// version. Nothing of it is deleted or rewritten, and the log keeps what it has of it. It comes up at a start that can
// read everything.
//
// It can be deleted by name all the same: or else what cannot be repaired would keep its name and the log for ever.
type offlineStream struct {
	streamName
	id   record.StreamID
	from mark
	err  error
}

// holdOffline keeps a recovered stream from coming up.
func (e *Engine) holdOffline(id record.StreamID, name streamName, f *fragment, err error) {
	f.tail.release()
	e.offlineMu.Lock()
	e.offline = append(e.offline, offlineStream{name, id, f.began, err})
	e.offlineMu.Unlock()
	e.opts.Logger.Error("A stream is held offline: its history cannot be read", "account", name.account, "stream", name.name, "error", err)
	a := e.account(name.account)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams[name.name] == nil && name.name != "" {
		a.offline[name.name] = err
	}
}

// Offline lists the streams of an account that are held offline, and why.
func (a *Account) Offline() map[string]error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.offline)
}

// lastRecord hears what became of the record that ends an offline stream.
type lastRecord struct{ result chan error } // capacity 1

// Committed implements wal.Sink.
func (l *lastRecord) Committed(entries []*wal.Entry) { l.result <- entries[0].Err }

// deleteOffline deletes a stream that is held offline; it is gone, also after a crash, when this returns. When ctx ends
// before, that may be under way: the name is free after the next start at the latest.
func (a *Account) deleteOffline(ctx context.Context, name string) error {
	e := a.engine
	o, ok := e.offlineBy(streamName{a.name, name})
	if !ok {
		return jserr.New(jserr.StreamNotFound)
	}
	last := &lastRecord{make(chan error, 1)}
	entry := &wal.Entry{Data: record.Append(nil, record.StreamDelete, o.id, nil), Records: 1, Sink: last}
	err := e.opts.Log.Append(entry)
	if err == nil {
		select {
		case err = <-last.result:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("engine: deleting stream %s, which is offline: %w", name, err)
	}
	// First the grave, then the stream: one of them keeps the log's record of its end.
	at := e.mark(place{log: e.opts.Log.ID(), pos: entry.Position})
	e.bury(grave{account: a.name, stream: name, id: o.id, at: at, buried: time.Now()})
	e.offlineMu.Lock()
	e.offline = slices.DeleteFunc(e.offline, func(other offlineStream) bool { return other.id == o.id })
	e.offlineMu.Unlock()
	another, ok := e.offlineBy(o.streamName)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.offline, name)
	if ok {
		a.offline[name] = another.err
	}
	return nil
}

// offlineBy finds an offline stream.
func (e *Engine) offlineBy(name streamName) (offlineStream, bool) {
	e.offlineMu.Lock()
	defer e.offlineMu.Unlock()
	i := slices.IndexFunc(e.offline, func(o offlineStream) bool { return o.streamName == name })
	if i < 0 {
		return offlineStream{}, false
	}
	return e.offline[i], true
}

func (a *Account) isOffline(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.offline[name] != nil
}
