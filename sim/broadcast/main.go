// Command broadcast prints what a broadcast costs in clusters of several sizes: requests to the store and messages between
// nodes, beside a fan-out to every node, gossip, and a broker. It plays the rules of internal/broadcast for nodes whose
// polls and heartbeats have random phases; docs/broadcast.md has its table.
//
//	go run ./sim/broadcast [-sizes 3,10,100,1000] [-rate 1] [-request 30ms] [-seed 1]
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	sizes := flag.String("sizes", "3,10,100,1000", "numbers of nodes")
	rate := flag.Float64("rate", 1, "broadcasts a second, of all nodes together")
	request := flag.Duration("request", 30*time.Millisecond, "what one request to the store takes")
	seed := flag.Uint64("seed", 1, "of the phases and of who broadcasts when")
	flag.Parse()
	if err := run(os.Stdout, *sizes, model{rate: *rate, request: *request, seed: *seed}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// run prints the tables for some numbers of nodes.
func run(w io.Writer, sizes string, m model) error {
	m.setDefaults()
	var all []result
	for text := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 2 || n > maxNodes {
			return fmt.Errorf("%q nodes: want a number from 2 to %d", text, maxNodes)
		}
		m.nodes = n
		all = append(all, m.play())
	}
	fmt.Fprintf(w, "One broadcast, in messages between nodes and in requests to the store (%g a second in all, seed %d):\n\n", m.rate, m.seed)
	fmt.Fprintln(w, "| nodes | fan-out: messages | gossip: messages | broker: messages | here: messages | PUT | GET of batches | mean latency | 99 % |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
	for _, r := range all {
		fmt.Fprintf(w, "| %d | %d | %d | %d | 0 | %.2f | %.2f | %v | %v |\n", r.nodes, fanOut(r.nodes), gossip(r.nodes), broker(r.nodes),
			r.puts, r.batchGets, r.mean.Round(10*time.Millisecond), r.high.Round(10*time.Millisecond))
	}
	fmt.Fprintf(w, "\nWhat looking costs, of the whole cluster a second, with broadcasts and without any, and a month's bill without any at S3's prices:\n\n")
	fmt.Fprintln(w, "| nodes | LIST | GET of heads | LIST, idle | GET of heads, idle | heartbeats | idle, $ a month |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|")
	for _, r := range all {
		fmt.Fprintf(w, "| %d | %.1f | %.0f | %.1f | %.0f | %d | %.0f |\n", r.nodes, r.busy.lists, r.busy.gets, r.idle.lists, r.idle.gets, r.nodes, r.idle.dollars(r.nodes))
	}
	return nil
}
