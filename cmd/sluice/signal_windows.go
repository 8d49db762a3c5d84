package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
)

func processSignals() <-chan os.Signal {
	c := make(chan os.Signal, 16)
	signal.Notify(c, os.Interrupt)
	return c
}

// signal follows an interrupt; Windows has no others.
func (p *process) signal(s os.Signal, cancelStart context.CancelFunc) {
	p.trapped(s)
	if p.ending == nil {
		cancelStart()
		p.begin(p.shutdown)
	}
}

func sendSignal(string) error { return errors.New("--signal is not available on Windows") }
