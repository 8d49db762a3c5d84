package logging

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
)

// Options of a Log; the zero value writes information, warnings and errors to standard error, with the local time.
type Options struct {
	Debug bool // write records of slog.LevelDebug
	Trace bool // write records of LevelTrace
	// NoTime leaves the time out of the lines; UTC writes it in UTC.
	NoTime, UTC bool
	// File is the path of the log file; "" is standard error.
	File string
	// SizeLimit in bytes: a file that grew beyond it is set aside under its name and the time. 0 never does.
	SizeLimit int64
	// MaxFiles bounds the log files that are kept, the current one included. 0 keeps all of them.
	MaxFiles int
}

// Log is where the lines go. All methods are safe for concurrent use.
type Log struct {
	// current holds what Handle needs on every record, so that it takes no lock to read it.
	current atomic.Pointer[state]

	mu     sync.Mutex
	stderr io.Writer
	file   *file // nil: stderr
}

// state is the options in force; a new one replaces it as a whole.
type state struct {
	Options
	color bool
}

// Open makes a Log; stderr takes the lines when there is no log file. The error tells that the log file cannot be
// opened.
func Open(o Options, stderr io.Writer) (*Log, error) {
	l := &Log{stderr: stderr}
	if err := l.Reconfigure(o); err != nil {
		return nil, err
	}
	return l, nil
}

// Logger returns a logger that writes to l.
func (l *Log) Logger() *slog.Logger { return slog.New(&Handler{log: l}) }

// Reconfigure puts other options in force. On an error, of opening another file, the old ones stay.
func (l *Log) Reconfigure(o Options) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.file
	switch {
	case o.File == "":
		next = nil
	case l.file == nil || l.file.path != o.File:
		f, err := openFile(o.File)
		if err != nil {
			return err
		}
		next = f
	}
	if l.file != nil && l.file != next {
		l.file.close()
	}
	l.file = next
	l.current.Store(&state{Options: o, color: next == nil && isTerminal(l.stderr)})
	return nil
}

// Reopen opens the log file again at its path, for tools that move log files away. Without a log file it does nothing
// and returns false.
func (l *Log) Reopen() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return false, nil
	}
	f, err := openFile(l.file.path)
	if err != nil {
		return true, err
	}
	l.file.close()
	l.file = f
	return true, nil
}

// Close closes the log file; what is written later goes to standard error.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.file
	if f == nil {
		return nil
	}
	l.file = nil
	return f.close()
}

// write puts out one whole line.
func (l *Log) write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		_, err := l.stderr.Write(line)
		return err
	}
	o := l.current.Load()
	if err := l.file.write(line); err != nil {
		return err
	}
	if o.SizeLimit <= 0 || l.file.size <= o.SizeLimit {
		return nil
	}
	if err := l.file.rotate(o.MaxFiles); err != nil {
		// The line itself is written. Say why the file goes on growing, where someone may see it.
		fmt.Fprintf(l.stderr, "sluice: rotating the log file: %v\n", err)
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
