package main

import "context"

// seed of the random orders: the same in every run, so that rounds can be compared.
const seed = 0x51

func load(build func() pubsub) func(context.Context, *Env) ([]Result, error) {
	return func(ctx context.Context, env *Env) ([]Result, error) { return build().run(ctx, env) }
}

func cross(publishers, subscribers, payload int, fan bool) func(context.Context, *Env) ([]Result, error) {
	return load(func() pubsub { return crossing(publishers, subscribers, payload, fan) })
}

// cases is the benchmark, in the order of the table.
func cases() []Case {
	async := limitsStream("file")
	async.PersistMode = "async"
	return []Case{
		{Name: "publish-16B", Run: cross(1, 0, 16, false)},
		{Name: "1-1-16B", Run: cross(1, 1, 16, false)},
		{Name: "1-1-128B", Run: cross(1, 1, 128, false)},
		{Name: "1-1-1KiB", Run: cross(1, 1, 1024, false)},
		{Name: "1-4-16B", Run: cross(1, 4, 16, true)},
		{Name: "1-4-128B", Run: cross(1, 4, 128, true)},
		{Name: "1-4-1KiB", Run: cross(1, 4, 1024, true)},
		{Name: "4-4-16B", Run: cross(4, 4, 16, false)},
		{Name: "4-4-128B", Run: cross(4, 4, 128, false)},
		{Name: "4-4-1KiB", Run: cross(4, 4, 1024, false)},
		{Name: "subjects-100k", Run: load(func() pubsub { return distinct(100_000, 16, seed) })},
		{Name: "queue-8", Run: load(func() pubsub { return queueGroup(8, 16) })},
		{Name: "wildcards-10k", Run: load(func() pubsub { return wildcards(10_000, 16, seed) })},
		{Name: "request-1", Run: requestReply(1)},
		{Name: "request-64", Run: requestReply(64)},
		{Name: "idle-connections", Run: idleConnections},
		{Name: "subscriptions", Run: subscriptions},
		{Name: "storm", Run: storm},
		{Name: "js-async-128B", JetStream: true, Always: true, Run: asyncPublish(128)},
		{Name: "js-sync-1", JetStream: true, Always: true, Run: syncPublish(1, limitsStream("file"))},
		{Name: "js-sync-16", JetStream: true, Always: true, Run: syncPublish(16, limitsStream("file"))},
		{Name: "js-sync-1-memory", JetStream: true, Run: syncPublish(1, limitsStream("memory"))},
		{Name: "js-sync-1-persist-async", JetStream: true, Run: syncPublish(1, async)},
		{Name: "js-fetch-500", JetStream: true, Always: true, Run: fetch},
		{Name: "js-ordered", JetStream: true, Always: true, Run: orderedConsume},
		{Name: "js-rare", JetStream: true, Run: rareSubject},
		{Name: "js-consumers-10k", JetStream: true, Run: consumers10k(true)},
		{Name: "js-consumers-10k-all", JetStream: true, Run: consumers10k(false)},
		{Name: "js-subjects-1m", JetStream: true, Run: manySubjects},
		{Name: "kv-put", JetStream: true, Always: true, Run: kvPut("file")},
		{Name: "kv-put-memory", JetStream: true, Run: kvPut("memory")},
		{Name: "kv-get", JetStream: true, Always: true, Run: kvGet},
		{Name: "kv-watch", JetStream: true, Run: kvWatch},
		{Name: "bill", JetStream: true, Bill: true, Run: bill},
	}
}

// Target is what a row shall reach, in the terms of one metric.
type Target struct {
	Metric  Metric
	Versus  string  // the variant that it is a ratio to; "" for an absolute figure
	Bound   float64 // at most, or with AtLeast at least
	AtLeast bool
}

const (
	referenceName = "nats-server"
	alwaysName    = "nats-server (sync always)"
)

func atMost(m Metric, bound float64) Target {
	return Target{Metric: m, Versus: referenceName, Bound: bound}
}
func atLeast(m Metric, bound float64) Target { return Target{m, referenceName, bound, true} }
func absolute(m Metric, bound float64) Target {
	return Target{Metric: m, Bound: bound}
}
func versusAlways(m Metric, bound float64) Target { return Target{m, alwaysName, bound, true} }

// targets by row.
var targets = map[string][]Target{
	"publish-16B":             {atMost(CPU, 0.30)},
	"1-1-16B":                 {atMost(CPU, 0.30)},
	"1-1-128B":                {atMost(CPU, 0.40)},
	"1-1-1KiB":                {atMost(CPU, 0.75)},
	"1-4-16B":                 {atMost(CPU, 0.25)},
	"1-4-128B":                {atMost(CPU, 0.40)},
	"4-4-128B":                {atMost(CPU, 0.45)},
	"subjects-100k":           {atMost(CPU, 0.60)},
	"queue-8":                 {atMost(CPU, 0.40)},
	"wildcards-10k":           {atMost(CPU, 0.50)},
	"request-1":               {atMost(P50, 1), atMost(P99, 1)},
	"request-64":              {atMost(P50, 1), atMost(P99, 1)},
	"idle-connections":        {absolute(Bytes, 12<<10)},
	"subscriptions-memory":    {absolute(Bytes, 350)},
	"subscriptions-churn":     {atLeast(Rate, 2)},
	"storm":                   {absolute(Factor, 2)},
	"js-async-128B":           {atMost(CPU, 0.50), atLeast(Rate, 1.5), versusAlways(Rate, 25)},
	"js-sync-16":              {versusAlways(Rate, 4)},
	"js-sync-1-memory":        {atMost(P50, 1), atMost(P99, 1)},
	"js-sync-1-persist-async": {atMost(P50, 1), atMost(P99, 1)},
	"js-fetch-500":            {atMost(CPU, 0.50)},
	"js-ordered":              {atMost(CPU, 0.50)},
	"js-rare":                 {atMost(Seconds, 1)},
	"js-consumers-10k":        {atMost(CPU, 0.50)},
	"js-consumers-10k-all":    {atMost(CPU, 0.50)},
	"js-subjects-1m":          {atMost(Bytes, 0.50)},
	"kv-put-memory":           {atMost(P50, 1), atMost(P99, 1)},
	"kv-get":                  {atMost(P50, 1), atMost(P99, 1)},
	"kv-watch":                {atMost(Seconds, 0.67)},
}
