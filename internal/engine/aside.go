package engine

import "maps"

// setAside keeps a recovered stream whose name another has: two nodes that shared a store each created one, and now one
// continues the work of both. The first in the order of the logs goes by the name. The other stays in the log untouched,
// so that nothing of it is lost, and comes up at the start after the first was deleted.
func (e *Engine) setAside(s, other *Stream) {
	e.aside = append(e.aside, s)
	e.opts.Logger.Error("Two streams have the same name; one is held offline until the other is deleted and the server started again",
		"account", s.account.name, "stream", s.name, "created", other.created, "offline", s.created)
}

// asideNeeds is from where on the streams that are held offline need the log.
func (e *Engine) asideNeeds(limit mark) mark {
	for _, s := range e.aside {
		from, _ := s.needs(s.now)
		limit = earlier(limit, from)
	}
	for _, o := range e.offline {
		limit = earlier(limit, o.from)
	}
	return limit
}

// streamName names a stream.
type streamName struct{ account, name string }

// offlineStream is a stream whose history cannot be read: its manifest or a segment is damaged, missing, or of a newer
// version. Nothing of it is deleted or rewritten, and the log keeps what it has of it. It comes up at a start that can
// read everything.
type offlineStream struct {
	streamName
	from mark
	err  error
}

// holdOffline keeps a recovered stream from coming up.
func (e *Engine) holdOffline(name streamName, f *fragment, err error) {
	f.tail.release()
	e.offline = append(e.offline, offlineStream{name, f.began, err})
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
