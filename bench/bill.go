package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The bill: what a load costs where every request to the store has its price.
const (
	Messages Metric = "messages" // that the store was asked for; 0: none were published
	Writes   Metric = "writes"   // requests by kind, as S3 prices them
	Reads    Metric = "reads"
	Lists    Metric = "lists"
	Deletes  Metric = "deletes"
	Cost     Metric = "cost" // of the requests, dollars
	Length   Metric = "length"
)

// billConf makes Sluice write at the default commit budget of an S3 store, and count by the default prices. The burst is
// the smallest: what an idle budget has gathered would make a short run look dearer than a long one is.
func billConf(storeURL, monitor string) string {
	return fmt.Sprintf("http: %q\njetstream {}\nstore { url: %q, commit_rate: 10, commit_burst: 1, prices {} }\n", monitor, storeURL)
}

// bill takes the requests and their cost of publishing as fast as one client can with many messages under way, of a
// paced publisher, and of doing nothing.
func bill(ctx context.Context, env *Env) ([]Result, error) {
	api, err := createStream(ctx, env, limitsStream("file"))
	if err != nil {
		return nil, err
	}
	defer api.Close()
	p, err := startAsyncPublisher(ctx, env, 128)
	if err != nil {
		return nil, err
	}
	defer p.close()
	long := max(env.Duration, 2*time.Second)
	if env.Quick {
		long = env.Duration
	}
	var results []Result
	for _, load := range []struct {
		row  string
		play func() error
	}{
		{"as fast as possible", func() error { return p.run(ctx, long) }},
		{"1,000 messages a second", func() error { return p.paced(ctx, long) }},
		{"nothing", func() error { return sleep(ctx, long) }},
	} {
		before, err := scrapeBill(ctx, env.Monitor)
		if err != nil {
			return nil, err
		}
		published, began := p.flow.published.Load(), time.Now()
		if err := load.play(); err != nil {
			return nil, fmt.Errorf("%s: %w", load.row, err)
		}
		took := time.Since(began)
		after, err := scrapeBill(ctx, env.Monitor)
		if err != nil {
			return nil, err
		}
		for m := range after {
			after[m] -= before[m]
		}
		after[Messages], after[Length] = float64(p.flow.published.Load()-published), took.Seconds()
		results = append(results, Result{load.row, after})
	}
	n, err := p.check()
	if err != nil {
		return nil, err
	}
	return results, checkStream(api, "BENCH", n)
}

// paced publishes a chunk every tenth of a second for d.
func (p *asyncPublisher) paced(ctx context.Context, d time.Duration) error {
	tick := time.NewTicker(time.Second * publishChunk / 1000)
	defer tick.Stop()
	for until := time.Now().Add(d); time.Now().Before(until); {
		chunk, k := p.feed.next()
		if err := p.write(ctx, chunk, k); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return p.flow.drain(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kinds are the operations of sluice_store_requests_total as S3's price list groups them.
var kinds = map[string]Metric{
	"create": Writes, "replace": Writes, "put": Writes, "get": Reads, "get_range": Reads, "list": Lists, "delete": Deletes,
}

// scrapeBill reads from /metrics what was asked of the store so far.
func scrapeBill(ctx context.Context, monitor string) (Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+monitor+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := Sample{Writes: 0, Reads: 0, Lists: 0, Deletes: 0, Cost: 0}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if err := out.addLine(lines.Text()); err != nil {
			return nil, err
		}
	}
	return out, lines.Err()
}

// addLine takes in a line of /metrics if it is about requests to the store.
func (s Sample) addLine(line string) error {
	name, rest, _ := strings.Cut(line, `{operation="`)
	if name != "sluice_store_requests_total" && name != "sluice_store_cost_dollars_total" {
		return nil
	}
	operation, _, _ := strings.Cut(rest, `"`)
	value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
	kind, known := kinds[operation]
	if err != nil || !known {
		return fmt.Errorf("unexpected metric %q", clipLine(line))
	}
	if name == "sluice_store_cost_dollars_total" {
		kind = Cost
	}
	s[kind] += value
	return nil
}

func clipLine(s string) string { return s[:min(len(s), 200)] }

// freeAddress is an address of 127.0.0.1 with a port that was free a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// billTable prints what the loads cost, or nothing if no bill was taken.
func (t *table) billTable() string {
	var b strings.Builder
	for _, row := range t.rows {
		s := t.median(row, "sluice")
		if _, ok := s[Cost]; !ok {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\n| the bill, S3 prices | messages | writes | reads | lists | deletes | $ per million messages | $ per month like this |\n|---|---|---|---|---|---|---|---|\n")
		}
		perMillion := "–"
		if s[Messages] > 0 {
			perMillion = fmt.Sprintf("%.4f", s[Cost]/s[Messages]*1e6)
		}
		const month = 30 * 24 * 3600
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f | %.0f | %s | %.2f |\n", row, s[Messages], s[Writes], s[Reads], s[Lists], s[Deletes],
			perMillion, s[Cost]/s[Length]*month)
	}
	return b.String()
}
