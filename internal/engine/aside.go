package engine

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
	e.offlineMu.Lock()
	defer e.offlineMu.Unlock()
	for _, o := range e.offline {
		limit = earlier(limit, o.from)
	}
	return limit
}
