//go:build !unix

package conn

import "errors"

// rawIO tells whether sockets can be read and written without waiting.
const rawIO = false

func readFD(uintptr, []byte) (n int, again bool, err error) { return 0, false, errors.ErrUnsupported }

func writeFD(uintptr, []byte) int { return 0 }
