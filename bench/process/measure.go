package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time, user and system, that the process has used so far, in nanoseconds' resolution.
//
// It reads the process's own CPU clock (clock_gettime of clock_getcpuclockid(pid)): the scheduler's exact account of
// all its threads, ended ones included. The figures of /proc/PID/stat count in ticks of 10 ms, and those of
// /proc/PID/task/*/schedstat lose the threads that ended.
func (s *Server) CPU() (time.Duration, error) {
	// The clock id of a process is its inverted pid and, in the low three bits, 2 for "scheduler time of the group".
	clock := int32(^s.PID())<<3 | 2
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", s.PID(), err)
	}
	return time.Duration(ts.Nano()), nil
}

// SelfCPU is the processor time, user and system, that this process has used so far.
func SelfCPU() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("read the own CPU clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// RSS is the resident memory of the process, in bytes. Memory of the kernel, such as socket buffers, is not in it.
func (s *Server) RSS() (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", s.PID(), err)
	}
	for line := range strings.Lines(string(b)) {
		rest, ok := strings.CutPrefix(line, "VmRSS:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the memory of process %d: %w", s.PID(), err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("read the memory of process %d: no VmRSS", s.PID())
}
