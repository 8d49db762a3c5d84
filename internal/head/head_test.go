package head

import (
	"errors"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

const sampleKey = "heads/n1"

func sample() *Head {
	return &Head{
		Node: "n1", Instance: "0123", Epoch: 7, Counter: 42, Host: "boot pid:[1]", PID: 99,
		ClientAddress: "127.0.0.1:4222", LinkAddress: "127.0.0.1:6222", Broadcast: &BroadcastBatch{Epoch: 7, Offset: 3},
		Logs: []LogRange{{Node: "n2", Epoch: 3, Start: 4, End: 9, From: "n2"}, {Node: "n1", Epoch: 7, Start: 2, Open: true}},
	}
}

// The text of docs/format/head.md: a change here is a new version of the format.
func TestHeadBytes(t *testing.T) {
	want := `{
 "format": 1,
 "node": "n1",
 "instance": "0123",
 "epoch": 7,
 "counter": 42,
 "released": false,
 "host": "boot pid:[1]",
 "pid": 99,
 "client_address": "127.0.0.1:4222",
 "link_address": "127.0.0.1:6222",
 "broadcast": {
  "epoch": 7,
  "offset": 3
 },
 "logs": [
  {
   "node": "n2",
   "epoch": 3,
   "start": 4,
   "end": 9,
   "from": "n2"
  },
  {
   "node": "n1",
   "epoch": 7,
   "start": 2,
   "open": true
  }
 ]
}
`
	got, err := sample().encode()
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	h, err := Decode(sampleKey, got)
	if err != nil {
		t.Fatal(err)
	}
	same := sample()
	same.Format = 1
	if !reflect.DeepEqual(h, same) || !reflect.DeepEqual(h.clone(), same) {
		t.Errorf("decoded %+v", h)
	}
}

func TestDecodeRefusals(t *testing.T) {
	sound, err := sample().encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		old, new string
		want     error
	}{
		{"newer", `"format": 1`, `"format": 2`, ErrNewerFormat},
		{"newer, of another shape", `"node": "n1",`, `"format": 2, "node": {"name": "n1"},`, ErrNewerFormat},
		{"no format", `"format": 1,`, ``, ErrCorrupt},
		{"unknown field", `"epoch": 7,`, `"epoch": 7, "future": true,`, ErrNewerFormat},
		{"other node", `"node": "n1"`, `"node": "n3"`, ErrCorrupt},
		{"epoch 0", `"epoch": 7`, `"epoch": 0`, ErrCorrupt},
		{"a log of the future", `"epoch": 7,
   "start": 2`, `"epoch": 8,
   "start": 2`, ErrCorrupt},
		{"negative epoch", `"epoch": 7`, `"epoch": -7`, ErrCorrupt},
		{"backwards", `"start": 4`, `"start": 10`, ErrCorrupt},
		{"twice", `"node": "n2",
   "epoch": 3`, `"node": "n1",
   "epoch": 7`, ErrCorrupt},
		{"nameless log", `"node": "n2"`, `"node": ""`, ErrCorrupt},
		{"taken, yet running", `"released": false`, `"released": false, "taken_by": {"node": "n2", "epoch": 1, "instance": "x"}`, ErrCorrupt},
		{"empty", string(sound), ``, ErrCorrupt},
		{"no object", string(sound), `[]`, ErrCorrupt},
	} {
		text := strings.Replace(string(sound), c.old, c.new, 1)
		if text == string(sound) {
			t.Fatalf("%s: nothing replaced", c.name)
		}
		h, err := Decode(sampleKey, []byte(text))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), sampleKey) {
			t.Errorf("%s: %+v, %v", c.name, h, err)
		}
	}
}

// A head that is not understood is never overwritten: as the own one it is an error, as another's it is left alone.
func TestUnreadableHeads(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"newer":   {`{"format": 9}`, ErrNewerFormat},
		"corrupt": {`garbage`, ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if _, err := w.store.Put(t.Context(), "heads/x", []byte(c.text), store.Always()); err != nil {
					t.Fatal(err)
				}
				if _, err := Claim(t.Context(), w.store, w.options("x")); !errors.Is(err, c.want) || !strings.Contains(err.Error(), "heads/x") {
					t.Errorf("claiming it: %v", err)
				}
				held, err := Claim(t.Context(), w.store, w.options("y"))
				if err != nil || held.Node() != "y" {
					t.Errorf("claiming another: %v", err)
				}
				if object, err := w.store.Get(t.Context(), "heads/x"); err != nil || string(object.Data) != c.text {
					t.Errorf("it is now %q, %v", object.Data, err)
				}
				// Of several names another is taken.
				if held, err := Claim(t.Context(), w.store, w.options("x", "z")); err != nil || held.Node() != "z" {
					t.Errorf("claiming one of two: %v", err)
				}
			})
		})
	}
}

func TestOptionsValidate(t *testing.T) {
	for _, opts := range []Options{{}, {Names: []string{""}}, {Names: make([]string, 65)}, {Names: []string{"a"}, Lease: -1},
		{Names: []string{"a"}, Interval: 2 * time.Second}, {Names: []string{strings.Repeat("x", 1025)}}} {
		if err := opts.Validate(); err == nil {
			t.Errorf("%+v is valid", opts)
		}
	}
	if err := (Options{Names: []string{"a"}}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestPIDRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("unknown here")
	}
	if thisHost() == "" {
		t.Errorf("this host is %q", thisHost())
	}
	if !pidRuns(os.Getpid()) {
		t.Error("this process does not run")
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	if !pidRuns(cmd.Process.Pid) {
		t.Error("the child does not run")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for pidRuns(cmd.Process.Pid) { // nobody has waited for it: it becomes a zombie
		if time.Now().After(deadline) {
			t.Fatal("a zombie runs")
		}
		runtime.Gosched()
	}
	_ = cmd.Wait()
	if pidRuns(cmd.Process.Pid) {
		t.Error("a process that is gone runs")
	}
}

func FuzzDecode(f *testing.F) {
	sound, err := sample().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sound)
	f.Add([]byte(`{"format":1,"node":"n1","epoch":1,"instance":"","taken_by":{"node":"b","epoch":1,"instance":"x"},"logs":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Decode(sampleKey, data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerFormat) {
				t.Errorf("unnamed error %v", err)
			}
			return
		}
		again, err := h.clone().encode()
		if err != nil {
			return // it has grown beyond the bound
		}
		if h2, err := Decode(sampleKey, again); err != nil || !reflect.DeepEqual(h2.Logs, h.clone().Logs) && len(h.Logs) > 0 {
			t.Errorf("%+v became %+v, %v", h, h2, err)
		}
	})
}
