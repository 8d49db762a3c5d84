//go:build unix

package cache

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// While the disk hangs, here in the opening of a file that is a pipe, reads go on and what waits is bounded.
func TestWritesThatWaitAreBounded(t *testing.T) {
	for _, tc := range []struct {
		name          string
		length, parts int64
		bytes         int64
		queue         int
	}{
		{"bytes", mib, 40, diskQueueBytes, diskQueueBytes/mib - 1},
		{"parts", 10, 2000, 10 * (diskQueue + 1), diskQueue},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			object := w.object("a", tc.length*tc.parts)
			registry := prometheus.NewRegistry()
			c := w.cache(Options{Folder: t.TempDir(), Registerer: registry})
			d := c.disk
			pipe := filepath.Join(d.folder, tempFolder, "part")
			if err := unix.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			parts := pages(tc.length*tc.parts, tc.length)
			want(t, c, "a", parts[0], object)
			for len(d.queue) > 0 {
				runtime.Gosched() // until the writer has it
			}
			for _, p := range parts[1:] {
				want(t, c, "a", p, object)
			}
			d.mu.Lock()
			if d.queued != tc.bytes || len(d.queue) != tc.queue {
				t.Errorf("%d bytes wait in a queue of %d, want %d and %d", d.queued, len(d.queue), tc.bytes, tc.queue)
			}
			d.mu.Unlock()
			skipped := float64(tc.parts) - float64(tc.queue) - 1
			if v := value(t, registry, "sluice_cache_disk_faults_total", "skipped"); v != skipped {
				t.Errorf("%v parts were skipped, want %v", v, skipped)
			}
			f, err := os.Open(pipe)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := io.Copy(io.Discard, f); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if d.queued != 0 || len(d.writes) != 0 {
				t.Errorf("%d bytes of %d objects wait though all is written", d.queued, len(d.writes))
			}
		})
	}
}
