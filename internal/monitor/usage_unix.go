//go:build unix

package monitor

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what the process has used in user and system mode.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
