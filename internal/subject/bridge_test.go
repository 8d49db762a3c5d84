package subject

import "testing"

func TestBridge(t *testing.T) {
	tests := []struct {
		far, near       string
		asNear          string
		subject, called string // a far subject and its near name
	}{
		{"a.b", "a.b", "a.b", "a.b", "a.b"},
		{"a.b", "c", "c", "a.b", "c"},
		{"a.*", "a.*", "a.*", "a.x", "a.x"},
		{"a.*.*", "b.$2.$1", "b.*.*", "a.x.y", "b.y.x"},
		{"a.*.*", "b.{{wildcard(2)}}.c.{{wildcard(1)}}", "b.*.c.*", "a.x.y", "b.y.c.x"},
		{"a.*.>", "p.a.*.>", "p.a.*.>", "a.x.y.z", "p.a.x.y.z"},
		{">", "p.>", "p.>", "a.b", "p.a.b"},
		{"p.>", ">", ">", "p.a.b", "a.b"},
		{"$JS.API.>", "dlc.>", "dlc.>", "$JS.API.INFO", "dlc.INFO"},
	}
	for _, test := range tests {
		b, err := NewBridge(test.far, test.near)
		if err != nil {
			t.Errorf("%s to %s: %v", test.far, test.near, err)
			continue
		}
		if b.Far() != test.far || b.Near() != test.asNear {
			t.Errorf("%s to %s became %s to %s", test.far, test.near, b.Far(), b.Near())
		}
		if got := string(b.AppendNear(nil, []byte(test.subject))); got != test.called {
			t.Errorf("%s to %s: %s is called %s, want %s", test.far, test.near, test.subject, got, test.called)
		}
		if got := string(b.AppendFar(nil, []byte(test.called))); got != test.subject {
			t.Errorf("%s to %s: %s is %s there, want %s", test.far, test.near, test.called, got, test.subject)
		}
	}
}

func TestBridgeRefuses(t *testing.T) {
	for _, test := range [][2]string{
		{"a..b", "c"}, {"a", "b..c"}, {"", "a"}, {"a.*", "b"}, {"a.*", "b.*.*"}, {"a.*.*", "b.$1.$1"}, {"a.*.*", "b.$1"},
		{"a.>", "b.*"}, {"a.*", "b.>"}, {"a.*", "b.{{partition(3,1)}}"}, {"a.*", "b.$2"}, {"a.*", "b.$0"}, {"a b", "c"},
	} {
		if b, err := NewBridge(test[0], test[1]); err == nil {
			t.Errorf("%s to %s became %s to %s", test[0], test[1], b.Far(), b.Near())
		}
	}
}

func TestBridgeFarPart(t *testing.T) {
	tests := []struct{ far, near, pattern, part string }{
		{"a.*", "b.*", "b.x", "a.x"},
		{"a.*", "b.*", "b.*", "a.*"},
		{"a.*", "b.*", ">", "a.*"},
		{"a.*", "b.*", "*.x", "a.x"},
		{"a.*", "b.*", "b.x.y", ""},
		{"a.*", "b.*", "c.x", ""},
		{"a.>", "p.>", "p.x.*", "a.x.*"},
		{"a.>", "p.>", "p.*.>", "a.*.>"},
		{"a.>", "p.>", "*.x", "a.x"},
		{"a.>", "p.>", "p", ""},
		{"a.*.*", "b.$2.$1", "b.x.*", "a.*.x"},
		{"a.*.*", "b.$2.$1", "b.>", "a.*.*"},
		{"a", "b", ">", "a"},
		{"a", "b", "a", ""},
		{">", "p.>", "p.a.b", "a.b"},
	}
	for _, test := range tests {
		b, err := NewBridge(test.far, test.near)
		if err != nil {
			t.Fatal(err)
		}
		if part, ok := b.FarPart(test.pattern); part != test.part || ok != (test.part != "") {
			t.Errorf("%s to %s: %s sees %q, want %q", test.far, test.near, test.pattern, part, test.part)
		}
	}
}

func FuzzBridge(f *testing.F) {
	for _, s := range [][3]string{{"a.*.>", "p.$1.>", "a.x.y.z"}, {"a.*.*", "b.$2.$1", "a.x.y"}, {">", "p.>", "a"}, {"a", "b", "a"}, {"*", "*", "x"}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, far, near, subj string) {
		b, err := NewBridge(far, near)
		if err != nil || !ValidPublish(subj) || !Match(subj, far) || HasWildcard(near) && !HasWildcard(far) {
			return
		}
		called := b.AppendNear(nil, []byte(subj))
		if !Match(called, b.Near()) {
			t.Errorf("%s to %s: %s became %s", far, near, subj, called)
		}
		if back := string(b.AppendFar(nil, called)); back != subj {
			t.Errorf("%s to %s: %s became %s and then %s", far, near, subj, called, back)
		}
		for _, pattern := range []string{string(called), b.Near(), ">"} {
			if part, ok := b.FarPart(pattern); !ok || !Match(subj, part) || !IsSubset(part, far) {
				t.Errorf("%s to %s: %s sees %q, which does not reach %s", far, near, pattern, part, subj)
			}
		}
	})
}
