package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name, out string
		err       error
		seconds   float64
		want      string
	}{
		{"passed", "--- PASS: TestX (0.1s)\nPASS\n", nil, 0.1, statusPass},
		{"skipped", "--- SKIP: TestX (0.1s)\nPASS\n", nil, 0.1, statusSkip},
		{"failed", "--- FAIL: TestX (0.1s)\nFAIL\n", errors.New("exit 1"), 0.1, statusFail},
		{"no result", "nothing\n", nil, 0.1, statusFail},
		{"another test's result", "--- PASS: TestXY (0.1s)\n", nil, 0.1, statusFail},
		{"timed out", "panic: test timed out after 1s\n", errors.New("exit 2"), 0.1, statusTimeout},
		{"killed", "", errors.New("killed"), 30, statusTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := result{test: "TestX", status: statusFail, seconds: tc.seconds}
			r.judge([]byte(tc.out), tc.err, 20*time.Second)
			if r.status != tc.want {
				t.Errorf("status %s, want %s", r.status, tc.want)
			}
		})
	}
}

func TestRatchet(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, lines ...string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	line := func(test, status string) string { return result{pkg: "p", test: test, status: status}.String() }
	expected := write("expected", "# comment", "p\tTestA", "p\tTestB")
	for _, tc := range []struct {
		name    string
		results []string
		run     string
		lost    bool
	}{
		{"all pass", []string{line("TestA", statusPass), line("TestB", statusPass)}, "", false},
		{"one gained", []string{line("TestA", statusPass), line("TestB", statusPass), line("TestC", statusPass)}, "", false},
		{"one fails", []string{line("TestA", statusPass), line("TestB", statusFail)}, "", true},
		{"one is skipped", []string{line("TestA", statusPass), line("TestB", statusSkip)}, "", true},
		{"one did not run", []string{line("TestA", statusPass)}, "", true},
		{"one was not chosen", []string{line("TestA", statusPass)}, "TestA", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			chosen, err := newSelection(tc.run, "")
			if err != nil {
				t.Fatal(err)
			}
			err = checkRatchet(io.Discard, expected, write("results.tsv", append([]string{header}, tc.results...)...), chosen)
			if errors.Is(err, errRatchet) != tc.lost || err != nil && !tc.lost {
				t.Errorf("error %v, want lost=%t", err, tc.lost)
			}
		})
	}
}
