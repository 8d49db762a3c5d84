//go:build unix && (!linux || race)

package conn

import "syscall"

// rawIO tells whether sockets can be read and written without waiting.
const rawIO = true

// readFD reads what is there; again means that there is nothing yet.
func readFD(fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err = syscall.Read(int(fd), b)
		switch err {
		case nil:
			return n, false, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, true, nil
		default:
			return 0, false, err
		}
	}
}

// writeFD writes what fits.
func writeFD(fd uintptr, b []byte) int {
	for {
		n, err := syscall.Write(int(fd), b)
		if err != syscall.EINTR {
			return max(n, 0)
		}
	}
}
