// Package sim runs the real engine, log, heads and broker in virtual time over a store that misbehaves, kills and pauses
// the process at random moments, and proves from the history of each run that what was acknowledged is stored.
//
// A run is made from one seed: see [Run]. It must be called in a testing/synctest bubble. The scheduler is not seeded,
// so a seed reproduces a workload and the faults that befall it, not every interleaving.
//
// [Check] compares the history with what the streams hold at the end. A small store decorator, audit, watches what really
// lands. Neither knows anything of the engine's own state.
//
//	go test ./sim                                       200 seeds, a minute at most
//	SLUICE_SIM_SEED=7 go test ./sim -run Stored -v      one seed, with its history and all that it wrote to the log
//	SLUICE_SIM_SEEDS=10000 SLUICE_SIM_FROM=1 go test ./sim -run Stored -timeout 0
//
// How a process dies here: its [link] to the store is cut, so nothing that it asks for later has an effect, while the
// requests that were under way land when they would have. Only then are its goroutines let go. How a process pauses:
// its link holds every request and every answer back, until it is woken.
package sim
