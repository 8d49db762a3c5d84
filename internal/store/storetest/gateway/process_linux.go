package gateway

import (
	"os/exec"
	"runtime"
	"syscall"
)

// endWithParent lets the server die with the test, however that ends.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// runOnThread runs what starts the server and waits for it on one thread, since for the kernel the parent is a thread.
func runOnThread(run func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	run()
}
