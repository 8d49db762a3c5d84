// Package version names this build and the NATS version that it is compatible with.
package version

import (
	"runtime/debug"
	"sync"
)

// NATS is the nats-server version whose behaviour this build matches. INFO reports it as "version", because clients
// decide by it which features a server has.
const NATS = "2.15.3"

// APILevel is the level of the JetStream API that this build answers, as infos report it (ADR-44). Features of a level
// that are missing are refused by name: see docs/compat.md.
const APILevel = 5

// number is overwritten by a release build: -ldflags "-X github.com/sluicemq/sluice/internal/version.number=1.2.3".
var number = "0.1.0"

// String returns Sluice's own version without a leading "v".
func String() string { return number }

// Line is what `sluice --version` prints.
func Line() string { return "sluice: v" + number + " (NATS " + NATS + ")" }

// Commit returns the first seven digits of the commit that the binary was built from, or "" when the build does not
// know it (a build outside a checkout, or with -buildvcs=false).
var Commit = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 7 {
			return s.Value[:7]
		}
	}
	return ""
})
