package monitor

import "time"

// Reporter makes the reports on a server's state. All methods may be called at any time, by several goroutines. A report
// belongs to the caller. The errors are for whoever asked, in nats-server's words.
type Reporter struct {
	source Source
	cpu    cpuMeter
	now    func() time.Time
}

// NewReporter makes the reports of a source.
func NewReporter(source Source) *Reporter { return &Reporter{source: source, now: time.Now} }
