package cli_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal runs a command that only works on a terminal, and returns what it showed.
func (c cli) terminal(t testing.TB, args ...string) string {
	t.Helper()
	controller, tty, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer controller.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := c.command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	// Reading ends with EIO once the command, the last user of the other side, has ended.
	shown, _ := io.ReadAll(controller)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("nats %v: %v\n%s", args, err, shown)
	}
	return string(shown)
}

// openTerminal makes a pseudo-terminal.
func openTerminal() (controller, tty *os.File, err error) {
	if controller, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(controller.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		controller.Close()
		return nil, nil, err
	}
	return controller, tty, nil
}
