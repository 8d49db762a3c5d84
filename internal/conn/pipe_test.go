package conn

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestPipeCarriesEverything(t *testing.T) {
	a, b := newPipe()
	want := make([]byte, 3<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(want)
	go func() {
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 1+rand.IntN(200_000))
			if _, err := a.Write(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
		a.Close()
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %d of %d bytes, %v", len(got), len(want), err)
	}
}

func TestPipeEnds(t *testing.T) {
	a, b := newPipe()
	if _, err := a.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	a.Close()
	buf := make([]byte, 10)
	if n, err := b.Read(buf); n != 4 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if _, err := b.Read(buf); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	if _, err := b.Write(buf); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("writing to nobody: %v", err)
	}
	if _, err := a.Read(buf); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("reading after Close: %v", err)
	}
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newPipe()
		defer a.Close()
		defer b.Close()
		start := time.Now()
		_ = a.SetReadDeadline(start.Add(time.Second))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		_ = a.SetWriteDeadline(start.Add(3 * time.Second))
		if n, err := a.Write(make([]byte, 2*pipeBytes)); n != pipeBytes || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("wrote %d, %v after %v", n, err, time.Since(start))
		}
		// A deadline that is taken back holds nobody up.
		_ = b.SetReadDeadline(time.Now().Add(-time.Second))
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline in the past: %v", err)
		}
		_ = b.SetReadDeadline(time.Time{})
		if n, err := b.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("without deadline: %d, %v", n, err)
		}
	})
}

func TestBufferClasses(t *testing.T) {
	for _, n := range []int{1, minBuffer, minBuffer + 1, pageBuffer, maxBuffer, maxBuffer + 1, 1<<20 + 50, 16 << 20, 16<<20 + 1} {
		b := getBuffer(n)
		if len(b) != 0 || cap(b) < n || n > minBuffer && cap(b) >= 4*n {
			t.Errorf("a buffer for %d has length %d and capacity %d", n, len(b), cap(b))
		}
		putBuffer(b)
	}
	putBuffer(make([]byte, 10)) // not one of ours: dropped
	if b := getBuffer(1); cap(b) < minBuffer {
		t.Errorf("a foreign buffer of %d bytes came back", cap(b))
	}
}
