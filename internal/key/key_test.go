package key

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
)

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		key, want string
		parsed    Parsed
	}{
		{ClusterKey, "cluster", Parsed{Family: Cluster}},
		{HeadKey("n-1.example"), "heads/n-1.example", Parsed{Family: Head, Node: "n-1.example"}},
		{LogKey(WAL, "n1", 3, 0xabcdef), "wal/n1/0000000000000003/0000000000abcdef", Parsed{Family: WAL, Node: "n1", Epoch: 3, Offset: 0xabcdef}},
		{LogKey(Broadcast, "a b", 1<<63, 1<<64-1), "broadcast/a=20b/8000000000000000/ffffffffffffffff",
			Parsed{Family: Broadcast, Node: "a=20b", Epoch: 1 << 63, Offset: 1<<64 - 1}},
		{ManifestKey("$G", "ORDERS", 0xab), "streams/$G/ORDERS/00000000000000ab/manifest", Parsed{Family: Manifest, Account: "$G", Stream: "ORDERS", ID: 0xab}},
		{ManifestKey("", "ü", 1), "streams/=-/=c3=bc/0000000000000001/manifest", Parsed{Family: Manifest, Account: "=-", Stream: "=c3=bc", ID: 1}},
		{SegmentKey("$G", "ORDERS", 0xab, 17, 1<<63), "streams/$G/ORDERS/00000000000000ab/segments/0000000000000011-8000000000000000.parquet",
			Parsed{Family: StreamSegment, Account: "$G", Stream: "ORDERS", ID: 0xab, First: 17, Unique: 1 << 63}},
		{Probe.Prefix() + "X", "probe/X", Parsed{Family: Probe, Rest: "X"}},
		{QuarantineKey(HeadKey("n")), "quarantine/heads/n", Parsed{Family: Quarantine, Rest: "heads/n"}},
	} {
		if c.key != c.want {
			t.Errorf("built %q, want %q", c.key, c.want)
		}
		if err := store.CheckKey(c.key); err != nil {
			t.Errorf("a store refuses it: %v", err)
		}
		got, err := Parse(c.key)
		if err != nil || got != c.parsed {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", c.key, got, err, c.parsed)
		}
	}
	if k := LogKey(WAL, "n", 7, 9); !strings.HasPrefix(k, LogPrefix(WAL, "n", 7)) || !strings.HasPrefix(k, LogNodePrefix(WAL, "n")) {
		t.Errorf("%q lacks its log's prefix", k)
	}
}

func TestParseForeign(t *testing.T) {
	for _, k := range []string{"", "x", "cluster/x", "heads", "heads/", "heads/a/b", "heads/.a", "heads/a=2", "heads/a=2G", "heads/a=41",
		"wal/n/3/4", "wal/n/0000000000000003", "wal/n/0000000000000003/000000000000000A", "wal//0000000000000003/0000000000000001",
		"wal/n/0000000000000003/0000000000000001/x", "wal/n/+000000000000003/0000000000000001", "streams/a/b", "streams/a/b/other",
		"streams/a/b/manifest/c", "streams/a/b/manifest", "streams/a/b/00000000000000ab/manifest/c", "streams/a/b/ab/manifest",
		"streams/a/b/00000000000000ab/segments/1-2.parquet", "streams/a/b/00000000000000ab/segments/0000000000000011-8000000000000000",
		"streams/a/b/00000000000000ab/0000000000000011-8000000000000000.parquet", "probe/", "quarantine/", "quarantine/x", "quarantine/quarantine/cluster", "heads/" + strings.Repeat("a", 201), "heads/abc=-" + strings.Repeat("0", 40)} {
		if got, err := Parse(k); !errors.Is(err, ErrForeign) {
			t.Errorf("Parse(%q) = %+v, %v, want ErrForeign", k, got, err)
		}
	}
}

func TestNumbersSort(t *testing.T) {
	var keys []string
	for _, n := range []uint64{0, 1, 9, 10, 15, 16, 255, 256, 1 << 32, 1 << 63, 1<<64 - 1} {
		keys = append(keys, LogKey(WAL, "n", 1, n))
	}
	if !slices.IsSorted(keys) {
		t.Errorf("keys do not sort as their numbers: %q", keys)
	}
}

func TestSegmentsAreInjective(t *testing.T) {
	long := strings.Repeat("x", 300)
	names := []string{"", "a", "A", ".", "..", ".a", "a.", "a..b", "=", "=-", "=2e", "=3d", "a/b", "a=2fb", "$G", "a b", "\x00", "\xff",
		"ü", long, long + "y", long[:200], long[:201], long[:158], strings.Repeat("/", 66), strings.Repeat("/", 67),
		strings.Repeat("/", 68), "a" + strings.Repeat("/", 67), "ab" + strings.Repeat("/", 67), Segment(long)}
	seen := map[string]string{}
	for _, name := range names {
		s := Segment(name)
		if other, ok := seen[s]; ok {
			t.Errorf("%q and %q share the segment %q", name, other, s)
		}
		seen[s] = name
		if len(s) > MaxSegmentBytes || MaxSegmentBytes > store.MaxSegmentBytes {
			t.Errorf("segment of %q has %d bytes", name, len(s))
		}
		if err := store.CheckKey("streams/" + s + "/x"); err != nil {
			t.Errorf("a store refuses the segment of %q: %v", name, err)
		}
		if !validSegment(s) {
			t.Errorf("segment %q of %q is not taken for one", s, name)
		}
	}
}

func FuzzSegment(f *testing.F) {
	f.Add("orders", "ORDERS")
	f.Add("=2e", ".")
	f.Add(strings.Repeat("/", 90), strings.Repeat("/", 91))
	f.Fuzz(func(t *testing.T, a, b string) {
		sa, sb := Segment(a), Segment(b)
		if (sa == sb) != (a == b) {
			t.Fatalf("%q and %q have the segments %q and %q", a, b, sa, sb)
		}
		for name, s := range map[string]string{a: sa, b: sb} {
			if err := store.CheckKey(s); err != nil || !validSegment(s) {
				t.Fatalf("segment %q of %q: %v", s, name, err)
			}
			if got, ok := Name(s); ok != (got == name) && ok {
				t.Fatalf("Name(%q) = %q, want %q", s, got, name)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("wal/n/0000000000000003/0000000000000001")
	f.Add("streams/a/b/manifest")
	f.Fuzz(func(t *testing.T, k string) {
		p, err := Parse(k)
		if err != nil {
			return
		}
		var again string
		switch p.Family {
		case Cluster:
			again = ClusterKey
		case Probe:
			again = Probe.Prefix() + p.Rest
		case Quarantine:
			again = QuarantineKey(p.Rest)
		case Head:
			if name, ok := Name(p.Node); ok {
				again = HeadKey(name)
			}
		case WAL, Broadcast:
			if name, ok := Name(p.Node); ok {
				again = LogKey(p.Family, name, p.Epoch, p.Offset)
			}
		case Manifest:
			account, ok1 := Name(p.Account)
			stream, ok2 := Name(p.Stream)
			if ok1 && ok2 {
				again = ManifestKey(account, stream, p.ID)
			}
		case StreamSegment:
			account, ok1 := Name(p.Account)
			stream, ok2 := Name(p.Stream)
			if ok1 && ok2 {
				again = SegmentKey(account, stream, p.ID, p.First, p.Unique)
			}
		}
		if again != "" && again != k {
			t.Fatalf("%q parsed as %+v builds %q", k, p, again)
		}
	})
}
