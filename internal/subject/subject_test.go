package subject

import (
	"strings"
	"testing"
)

// The naive rules: plain splitting, as one would explain them.

func naiveTokens(s string) []string { return strings.Split(s, ".") }

func naiveValidPattern(s string) bool {
	tokens := naiveTokens(s)
	for i, token := range tokens {
		if token == "" || token == ">" && i < len(tokens)-1 {
			return false
		}
	}
	return true
}

func naiveWild(s string) bool {
	for _, token := range naiveTokens(s) {
		if token == "*" || token == ">" {
			return true
		}
	}
	return false
}

func naiveFilled(s string) bool {
	for _, token := range naiveTokens(s) {
		if token == "" {
			return false
		}
	}
	return true
}

func naiveMatch(subject, pattern []string) bool {
	if len(pattern) == 0 || len(subject) == 0 {
		return len(pattern) == len(subject)
	}
	if pattern[0] == ">" {
		return true
	}
	return (pattern[0] == "*" || pattern[0] == subject[0]) && naiveMatch(subject[1:], pattern[1:])
}

func naiveSubset(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	if b[0] == ">" {
		return true
	}
	return a[0] != ">" && (b[0] == "*" || a[0] == b[0]) && naiveSubset(a[1:], b[1:])
}

func naiveOverlap(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	if a[0] == ">" || b[0] == ">" {
		return true
	}
	return (a[0] == "*" || b[0] == "*" || a[0] == b[0]) && naiveOverlap(a[1:], b[1:])
}

func TestValidation(t *testing.T) {
	for _, c := range []struct {
		s                                string
		valid, literal, publish, pattern bool
	}{
		{"foo", true, true, true, true},
		{"foo.bar.baz", true, true, true, true},
		{"$JS.API.INFO", true, true, true, true},
		{"", false, false, false, false},
		{".", false, false, false, false},
		{".foo", false, false, false, false},
		{"foo.", false, false, false, false},
		{"foo..bar", false, false, false, false},
		{"*", true, false, false, true},
		{">", true, false, false, true},
		{"foo.*", true, false, false, true},
		{"foo.>", true, false, false, true},
		{"*.foo.>", true, false, false, true},
		{"foo.>.bar", false, false, false, false},
		{">.", false, false, false, false},
		{">.>", false, false, false, false},
		{"foo*", true, true, true, true},
		{"foo.*bar", true, true, true, true},
		{"foo.>>", true, true, true, true},
		{"foo.b>.x", true, true, true, true},
		{"foo.**.>x", true, true, true, true},
		{"foo bar", false, true, false, true},
		{"foo. ", false, true, false, true},
		{"foo.\tb", false, true, false, true},
		{"foo\r\n", false, true, false, true},
		{"foo.\fb", false, true, false, true},
		{"foo.\vb\x00", true, true, true, true},
		{"föö.☃", true, true, true, true},
	} {
		for name, got := range map[string][2]bool{
			"Valid":        {Valid(c.s), c.valid},
			"ValidLiteral": {ValidLiteral(c.s), c.literal},
			"ValidPublish": {ValidPublish([]byte(c.s)), c.publish},
			"ValidPattern": {ValidPattern([]byte(c.s)), c.pattern},
		} {
			if got[0] != got[1] {
				t.Errorf("%s(%q) = %v, want %v", name, c.s, got[0], got[1])
			}
		}
	}
}

func TestRelations(t *testing.T) {
	for _, c := range []struct {
		a, b                   string
		match, subset, overlap bool
	}{
		{"foo", "foo", true, true, true},
		{"foo", "bar", false, false, false},
		{"foo", "foo.bar", false, false, false},
		{"foo.bar", "foo", false, false, false},
		{"foo.bar", "foo.*", true, true, true},
		{"foo.bar", "*.*", true, true, true},
		{"foo", "*.*", false, false, false},
		{"foo.bar", "foo.>", true, true, true},
		{"foo.bar.baz", "foo.>", true, true, true},
		{"foo", "foo.>", false, false, false},
		{"foo.bar", ">", true, true, true},
		{"foo.*", "foo.*", true, true, true},
		{"foo.*", "foo.bar", false, false, true},
		{"foo.*", "*.bar", false, false, true},
		{"foo.>", "foo.*", true, false, true}, // as a subject, ">" is one ordinary token
		{"foo.>", "foo.*.bar", false, false, true},
		{"foo.>", "bar.>", false, false, false},
		{"foo.*.bar", "foo.>", true, true, true},
		{"*.*", "foo.>", false, false, true},
		{"*", "foo.>", false, false, false},
		{">", ">", true, true, true},
		{"foo..bar", "foo.>", false, false, false},
		{"foo.", "foo.*", false, false, false},
	} {
		if got := Match(c.a, []byte(c.b)); got != c.match {
			t.Errorf("Match(%q, %q) = %v", c.a, c.b, got)
		}
		if got := IsSubset([]byte(c.a), c.b); got != c.subset {
			t.Errorf("IsSubset(%q, %q) = %v", c.a, c.b, got)
		}
		if got := Overlap(c.a, c.b); got != c.overlap {
			t.Errorf("Overlap(%q, %q) = %v", c.a, c.b, got)
		}
		if got := Overlap(c.b, c.a); got != c.overlap {
			t.Errorf("Overlap(%q, %q) = %v", c.b, c.a, got)
		}
	}
}

func TestTokens(t *testing.T) {
	for _, s := range []string{"", "a", "a.b", ".", "a..b", "foo.bar.baz."} {
		var got []string
		for i, token := range Tokens([]byte(s)) {
			if i != len(got) {
				t.Fatalf("token %d of %q has position %d", len(got), s, i)
			}
			got = append(got, string(token))
		}
		want := naiveTokens(s)
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("tokens of %q: %q, want %q", s, got, want)
		}
		for i := range want {
			if Token(s, i) != want[i] {
				t.Errorf("Token(%q, %d) = %q", s, i, Token(s, i))
			}
		}
		if s != "" && NumTokens(s) != len(want) {
			t.Errorf("NumTokens(%q) = %d", s, NumTokens(s))
		}
	}
	if NumTokens("") != 0 || Token("a.b", 2) != "" || Token("a", -1) != "" {
		t.Error("tokens that are not there")
	}
}

func TestNoAllocation(t *testing.T) {
	subject, pattern := []byte("orders.eu.12345.shipped"), "orders.*.12345.>"
	n := 0
	if got := testing.AllocsPerRun(100, func() {
		for _, token := range Tokens(subject) {
			n += len(token)
		}
		if !Valid(subject) || !ValidPublish(subject) || !Match(subject, pattern) || !Overlap(pattern, subject) || IsSubset(pattern, subject) {
			t.Fatal("wrong answer")
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func FuzzRelations(f *testing.F) {
	for _, s := range []string{"foo", "foo.bar", "foo.*", "foo.>", "*.bar", ">", "", "foo..bar", ".", "a.>.b", "a b", "foo.*x.>>"} {
		f.Add(s, "foo.*.bar")
		f.Add("foo.bar.baz", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		at, bt := naiveTokens(a), naiveTokens(b)
		if got, want := ValidPattern(a), naiveValidPattern(a); got != want {
			t.Fatalf("ValidPattern(%q) = %v", a, got)
		}
		if got, want := Valid(a), naiveValidPattern(a) && !strings.ContainsAny(a, " \t\r\n\f"); got != want {
			t.Fatalf("Valid(%q) = %v", a, got)
		}
		if got, want := HasWildcard(a), naiveWild(a); got != want {
			t.Fatalf("HasWildcard(%q) = %v", a, got)
		}
		if got, want := ValidLiteral(a), naiveFilled(a) && !naiveWild(a); got != want {
			t.Fatalf("ValidLiteral(%q) = %v", a, got)
		}
		match, subset, overlap := Match(a, b), IsSubset(a, b), Overlap(a, b)
		if !naiveValidPattern(b) {
			return
		}
		if want := naiveFilled(a) && naiveMatch(at, bt); match != want {
			t.Fatalf("Match(%q, %q) = %v", a, b, match)
		}
		if !naiveValidPattern(a) {
			return
		}
		if want := naiveSubset(at, bt); subset != want {
			t.Fatalf("IsSubset(%q, %q) = %v", a, b, subset)
		}
		if want := naiveOverlap(at, bt); overlap != want {
			t.Fatalf("Overlap(%q, %q) = %v", a, b, overlap)
		}
	})
}
