package fault

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []Rule
		err  string
	}{
		{"", nil, ""},
		{"  # only a comment\n\n", nil, ""},
		{"create wal/* lost p=0.1 # one in ten", []Rule{{Operation: Create, Key: "wal/*", Kind: Lost, Probability: 0.1}}, ""},
		{"* * slow after=50ms\nput x own-retry skip=1 times=2", []Rule{
			{Operation: Any, Key: "*", Kind: Slow, After: 50 * time.Millisecond},
			{Operation: Put, Key: "x", Kind: OwnRetry, Skip: 1, Times: 2},
		}, ""},
		{"put x", nil, "line 1: want: operation key fault"},
		{"\nfetch x lost", nil, `line 2: no such operation: "fetch"`},
		{"put x gone", nil, `no such fault: "gone"`},
		{"get x lost", nil, "lost cannot befall get"},
		{"put x torn", nil, "torn cannot befall put"},
		{"put x slow", nil, "slow needs after="},
		{"put x lost after=1s", nil, "after= has no meaning for lost"},
		{"put x lost p=2", nil, "probability is 2"},
		{"put x lost p=NaN", nil, "probability is NaN"},
		{"put x lost p=0", nil, "want more than 0"},
		{"put x lost skip=-1", nil, "want 0 or more"},
		{"put x lost often", nil, "want name=value"},
		{"put x lost q=1", nil, "want p, skip, times or after"},
		{"put x lost times=many", nil, "invalid syntax"},
		{"put a lost p=2\nput b lost p=3", nil, "probability is 3"},
	} {
		got, err := Parse(tt.text)
		if tt.err == "" && (err != nil || !slices.Equal(got, tt.want)) {
			t.Errorf("Parse(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
		}
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("Parse(%q): %v, want an error with %q", tt.text, err, tt.err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("create wal/* lost p=0.1\n* * slow after=50ms # x")
	f.Add("put x own-retry skip=1 times=2")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := Parse(text)
		if err != nil {
			return
		}
		var lines []string
		for _, rule := range rules {
			lines = append(lines, rule.String())
		}
		again, err := Parse(strings.Join(lines, "\n"))
		if err != nil || !slices.Equal(again, rules) {
			t.Fatalf("%q became %v, then %v, %v", text, rules, again, err)
		}
	})
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, key string
		want         bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "a/b", true},
		{"a/*", "a/b/c", true}, {"a/*", "a/", true}, {"a/*", "a", false},
		{"*/manifest", "streams/a/b/manifest", true}, {"*/manifest", "streams/manifest/x", false},
		{"a*b*c", "a-b-b-c", true}, {"a*b*c", "abc", true}, {"a*b*c", "ac", false}, {"ab*ba", "aba", false}, {"a**c", "abc", true},
	} {
		if got := match(tt.pattern, tt.key); got != tt.want {
			t.Errorf("match(%q, %q) = %v, want %v", tt.pattern, tt.key, got, tt.want)
		}
	}
}
