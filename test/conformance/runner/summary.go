package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// classes are the server capabilities that a test can ask for, the hardest first, and what tells them.
var classes = []struct {
	name string
	any  []string // one of these features
	all  []string // all of these
}{
	{name: "supercluster", any: []string{"gateway"}},
	{name: "leafnodes", any: []string{"leafnodes", "leaf"}},
	{name: "cluster", any: []string{"cluster"}},
	{name: "mqtt", any: []string{"mqtt"}},
	{name: "websocket", any: []string{"websocket"}},
	{name: "jwt", any: []string{"opt.operator", "opt.trusted_keys", "opt.resolver"}},
	{name: "tls", any: []string{"tls"}},
	{name: "auth/accounts", any: []string{"authorization", "accounts"}},
	{name: "reload", any: []string{"reload"}},
	{name: "options", any: []string{"opt.", "jetstream."}},
	{name: "jetstream-restart", all: []string{"restart", "jetstream"}},
	{name: "core-restart", any: []string{"restart"}},
	{name: "jetstream", any: []string{"jetstream"}},
}

// class names the hardest server capability that a test's servers ask for.
func (r result) class() string {
	// A feature that ends with a point stands for all that begin so.
	has := func(feature string) bool {
		return slices.ContainsFunc(r.features, func(f string) bool {
			return f == feature || strings.HasSuffix(feature, ".") && strings.HasPrefix(f, feature)
		})
	}
	for _, c := range classes {
		if slices.ContainsFunc(c.any, has) {
			return c.name
		}
		if len(c.all) > 0 && !slices.ContainsFunc(c.all, func(f string) bool { return !has(f) }) {
			return c.name
		}
	}
	return "core"
}

type tally struct{ passed, total int }

func (t *tally) add(passed bool) {
	t.total++
	if passed {
		t.passed++
	}
}

// summarize prints N of M, where M counts the tests that the reference server passes and that start at least one
// server.
func summarize(w io.Writer, suite, resultsPath, baselinePath string, chosen selection) error {
	got, err := statuses(resultsPath)
	if err != nil {
		return err
	}
	base, err := readResults(baselinePath)
	if err != nil {
		return err
	}
	var all tally
	byPackage, byClass := map[string]*tally{}, map[string]*tally{}
	count := func(m map[string]*tally, key string, passed bool) {
		if m[key] == nil {
			m[key] = &tally{}
		}
		m[key].add(passed)
	}
	noServer, notPassing := 0, 0
	var failed []string
	for _, b := range base {
		switch {
		case !chosen.has(b.pkg, b.test):
			continue
		case b.status != statusPass:
			notPassing++
			continue
		case b.starts == 0:
			noServer++
			continue
		}
		passed := got[b.key()] == statusPass
		all.add(passed)
		count(byPackage, b.pkg, passed)
		count(byClass, b.class(), passed)
		if !passed {
			status := got[b.key()]
			if status == "" {
				status = "not run"
			}
			failed = append(failed, fmt.Sprintf("%-18s %-8s %s %s", b.class(), status, b.pkg, b.test))
		}
	}
	fmt.Fprintf(w, "%s: %d of %d tests passed (%.1f%%); left out: %d that start no server, %d not passing on the reference\n",
		suite, all.passed, all.total, 100*float64(all.passed)/float64(max(all.total, 1)), noServer, notPassing)
	printTallies(w, "package", byPackage)
	printTallies(w, "class", byClass)
	slices.Sort(failed)
	for _, f := range failed {
		fmt.Fprintln(w, "   ", f)
	}
	return nil
}

func printTallies(w io.Writer, title string, m map[string]*tally) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(w, "  %-8s %-20s %4d of %4d\n", title, key, m[key].passed, m[key].total)
	}
}

func statuses(path string) (map[string]string, error) {
	results, err := readResults(path)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range results {
		out[r.key()] = r.status
	}
	return out, nil
}

// errRatchet says that a test which used to pass does not.
var errRatchet = errors.New("tests that passed before do not pass any more")

// checkRatchet compares results with the list of tests that are known to pass.
func checkRatchet(w io.Writer, expectedPath, resultsPath string, chosen selection) error {
	expected, err := readList(expectedPath)
	if err != nil {
		return err
	}
	got, err := statuses(resultsPath)
	if err != nil {
		return err
	}
	checked, lost := 0, 0
	for _, key := range slices.Sorted(maps.Keys(expected)) {
		pkg, test, _ := strings.Cut(key, "\t")
		if !chosen.has(pkg, test) {
			continue
		}
		checked++
		if got[key] != statusPass {
			lost++
			fmt.Fprintf(w, "LOST: %s %s is %q, and stands in the list of tests that pass\n", pkg, test, got[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if got[key] == statusPass && !expected[key] {
			fmt.Fprintf(w, "GAINED: %s passes and is not in the list (UPDATE=1 adds it)\n", strings.Replace(key, "\t", " ", 1))
		}
	}
	fmt.Fprintf(w, "ratchet: %d passed, %d failed\n", checked-lost, lost)
	switch {
	case checked == 0:
		return errors.New("no expected test was chosen")
	case lost > 0:
		return fmt.Errorf("%w: %d", errRatchet, lost)
	}
	return nil
}
