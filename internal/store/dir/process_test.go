//go:build unix

package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/storetest"
)

const (
	childRootEnv   = "SLUICE_TEST_DIR_ROOT"
	childNumberEnv = "SLUICE_TEST_DIR_CHILD"

	childCount  = 4
	childRounds = 25
)

// TestProcesses lets several processes race on one folder: for creates of the same keys, for an object that all append
// to by compare-and-swap, and for folders that come and go.
func TestProcesses(t *testing.T) {
	root := t.TempDir()
	s := open(t, Options{Path: root})
	put(t, s, "counter", "start", store.IfAbsent())

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	outputs := make([]bytes.Buffer, childCount)
	var wg sync.WaitGroup
	for n := range childCount {
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestProcessChild$", "-test.v")
		cmd.Env = append(os.Environ(), childRootEnv+"="+root, childNumberEnv+"="+strconv.Itoa(n))
		cmd.Stdout, cmd.Stderr = &outputs[n], &outputs[n]
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("child %d: %v\n%s", n, err, outputs[n].String())
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}

	wins := make(map[string]string) // key -> who says that it won
	for n := range outputs {
		for line := range strings.Lines(outputs[n].String()) {
			if key, ok := strings.CutPrefix(strings.TrimSpace(line), "won "); ok {
				if other, taken := wins[key]; taken {
					t.Errorf("child %d and %s both won %s", n, other, key)
				}
				wins[key] = fmt.Sprintf("child %d", n)
			}
		}
	}
	if len(wins) != childRounds {
		t.Errorf("%d keys were won, want %d", len(wins), childRounds)
	}
	for key, winner := range wins {
		if obj, err := s.Get(t.Context(), key); err != nil || string(obj.Data) != winner {
			t.Errorf("%s holds %q, %v, but %s won", key, obj.Data, err, winner)
		}
	}
	obj, err := s.Get(t.Context(), "counter")
	if marks := strings.Count(string(obj.Data), ","); err != nil || marks != childCount*childRounds {
		t.Errorf("%d marks were appended, %v, want %d", marks, err, childCount*childRounds)
	}
	page, err := s.List(t.Context(), store.ListOptions{})
	if err != nil || len(page.Objects) != childRounds+1 {
		t.Errorf("List gives %d objects, %v, want %d", len(page.Objects), err, childRounds+1)
	}
}

// TestProcessChild is the body of one process of TestProcesses.
func TestProcessChild(t *testing.T) {
	root := os.Getenv(childRootEnv)
	if root == "" {
		t.Skip("runs as a child of TestProcesses")
	}
	me := "child " + os.Getenv(childNumberEnv)
	s := open(t, Options{Path: root})
	for round := range childRounds {
		key := fmt.Sprintf("race/%d/key", round)
		_, err := s.Put(t.Context(), key, []byte(me), store.IfAbsent())
		switch {
		case err == nil:
			fmt.Printf("\nwon %s\n", key)
		case !errors.Is(err, store.ErrPrecondition):
			t.Error(err)
		}
		if err := storetest.AppendMark(t.Context(), s, "counter", fmt.Sprintf(",%s-%d", me, round)); err != nil {
			t.Error(err)
		}
		shared := fmt.Sprintf("folder/%d/%s", round, strings.ReplaceAll(me, " ", "-"))
		if _, err := s.Put(t.Context(), shared, nil, store.Always()); err != nil {
			t.Error(err)
		}
		if err := s.Delete(t.Context(), shared); err != nil {
			t.Error(err)
		}
	}
}
