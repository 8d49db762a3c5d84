package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	maxNodes  = 5000
	listKeys  = 1000 // of one LIST
	heartbeat = time.Second
	window    = 100 * time.Millisecond
	poll      = 250 * time.Millisecond
	idlePoll  = 2 * time.Second
	month     = 30 * 24 * time.Hour
	// tick is the step of the clock.
	tick = 10 * time.Millisecond
)

// model is a cluster that broadcasts at random moments.
type model struct {
	nodes   int
	rate    float64
	request time.Duration
	seed    uint64
	lasts   time.Duration // of virtual time; 0: 20 s
}

func (m *model) setDefaults() {
	if m.lasts == 0 {
		m.lasts = 20 * time.Second
	}
}

// result is what a run cost: per broadcast, and per second of the whole cluster.
type result struct {
	nodes           int
	puts, batchGets float64
	mean, high      time.Duration
	busy, idle      looking
}

// looking is the requests of polls a second.
type looking struct{ lists, gets float64 }

// dollars is a month's bill of looking and of heartbeats, at S3's prices in us-east-1.
func (l looking) dollars(nodes int) float64 {
	const put, get = 0.005 / 1000, 0.0004 / 1000 // a LIST costs what a PUT does
	return month.Seconds() * ((l.lists+float64(nodes))*put + l.gets*get)
}

// node is one node's state.
type node struct {
	pending  []time.Duration // when the broadcasts that gather were published
	due      time.Duration   // when they are visible; 0: none gather
	versions int             // of its head
	beat     time.Duration   // next heartbeat
	batches  []batch
	seen     []int // by node: the version of its head that was read
	at       []int // by node: the batches that were fetched
	next     time.Duration
	interval time.Duration
}

type batch struct{ published []time.Duration }

// play runs the model with broadcasts, and again without.
func (m model) play() result {
	r := m.run(m.rate)
	r.idle = m.run(0).busy
	return r
}

// run plays one cluster: every tick, nodes broadcast, batches become visible, heartbeats are written, and nodes poll. With
// a rate of 0 it begins when the polls have slowed down.
func (m model) run(rate float64) (r result) {
	random := rand.New(rand.NewPCG(m.seed, uint64(m.nodes)))
	nodes := make([]*node, m.nodes)
	for i := range nodes {
		n := &node{seen: make([]int, m.nodes), at: make([]int, m.nodes), interval: poll, beat: time.Duration(random.Int64N(int64(heartbeat)))}
		if rate == 0 {
			n.interval = idlePoll
		}
		n.next = time.Duration(random.Int64N(int64(n.interval)))
		nodes[i] = n
	}
	var latencies []time.Duration
	broadcasts, puts, batchGets, lists, headGets := 0, 0, 0, 0, 0
	for now := time.Duration(0); now < m.lasts; now += tick {
		if random.Float64() < rate*tick.Seconds() {
			n := nodes[random.IntN(len(nodes))]
			n.pending = append(n.pending, now)
			if n.due == 0 {
				n.due = now + window + 2*m.request // a create, then the head
			}
			broadcasts++
		}
		for _, n := range nodes {
			if n.due > 0 && now >= n.due {
				n.batches = append(n.batches, batch{n.pending})
				n.pending, n.due, n.beat = nil, 0, now+heartbeat // the head's write is a heartbeat too
				n.versions++
				puts += 2
			}
			if now >= n.beat {
				n.versions++
				n.beat = now + heartbeat
			}
		}
		for i, n := range nodes {
			if now < n.next {
				continue
			}
			lists += (len(nodes) + listKeys - 1) / listKeys
			news := false
			for j, other := range nodes {
				if i == j || n.seen[j] == other.versions {
					continue
				}
				n.seen[j] = other.versions
				headGets++
				for ; n.at[j] < len(other.batches); n.at[j]++ {
					batchGets++
					news = true
					for _, published := range other.batches[n.at[j]].published {
						latencies = append(latencies, now+3*m.request-published) // the LIST, the head, the batch
					}
				}
			}
			if news {
				n.interval = poll
			} else {
				n.interval = min(n.interval*3/2, idlePoll)
			}
			n.next = now + n.interval
		}
	}
	r = result{nodes: m.nodes, busy: looking{lists: float64(lists) / m.lasts.Seconds(), gets: float64(headGets) / m.lasts.Seconds()}}
	if broadcasts > 0 {
		r.puts, r.batchGets = float64(puts)/float64(broadcasts), float64(batchGets)/float64(broadcasts)
	}
	if n := len(latencies); n > 0 {
		slices.Sort(latencies)
		var sum time.Duration
		for _, l := range latencies {
			sum += l
		}
		r.mean, r.high = sum/time.Duration(n), latencies[n*99/100]
	}
	return r
}

// fanOut is the messages by which a node tells each of the others.
func fanOut(n int) int { return n - 1 }

// gossip is what the nodes of a cluster by hashicorp/memberlist send: each passes a broadcast on RetransmitMult (4) times
// the logarithm of the cluster's size.
func gossip(n int) int { return n * 4 * int(math.Ceil(math.Log10(float64(n+1)))) }

// broker is one message to the broker and one from it to each of the others.
func broker(n int) int { return n }
