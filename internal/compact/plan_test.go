package compact

import (
	"math/rand/v2"
	"testing"
)

const kib, mib = 1 << 10, 1 << 20

func of(size int64, n int) (all []Segment) {
	for range n {
		all = append(all, Segment{Size: size, Messages: 100, Live: 100})
	}
	return all
}

func TestNext(t *testing.T) {
	opts := Options{}
	opts.SetDefaults()
	sparse := Segment{Size: 100 * mib, Messages: 100, Live: 40}
	overdue := Segment{Size: 100 * mib, Messages: 100, Live: 99, Overdue: true}
	for name, c := range map[string]struct {
		segments []Segment
		want     Run
		ok       bool
	}{
		"nothing":                      {nil, Run{}, false},
		"seven small":                  {of(kib, 7), Run{}, false},
		"eight small":                  {of(kib, 8), Run{0, 8}, true},
		"eight small behind a large":   {append(of(128*mib, 1), of(kib, 8)...), Run{1, 9}, true},
		"many messages":                {[]Segment{{Size: kib, Messages: 3 << 20, Live: 3 << 20}, {Size: kib, Messages: 3 << 20, Live: 3 << 20}, {Size: kib, Messages: 3 << 20, Live: 3 << 20}}, Run{0, 2}, true},
		"most messages":                {[]Segment{{Size: kib, Messages: 5 << 20, Live: 5 << 20}, {Size: kib, Messages: 5 << 20, Live: 5 << 20}}, Run{}, false},
		"tiers first":                  {append(of(300*kib, 8), of(kib, 8)...), Run{8, 16}, true},
		"large ones stay":              {of(127*mib, 20), Run{}, false},
		"few that fill a segment":      {of(60*mib, 5), Run{0, 2}, true},
		"sparse":                       {append(of(128*mib, 2), sparse), Run{2, 3}, true},
		"sparse with small ones":       {append(append(of(mib, 3), sparse), of(kib, 2)...), Run{0, 6}, true},
		"overdue":                      {append(of(128*mib, 1), overdue), Run{1, 2}, true},
		"overdue with nothing deleted": {[]Segment{{Size: mib, Messages: 9, Live: 9, Overdue: true}}, Run{}, false},
	} {
		run, ok := opts.Next(c.segments)
		if ok != c.ok || ok && run != c.want {
			t.Errorf("%s: %v, %v, want %v, %v", name, run, ok, c.want, c.ok)
		}
	}
}

// A stream that grows by small segments has few in the end, each byte is rewritten a bounded number of times, and
// planning comes to an end.
func TestMergingConverges(t *testing.T) {
	opts := Options{TargetBytes: 16 * mib, Fanout: 8}
	opts.SetDefaults()
	rnd := rand.New(rand.NewPCG(1, 2))
	var segments []Segment
	var written, rewritten int64
	for range 5000 {
		size := 20*kib + rnd.Int64N(200*kib)
		written += size
		segments = append(segments, Segment{Size: size, Messages: 1000, Live: 1000})
		for steps := 0; ; steps++ {
			run, ok := opts.Next(segments)
			if !ok {
				break
			}
			if steps > 100 || run.To-run.From < 2 {
				t.Fatalf("step %d rewrites %v of %d", steps, run, len(segments))
			}
			var one Segment
			for _, s := range segments[run.From:run.To] {
				one.Size, one.Messages, one.Live = one.Size+s.Size, one.Messages+s.Messages, one.Live+s.Live
			}
			if one.Size > opts.TargetBytes {
				t.Fatalf("a segment of %d bytes", one.Size)
			}
			rewritten += one.Size
			segments = append(append(segments[:run.From:run.From], one), segments[run.To:]...)
		}
	}
	if least := int(written / opts.TargetBytes); len(segments) > 3*least+4*opts.Fanout {
		t.Errorf("%d segments for %d bytes", len(segments), written)
	}
	if rewritten > 6*written { // the tiers between 20 KiB and 16 MiB, and the last merge
		t.Errorf("%d bytes rewritten for %d", rewritten, written)
	}
}
