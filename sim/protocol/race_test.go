//go:build race

package protocol

// The model has one goroutine: under the race detector it need only run, not be exhaustive.
func init() { quickly = true }
