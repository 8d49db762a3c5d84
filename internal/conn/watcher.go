package conn

// Watcher hears of clients that come and go. Its methods are called on the clients' goroutines, without a lock, and do
// not wait.
type Watcher interface {
	// Connected: the client has said who it is, and is one of the account now. describe costs little and is there for
	// watchers that often have nobody to tell.
	Connected(account string, describe func() Snapshot)
	// Refused: the client's credentials were wrong. Disconnected follows.
	Refused(describe func() Snapshot)
	// Disconnected: the connection has ended. Account is "" if it never said who it is.
	Disconnected(*Snapshot)
}

// unwatched is the Watcher where there is none.
type unwatched struct{}

func (unwatched) Connected(string, func() Snapshot) {}
func (unwatched) Refused(func() Snapshot)           {}
func (unwatched) Disconnected(*Snapshot)            {}

// describe is the connection without its subscriptions.
func (c *Conn) describe() Snapshot { return c.snapshot(false) }

// Kick closes a client's connection; false: there is none of this id.
func (s *Server) Kick(id uint64) bool {
	c := s.conn(id)
	if c != nil {
		c.close(Kicked)
	}
	return c != nil
}

// TellLameDuck tells one client to go elsewhere, as lame duck mode does to all; false: there is none of this id.
func (s *Server) TellLameDuck(id uint64) bool {
	c := s.conn(id)
	if c != nil {
		c.tell(true)
	}
	return c != nil
}

// conn gives an open connection, or nil.
func (s *Server) conn(id uint64) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[id]
}
