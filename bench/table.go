package main

import (
	"fmt"
	"slices"
	"strings"
)

// table gathers samples by row and variant, and prints their medians.
type table struct {
	variants []variant
	rows     []string
	samples  map[string]map[string][]Sample // by row, then variant
}

func newTable(variants []variant) *table {
	return &table{variants: variants, samples: map[string]map[string][]Sample{}}
}

func (t *table) add(r Result, variant string) {
	if t.samples[r.Row] == nil {
		t.rows = append(t.rows, r.Row)
		t.samples[r.Row] = map[string][]Sample{}
	}
	t.samples[r.Row][variant] = append(t.samples[r.Row][variant], r.Sample)
}

// median is the median of every metric on its own; nil if there is no sample.
func (t *table) median(row, variant string) Sample {
	samples := t.samples[row][variant]
	if len(samples) == 0 {
		return nil
	}
	out := Sample{}
	for m := range samples[0] {
		var all []float64
		for _, s := range samples {
			all = append(all, s[m])
		}
		slices.Sort(all)
		out[m] = all[len(all)/2]
		if len(all)%2 == 0 {
			out[m] = (all[len(all)/2-1] + all[len(all)/2]) / 2
		}
	}
	return out
}

// markdown is the comparison and, below it, the raw figures.
func (t *table) markdown() string {
	var b strings.Builder
	b.WriteString("| case | sluice | nats-server | ratio | CPU ratio | target |\n|---|---|---|---|---|---|\n")
	for _, row := range t.rows {
		ours := t.median(row, "sluice")
		if _, ok := ours[Cost]; ok {
			continue // it has a table of its own
		}
		for _, reference := range []string{referenceName, alwaysName} {
			theirs := t.median(row, reference)
			if theirs == nil && (reference == alwaysName || ours == nil) {
				continue
			}
			name := row
			if reference == alwaysName {
				name += ", sync always"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, headline(ours), headline(theirs), mainRatio(ours, theirs), ratio(ours, theirs, CPU), t.verdicts(row, reference))
		}
	}
	b.WriteString("\nRatios are sluice / nats-server. CPU is the server's processor time per operation: a published message,\na request, a SUB with its UNSUB, a message that was fetched and acknowledged.\n")
	b.WriteString("\n| case | server | rounds | operations/s | server CPU µs | generator CPU µs | p50 µs | p99 µs | other |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range t.rows {
		for _, v := range t.variants {
			s := t.median(row, v.name)
			if s == nil {
				continue
			}
			if _, ok := s[Cost]; ok {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %s | %s | %s |\n", row, v.name, len(t.samples[row][v.name]),
				figure(s, Rate, "%.0f"), figure(s, CPU, "%.3f"), figure(s, LoadCPU, "%.3f"), figure(s, P50, "%.1f"), figure(s, P99, "%.1f"), others(s))
		}
	}
	b.WriteString(t.billTable())
	return b.String()
}

func figure(s Sample, m Metric, format string) string {
	v, ok := s[m]
	if !ok {
		return ""
	}
	return fmt.Sprintf(format, v)
}

func others(s Sample) string {
	var out []string
	if v, ok := s[Bytes]; ok {
		out = append(out, fmt.Sprintf("%.0f B each", v))
	}
	if v, ok := s[Seconds]; ok {
		out = append(out, fmt.Sprintf("%.3f s", v))
	}
	if v, ok := s[Factor]; ok {
		out = append(out, fmt.Sprintf("p99 %.2f times the undisturbed", v))
	}
	if v, ok := s[Control]; ok {
		out = append(out, fmt.Sprintf("control %.2f times", v))
	}
	return strings.Join(out, ", ")
}

// headline is what a row is mainly about.
func headline(s Sample) string {
	if s == nil {
		return "–"
	}
	var out []string
	if v, ok := s[Rate]; ok {
		out = append(out, thousands(v)+"/s")
	}
	if _, ok := s[P50]; ok {
		out = append(out, fmt.Sprintf("p50 %.0f µs, p99 %.0f µs", s[P50], s[P99]))
	}
	if o := others(s); o != "" {
		out = append(out, o)
	}
	return strings.Join(out, ", ")
}

// thousands writes 1234567 as 1,235k.
func thousands(v float64) string {
	if v < 10_000 {
		return fmt.Sprintf("%.0f", v)
	}
	s := fmt.Sprintf("%.0f", v/1000)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s + "k"
}

// mainRatio is the ratio of throughput, or of memory where that is what the row measures, or of latency.
func mainRatio(ours, theirs Sample) string {
	for _, m := range []Metric{Rate, Bytes, P99} {
		if r := ratio(ours, theirs, m); r != "" {
			if m != Rate {
				r += " (" + string(m) + ")"
			}
			return r
		}
	}
	return ""
}

func ratio(ours, theirs Sample, m Metric) string {
	a, ok := ours[m]
	b, ok2 := theirs[m]
	if !ok || !ok2 || b == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", a/b)
}

// verdicts says, for the targets of the row that speak of the reference, whether they are met.
func (t *table) verdicts(row, reference string) string {
	var out []string
	for _, target := range targets[row] {
		if target.Versus == reference || target.Versus == "" && reference == referenceName {
			out = append(out, target.verdict(t.median(row, "sluice"), t.median(row, reference)))
		}
	}
	return strings.Join(out, "; ")
}

func (g Target) verdict(ours, theirs Sample) string {
	sign, unit, bound := "≤", "", fmt.Sprintf("%.2f", g.Bound)
	if g.AtLeast {
		sign = "≥"
	}
	if g.Versus == "" && g.Metric == Bytes {
		unit, bound = " B", fmt.Sprintf("%.0f", g.Bound)
	}
	text := fmt.Sprintf("%s %s %s%s", g.Metric, sign, bound, unit)
	got, ok := ours[g.Metric]
	if !ok {
		return text
	}
	if g.Versus != "" {
		base, ok := theirs[g.Metric]
		if !ok || base == 0 {
			return text
		}
		got /= base
	}
	met := got <= g.Bound
	if g.AtLeast {
		met = got >= g.Bound
	}
	if met {
		return fmt.Sprintf("%s: met (%.2f)", text, got)
	}
	return fmt.Sprintf("%s: **missed** (%.2f)", text, got)
}
