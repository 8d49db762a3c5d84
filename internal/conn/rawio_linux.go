//go:build linux && !race

package conn

import (
	"syscall"
	"unsafe"
)

// rawIO tells whether sockets can be read and written without waiting.
const rawIO = true

// These calls do not wait, so the runtime need not hear of them. If it did, each call after a moment of idleness would
// wake the runtime's monitor, a thread that then competes with the peer that the call has just woken: on a small machine
// that is a good part of the latency of a request. (The race detector takes the ordinary calls as synchronisation, so
// it gets those.)

// readFD reads what is there; again means that there is nothing yet.
func readFD(fd uintptr, b []byte) (n int, again bool, err error) {
	if len(b) == 0 {
		return 0, false, nil
	}
	for {
		got, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(got), false, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, true, nil
		default:
			return 0, false, errno
		}
	}
}

// writeFD writes what fits.
func writeFD(fd uintptr, b []byte) int {
	if len(b) == 0 {
		return 0
	}
	for {
		put, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(put)
		case syscall.EINTR:
		default:
			return 0
		}
	}
}
