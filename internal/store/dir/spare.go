//go:build unix

package dir

import (
	"os"
	"sync"
)

// maxSpares bounds the unnamed files that a store keeps ready, each a file descriptor and an inode without content.
const maxSpares = 4

// spares are unnamed files made ahead, for Puts to write into. Making an inode is the slowest part of a small Put that
// is no wait for the disk: on ext4 without a journal it takes 0.3 ms for as long as a minute after many files were
// deleted nearby, since inodes are not used again so soon and all of them are looked at. So that is done while the Put
// before waits for its fsyncs. A spare is as durable as a file made on the spot: not at all.
type spares struct {
	create func() (*os.File, error)
	spawn  func(func()) // runs a function beside its caller

	// mu guards the following; it is never held across I/O.
	mu      sync.Mutex
	ready   []*os.File
	filling bool
	closed  bool
	filled  sync.WaitGroup
}

func newSpares(create func() (*os.File, error)) *spares {
	p := &spares{create: create}
	p.spawn = func(fill func()) { p.filled.Go(fill) }
	return p
}

// take gives a file that is the caller's to close, and sees to it that the next one finds one ready.
func (p *spares) take() (*os.File, error) {
	p.mu.Lock()
	var f *os.File
	if last := len(p.ready) - 1; last >= 0 {
		f, p.ready = p.ready[last], p.ready[:last]
	}
	fill := !p.filling && !p.closed
	p.filling = p.filling || fill
	p.mu.Unlock()
	if fill {
		p.spawn(p.fill)
	}
	if f != nil {
		return f, nil
	}
	return p.create()
}

// fill makes files until there are enough, or one cannot be made: whoever needs it then sees the error for himself.
func (p *spares) fill() {
	for p.wanting() {
		f, err := p.create()
		if !p.add(f, err) {
			return
		}
	}
}

func (p *spares) wanting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filling = len(p.ready) < maxSpares && !p.closed
	return p.filling
}

// add keeps a new file and reports whether another may follow.
func (p *spares) add(f *os.File, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.filling = false
		return false
	}
	p.ready = append(p.ready, f)
	return true
}

// close lets go of the files that nobody took. Nobody may take one later.
func (p *spares) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.filled.Wait()
	for _, f := range p.ready {
		_ = f.Close() // never written
	}
	p.ready = nil
}
