package monitor

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// cpuMeter tells the share of a core that the process took since the last look, or since its start at the first.
type cpuMeter struct {
	mu       sync.Mutex
	at       time.Time
	used     time.Duration
	lastSeen float64
}

// minSample keeps looks that follow each other closely from showing noise.
const minSample = time.Second

// started is close enough to the process's start for a percentage.
var started = time.Now()

func (c *cpuMeter) percent(now time.Time) float64 {
	used := cpuTime()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		c.at = started
	} else if now.Sub(c.at) < minSample {
		return c.lastSeen
	}
	if wall := now.Sub(c.at); wall > 0 {
		c.lastSeen = math.Round(float64(used-c.used)/float64(wall)*1000) / 10
	}
	c.at, c.used = now, used
	return c.lastSeen
}

// residentBytes is the memory of the process; where the system does not tell, what Go has taken from it.
func residentBytes() int64 {
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(b); len(fields) > 1 {
			if pages, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}
