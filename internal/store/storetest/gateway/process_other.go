//go:build !linux

package gateway

import "os/exec"

func endWithParent(*exec.Cmd) {}

func runOnThread(run func()) { run() }
