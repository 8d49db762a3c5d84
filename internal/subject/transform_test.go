package subject

import (
	"errors"
	"strings"
	"testing"
)

func TestTransform(t *testing.T) {
	for _, c := range []struct{ source, destination, subject, want string }{
		{"foo.*", "bar.$1", "foo.a", "bar.a"},
		{"foo.*", "bar.{{wildcard(1)}}", "foo.a", "bar.a"},
		{"foo.*", "bar.{{ Wildcard ( 1 ) }}", "foo.a", "bar.a"},
		{"*.*", "$2.x.$1", "a.b", "b.x.a"},
		{"*.*", "$2.$2", "a.b", "b.b"},
		{"foo.*", "bar", "foo.a", "bar"},
		{"foo", "bar", "foo", "bar"},
		{"foo", "$JS.API", "foo", "$JS.API"},
		{"foo.>", "bar.>", "foo.a.b", "bar.a.b"},
		{"foo.>", ">", "foo.a.b", "a.b"},
		{">", "bar.>", "foo.a", "bar.foo.a"},
		{"", "bar.>", "foo.a", "bar.foo.a"},
		{">", ">", "foo.*", "foo.*"},
		{"", "", "foo.a", "foo.a"},
		{"foo.*", "", "foo.a", "foo.a"},
		{"foo.*.>", "$1.bar.>", "foo.a.b.c", "a.bar.b.c"},
		{"foo.*", "$0.x", "foo.a", "foo.x"},
		{"foo", "p.{{partition(5)}}", "foo", "p.3"},
		{"foo.*.*", "{{partition(10,1,2)}}", "foo.a.b", "6"},
		{"foo.*.*", "{{Partition(0,1,2)}}", "foo.a.b", "0"},
		{"*", "{{split(1,-)}}", "a-b--c-", "a.b.c"},
		{"*", "{{split(1,-)}}", "--a", "a"}, // NATS makes ".a", which is no subject
		{"*", "{{split(1, -)}}", "-a-b", "a.b"},
		{"*", "x.{{split(1,-)}}.y", "abc", "x.abc.y"},
		{"*", "{{splitFromLeft(1,3)}}", "12345", "123.45"},
		{"*", "{{SplitFromRight(1,3)}}", "12345", "12.345"},
		{"*", "{{splitfromright(1,5)}}", "12345", "12345"},
		{"*", "{{sliceFromLeft(1,2)}}", "12345", "12.34.5"},
		{"*", "{{sliceFromLeft(1,2)}}", "1234", "12.34"},
		{"*", "{{sliceFromRight(1,2)}}", "12345", "1.23.45"},
		{"*", "{{SliceFromRight(1,2)}}", "1234", "12.34"},
		{"*", "{{sliceFromRight(1,0)}}", "1234", "1234"},
		{"*", "{{left(1,2)}}", "12345", "12"},
		{"*", "{{right(1,2)}}", "12345", "45"},
		{"*", "{{right(1,-2)}}", "12345", "12345"},
		{"*", "{{random(1)}}.{{Random(0)}}", "x", "0.0"},
	} {
		tr, err := NewTransform(c.source, c.destination)
		if err != nil {
			t.Errorf("%q → %q: %v", c.source, c.destination, err)
			continue
		}
		got, ok := tr.Apply(c.subject)
		appended, too := tr.Append([]byte("x"), c.subject)
		if !ok || got != c.want || !too || string(appended) != "x"+c.want {
			t.Errorf("%q → %q makes %q of %q (%v, %q), want %q", c.source, c.destination, got, c.subject, ok, appended, c.want)
		}
	}
}

func TestTransformTakes(t *testing.T) {
	for _, c := range []struct{ source, destination, subject string }{
		{"foo.*", "bar.$1", "foo"},
		{"foo.*", "bar.$1", "foo.a.b"},
		{"foo.*", "bar.$1", "foo."},
		{"foo.*", "bar.$1", "foo.*"},
		{"foo.>", "bar.>", "foo"},
		{"foo.>", "bar.>", "foo.a..b"},
		{"", "bar.>", ""},
		{"foo.*", "", "bar.a"},
	} {
		tr, err := NewTransform(c.source, c.destination)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := tr.Apply(c.subject); ok {
			t.Errorf("%q → %q takes %q: %q", c.source, c.destination, c.subject, got)
		}
	}
}

func TestTransformFaults(t *testing.T) {
	for _, c := range []struct {
		source, destination string
		fault               error
		text                string
	}{
		{"foo..bar", "x", ErrInvalid, ""},
		{"foo.>.bar", "x", ErrInvalid, ""},
		{"foo.*", "bar.*", ErrInvalid, ""},
		{"foo.>", "bar", ErrInvalid, ""},
		{"foo.*", "bar.>", ErrInvalid, ""},
		{"foo", "bar..x", ErrDestinationSubject, "invalid mapping destination: invalid transform"},
		{"foo.>", "bar.>.x", ErrDestinationSubject, "invalid mapping destination: invalid transform in x"},
		{"foo", "bar.a b", ErrDestinationSubject, "invalid mapping destination: invalid transform"},
		{"foo", "$1", ErrWildcardIndex, ""},
		{"foo.*", "$2", ErrWildcardIndex, "invalid mapping destination: wildcard index out of range in $2: [2]"},
		{">", "{{wildcard(1)}}.>", ErrWildcardIndex, ""},
		{"*", "{{nope(1)}}", ErrUnknownFunction, "invalid mapping destination: unknown function in {{nope(1)}}"},
		{"*", "{{WILDCARD(1)}}", ErrUnknownFunction, ""},
		{"*", "{{wildcard}}", ErrUnknownFunction, ""},
		{"*", "{{wildcard()}}", ErrFewArguments, ""},
		{"*", "{{wildcard(1,2)}}", ErrManyArguments, ""},
		{"*", "{{wildcard(a)}}", ErrBadArgument, ""},
		{"*", "{{split(1)}}", ErrFewArguments, ""},
		{"*", "{{split(1,2,3)}}", ErrManyArguments, ""},
		{"*", "{{split(x,-)}}", ErrBadArgument, ""},
		{"*", "{{split(1,a b)}}", ErrBadArgument, ""},
		{"*", "{{left(1,99999999999)}}", ErrBadArgument, ""},
		{"*", "{{left(1)}}", ErrFewArguments, ""},
		{"*", "{{partition()}}", ErrBadArgument, ""},
		{"*", "{{partition(3,a)}}", ErrBadArgument, ""},
		{"*", "{{partition(3,2)}}", ErrWildcardIndex, ""},
		{"*", "{{random(1,2)}}", ErrFewArguments, ""},
		{"*", "{{random(x)}}", ErrBadArgument, ""},
		{"*", "{{account-hash()}}", ErrFunctionContext, ""},
	} {
		tr, err := NewTransform(c.source, c.destination)
		if !errors.Is(err, c.fault) || tr != nil {
			t.Errorf("%q → %q: %v, want %v", c.source, c.destination, err, c.fault)
			continue
		}
		if errors.Is(err, ErrDestination) == errors.Is(err, ErrInvalid) {
			t.Errorf("%q → %q: %v", c.source, c.destination, err)
		}
		if c.text != "" && err.Error() != c.text {
			t.Errorf("%q → %q: %q, want %q", c.source, c.destination, err, c.text)
		}
	}
}

func TestTransformDoesNotAllocate(t *testing.T) {
	tr, err := NewTransform("orders.*.*.>", "{{partition(8,1,2)}}.{{split(2,-)}}.$1.>")
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 0, 128)
	if got := testing.AllocsPerRun(100, func() { dst, _ = tr.Append(dst[:0], "orders.eu.12-34.a.b") }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if !strings.HasSuffix(string(dst), ".12.34.eu.a.b") {
		t.Errorf("made %q", dst)
	}
}

func FuzzTransform(f *testing.F) {
	f.Add("foo.*.>", "bar.$1.>", "foo.a.b")
	f.Add("*", "{{split(1,-)}}.{{partition(3,1)}}", "a-b")
	f.Add("*", "{{sliceFromRight(1,2)}}.{{left(1,1)}}", "abcde")
	f.Fuzz(func(t *testing.T, source, destination, subject string) {
		tr, err := NewTransform(source, destination)
		if err != nil {
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrDestination) {
				t.Fatalf("%q → %q: %v", source, destination, err)
			}
			return
		}
		if _, ok := tr.Apply(subject); ok && !Match(subject, tr.Source()) && tr.Source() != ">" {
			t.Fatalf("%q → %q takes %q", source, destination, subject)
		}
	})
}
