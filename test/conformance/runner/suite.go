package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Statuses of a result, as they stand in results.tsv.
const (
	statusPass    = "PASS"
	statusFail    = "FAIL"
	statusSkip    = "SKIP"
	statusTimeout = "TIMEOUT"
)

// result is one line of results.tsv.
type result struct {
	pkg, test, status        string
	seconds                  float64
	subtestsPassed, subtests int
	starts                   int      // of servers
	attempts                 int      // until it passed, or all
	features                 []string // that its servers were configured with
}

func (r result) key() string { return r.pkg + "\t" + r.test }

const header = "#pkg\ttest\tstatus\tsecs\tsub_pass\tsub_total\tstarts\tattempts\tfeatures"

func (r result) String() string {
	return fmt.Sprintf("%s\t%s\t%s\t%.2f\t%d\t%d\t%d\t%d\t%s", r.pkg, r.test, r.status, r.seconds, r.subtestsPassed, r.subtests, r.starts, r.attempts, strings.Join(r.features, ","))
}

// readResults reads a results.tsv; what summaries need of it.
func readResults(path string) ([]result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []result
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		c := strings.Split(lines.Text(), "\t")
		if strings.HasPrefix(c[0], "#") {
			continue
		}
		if len(c) != 9 {
			return nil, fmt.Errorf("%s:%d: %d columns", path, n, len(c))
		}
		r := result{pkg: c[0], test: c[1], status: c[2], features: strings.Split(c[8], ",")}
		if r.starts, err = strconv.Atoi(c[6]); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		out = append(out, r)
	}
	return out, lines.Err()
}

// journal takes results as they come.
type journal struct {
	mu      sync.Mutex // above all of it
	tsv     *os.File
	dir     string
	verbose bool
	counts  map[string]int // by package and status
}

func newJournal(o options) (*journal, error) {
	tsv, err := os.Create(filepath.Join(o.out, "results.tsv"))
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(tsv, header)
	j := &journal{tsv: tsv, dir: filepath.Join(o.out, "output"), verbose: o.verbose, counts: map[string]int{}}
	return j, os.MkdirAll(j.dir, 0o755)
}

func (j *journal) add(r result, output []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[r.pkg+" "+r.status]++
	fmt.Fprintln(j.tsv, r)
	passed := r.status == statusPass
	if j.verbose || !passed && r.status != statusSkip {
		fmt.Printf("%-7s %6.1fs %s %s\n", r.status, r.seconds, r.pkg, r.test)
	}
	if !passed {
		name := strings.ReplaceAll(r.pkg, "/", "_") + "." + r.test + ".log"
		if err := os.WriteFile(filepath.Join(j.dir, name), output, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "runner:", err)
		}
	}
}

// runSuite builds each package's tests and has the workers run those that are chosen.
func (c *crew) runSuite(o options, chosen selection, temp string) error {
	j, err := newJournal(o)
	if err != nil {
		return err
	}
	defer j.tsv.Close()
	var failures []error
	for i, pkg := range strings.Split(o.packages, ",") {
		bin := filepath.Join(temp, fmt.Sprintf("suite%d.test", i))
		dir := filepath.Join(o.repo, pkg)
		tests, err := o.buildTests(bin, dir, pkg, c.workers[0].url())
		if err != nil {
			failures = append(failures, err)
			continue
		}
		c.runPackage(o, chosen, j, bin, dir, pkg, tests)
		fmt.Printf("RAW %-22s %d passed, %d failed, %d timed out, %d skipped\n", pkg,
			j.counts[pkg+" "+statusPass], j.counts[pkg+" "+statusFail], j.counts[pkg+" "+statusTimeout], j.counts[pkg+" "+statusSkip])
	}
	return errors.Join(failures...)
}

// buildTests compiles a package's tests and lists them.
func (o options) buildTests(bin, dir, pkg, url string) ([]string, error) {
	args := []string{"test", "-c", "-vet=off", "-o", bin}
	if o.modfile != "" {
		args = append(args, "-modfile="+o.modfile)
	}
	if o.tags != "" {
		args = append(args, "-tags="+o.tags)
	}
	build := exec.Command("go", append(args, "./"+pkg)...)
	build.Dir = o.repo
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	list := exec.Command(bin, "-test.list", "^Test")
	list.Dir = dir
	list.Env = append(os.Environ(), "TESTER_NATS_URL="+url)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", pkg, err)
	}
	return strings.Fields(string(out)), nil
}

func (c *crew) runPackage(o options, chosen selection, j *journal, bin, dir, pkg string, tests []string) {
	jobs := make(chan string)
	var wg sync.WaitGroup
	for _, w := range c.workers {
		wg.Go(func() {
			for test := range jobs {
				var r result
				var out []byte
				for attempt := 1; attempt <= 1+o.retries; attempt++ {
					r, out = w.runTest(bin, dir, pkg, test, o.timeout)
					r.attempts = attempt
					if r.status == statusPass || r.status == statusSkip {
						break
					}
				}
				j.add(r, out)
			}
		})
	}
	for _, test := range tests {
		if strings.HasPrefix(test, "Test") && chosen.has(pkg, test) {
			jobs <- test
		}
	}
	close(jobs)
	wg.Wait()
}
