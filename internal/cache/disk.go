package cache

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	// diskReads is how many files are read at the same time.
	diskReads = 8
	// diskQueue and diskQueueBytes bound the parts that wait to be written; what comes beyond is not.
	diskQueue      = 1024
	diskQueueBytes = 16 << 20
	// touchAfter is how old the time of a file may be that tells a later process when it was used last.
	touchAfter = 10 * time.Minute
	// blockBytes is what a file's size is rounded up to.
	blockBytes = 4 << 10
)

// errNotOnDisk: the file is not there, or not whole. The part comes from the store then.
var errNotOnDisk = errors.New("cache: not on the disk")

// file is a part on the disk.
type file struct {
	key     string
	part    Part
	touched time.Time // of the file itself: about when it was used last
	order   *list.Element
}

func (f *file) size() int64 { return fileSize(f.part) }

func fileSize(p Part) int64 {
	return (headerBytes + p.Length + blockBytes - 1) / blockBytes * blockBytes
}

// write is a part that is to be written.
type write struct {
	key     string
	part    Part
	data    []byte
	dropped bool // forgotten meanwhile
}

// disk keeps parts as files, within a number of bytes and of files; what was used longest ago goes first. It may lose
// anything at any time, since all of it is in the store too: nothing is synced, every file carries a checksum, and what
// cannot be read or written is as if it were not there.
//
// Files are written by one goroutine, in the order in which parts came, and removed by it and by who forgets them. The
// books are changed first: so a file that is found under a name that the books have is either the right one, or missing.
type disk struct {
	folder   string
	max      int64
	maxFiles int
	pause    time.Duration
	log      *slog.Logger
	metrics  *metrics
	lock     *os.File
	queue    chan *write
	writer   sync.WaitGroup

	// mu guards what follows. It may be taken while Cache.mu is held, never the other way round.
	mu     sync.Mutex
	files  index[*file]
	order  list.List // of *file, last used last
	bytes  int64     // of files, and of the one that is being written
	writes index[*write]
	queued int64     // bytes of writes
	paused time.Time // until then nothing is written
	closed bool
}

// openDisk makes or takes over a folder.
func openDisk(opts Options, m *metrics) (*disk, error) {
	d := &disk{
		folder: opts.Folder, max: opts.DiskBytes, maxFiles: opts.DiskFiles, pause: opts.DiskPause,
		log: opts.Logger.With("folder", opts.Folder), metrics: m,
		queue: make(chan *write, diskQueue), files: index[*file]{}, writes: index[*write]{},
	}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("cache: open folder %s: %w", d.folder, err)
	}
	d.writer.Go(func() {
		for w := range d.queue {
			d.store(w)
		}
	})
	return d, nil
}

// open locks the folder and makes the books from the files in it.
func (d *disk) open() (err error) {
	if d.lock, err = lockFolder(d.folder); err != nil {
		return err
	}
	found, err := d.list()
	if err != nil {
		return errors.Join(err, d.lock.Close())
	}
	for _, f := range found {
		d.enter(f)
	}
	d.remove(d.makeRoom(0, 0))
	return nil
}

// close writes what waits and leaves the folder.
func (d *disk) close() error {
	d.mu.Lock()
	d.closed = true
	close(d.queue)
	d.mu.Unlock()
	d.writer.Wait()
	d.metrics.sizeBytes[diskTier].Sub(float64(d.bytes))
	d.metrics.sizeParts[diskTier].Sub(float64(d.order.Len()))
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("cache: close folder %s: %w", d.folder, err)
	}
	return nil
}

// enter puts a file into the books. mu is held.
func (d *disk) enter(f *file) {
	f.order = d.order.PushBack(f)
	d.files.put(f.key, f.part, f)
	d.count(f.size())
	d.metrics.sizeParts[diskTier].Inc()
}

// leave takes a file out of the books. mu is held.
func (d *disk) leave(f *file) {
	d.order.Remove(f.order)
	d.files.remove(f.key, f.part)
	d.count(-f.size())
	d.metrics.sizeParts[diskTier].Dec()
}

func (d *disk) count(bytes int64) {
	d.bytes += bytes
	d.metrics.sizeBytes[diskTier].Add(float64(bytes))
}

// makeRoom takes files out of the books until so many more fit, and gives them. mu is held.
func (d *disk) makeRoom(bytes int64, files int) (gone []*file) {
	for (d.bytes+bytes > d.max || d.order.Len()+files > d.maxFiles) && d.order.Len() > 0 {
		f := d.order.Front().Value.(*file)
		d.leave(f)
		gone = append(gone, f)
		d.metrics.evictions[diskTier].Inc()
	}
	return gone
}

func (d *disk) has(key string, p Part) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, found := d.files.get(key, p)
	return found
}

// read gives a part, or errNotOnDisk.
func (d *disk) read(ctx context.Context, key string, p Part) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	f, found := d.files.get(key, p)
	d.mu.Unlock()
	if !found {
		return nil, errNotOnDisk
	}
	data, err := readFile(d.path(key, p), key, p)
	if err != nil {
		d.lose(f, err)
		return nil, errNotOnDisk
	}
	d.use(f)
	return data, nil
}

// lose forgets a file that could not be read.
func (d *disk) lose(f *file, err error) {
	d.metrics.readFaults.Inc()
	d.mu.Lock()
	now, _ := d.files.get(f.key, f.part)
	if now == f {
		d.leave(f)
	}
	d.mu.Unlock()
	if now == f {
		d.log.Warn("A file of the cache is lost; its part is fetched again.", "key", f.key, "offset", f.part.Offset, "error", err)
		d.remove([]*file{f})
	}
}

// use notes that a file was used, in the file too from time to time.
func (d *disk) use(f *file) {
	now := time.Now()
	d.mu.Lock()
	if known, _ := d.files.get(f.key, f.part); known == f {
		d.order.MoveToBack(f.order)
	}
	touch := now.Sub(f.touched) >= touchAfter
	if touch {
		f.touched = now
	}
	d.mu.Unlock()
	if touch {
		_ = os.Chtimes(d.path(f.key, f.part), now, now) // else it counts as older than it is
	}
}

// write has a part written, unless that would take too much.
func (d *disk) write(key string, p Part, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, written := d.files.get(key, p)
	_, waits := d.writes.get(key, p)
	if d.closed || written || waits || fileSize(p) > d.max/share || time.Now().Before(d.paused) {
		return
	}
	w := &write{key: key, part: p, data: data}
	if d.queued+p.Length > diskQueueBytes && d.queued > 0 {
		d.metrics.writesSkipped.Inc()
		return
	}
	select {
	case d.queue <- w:
		d.writes.put(key, p, w)
		d.queued += p.Length
	default:
		d.metrics.writesSkipped.Inc()
	}
}

// store writes a part, after making room for it.
func (d *disk) store(w *write) {
	f := &file{key: w.key, part: w.part, touched: time.Now()}
	d.mu.Lock()
	skip := w.dropped || f.touched.Before(d.paused)
	var gone []*file
	if !skip {
		gone = d.makeRoom(f.size(), 1)
		d.count(f.size())
	}
	d.mu.Unlock()
	d.remove(gone)
	var err error
	if !skip {
		err = d.writeFile(w, f.touched)
	}

	d.mu.Lock()
	d.queued -= w.part.Length
	if now, _ := d.writes.get(w.key, w.part); now == w {
		d.writes.remove(w.key, w.part)
	}
	if !skip {
		d.count(-f.size())
	}
	written := !skip && err == nil
	if written && !w.dropped {
		d.enter(f)
	}
	if err != nil {
		d.paused = time.Now().Add(d.pause)
	}
	d.mu.Unlock()
	if written && w.dropped {
		d.remove([]*file{f})
	}
	if err != nil {
		d.metrics.writeFaults.Inc()
		d.log.Warn("The cache cannot write to its folder and pauses.", "pause", d.pause, "error", err)
	}
}

// forget takes an object, or all whose keys begin so, out of the books. The files are for remove.
func (d *disk) forget(key string, prefix bool) []*file {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := d.files.of(key, prefix)
	for _, f := range files {
		d.leave(f)
	}
	for _, w := range d.writes.of(key, prefix) {
		w.dropped = true
		d.writes.remove(w.key, w.part)
	}
	return files
}

// forgetPart is forget for one part.
func (d *disk) forgetPart(key string, p Part) (files []*file) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, found := d.files.get(key, p); found {
		d.leave(f)
		files = append(files, f)
	}
	if w, found := d.writes.get(key, p); found {
		w.dropped = true
		d.writes.remove(key, p)
	}
	return files
}
