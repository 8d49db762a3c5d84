package wal

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluicemq/sluice/internal/store"
)

func group(s Sink, data ...string) (entries []*Entry) {
	for _, d := range data {
		entries = append(entries, &Entry{Data: []byte(d), Records: 1, Sink: s})
	}
	return entries
}

// A group is in one object, whatever is in the batch before and after it.
func TestGroupsAreNotSplit(t *testing.T) {
	for _, c := range []struct {
		name    string
		batch   int
		before  []string
		group   []string
		after   []string
		batches string
	}{
		{"alone", 4, nil, []string{"ab", "cd"}, nil, "abcd"},
		{"fits behind others", 6, []string{"12"}, []string{"ab", "cd"}, nil, "12abcd"},
		{"its second half would not fit", 5, []string{"12"}, []string{"ab", "cd"}, []string{"3"}, "12 abcd3"},
		{"larger than a batch", 3, []string{"12"}, []string{"ab", "cd", "ef"}, []string{"3"}, "12 abcdef 3"},
		{"of one", 3, []string{"12"}, []string{"ab"}, []string{"3"}, "12 ab3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, sink, other := newHooked(t), newSink(), newSink()
				wait := make(chan struct{})
				s.onPut(func(n int, _ string, do func() (string, error)) (string, error) {
					<-wait // so that what follows gathers
					return do()
				})
				l := openLog(t, Options{Store: s, MaxBatchBytes: c.batch, MaxInFlight: 1})
				appendAll(t, l, sink, "0")
				synctest.Wait()
				appendAll(t, l, sink, c.before...)
				entries := group(sink, c.group...)
				entries[len(entries)-1].Sink = other
				if err := l.AppendGroup(entries...); err != nil {
					t.Fatal(err)
				}
				appendAll(t, l, sink, c.after...)
				close(wait)
				synctest.Wait()
				if err := l.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				end := fenceIt(t, s, 0)
				var batches []string
				err := Replay(t.Context(), s, testID, 1, end, func(b *Batch) error {
					batches = append(batches, string(b.Body))
					if b.Records != len(strings.TrimSpace(string(b.Body))) && b.Records < 1 {
						t.Errorf("%d records in %q", b.Records, b.Body)
					}
					return nil
				})
				if got := strings.Join(batches, " "); err != nil || got != c.batches {
					t.Errorf("the batches are %q, want %q: %v", got, c.batches, err)
				}
				for _, e := range entries {
					if e.Err != nil || e.Position.Offset != entries[0].Position.Offset {
						t.Errorf("%q lies at %+v, the first at %+v: %v", e.Data, e.Position, entries[0].Position, e.Err)
					}
				}
				if got := other.committed(t); got != c.group[len(c.group)-1] {
					t.Errorf("the other sink got %q", got)
				}
			})
		})
	}
}

func TestGroupsThatAreNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, sink := newHooked(t), newSink()
		wait := make(chan struct{})
		s.onPut(func(n int, _ string, do func() (string, error)) (string, error) {
			<-wait
			return do()
		})
		l := openLog(t, Options{Store: s, MaxEntryBytes: 10, MaxPendingBytes: 500})
		for _, bad := range [][]*Entry{nil, group(sink, "a", ""), group(sink, "123456", "12345"), {{Data: []byte("a"), Sink: sink}}} {
			if err := l.AppendGroup(bad...); !errors.Is(err, ErrEntry) {
				t.Errorf("a group of %d: %v", len(bad), err)
			}
		}
		if n := l.PendingBytes(); n != 0 {
			t.Errorf("%d bytes are pending", n)
		}
		taken := 0
		for ; ; taken++ {
			err := l.AppendGroup(group(sink, "a", "b")...)
			if errors.Is(err, ErrFull) {
				break
			}
			if err != nil || taken > 10 {
				t.Fatal(taken, err)
			}
		}
		close(wait)
		synctest.Wait()
		if got := sink.committed(t); got != strings.Repeat("ab", taken) {
			t.Errorf("%d groups were taken, committed are %q", taken, got)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.AppendGroup(group(sink, "a")...); !errors.Is(err, ErrClosed) {
			t.Errorf("append to a closed log: %v", err)
		}
	})
}

// The group's object is doubtful and then fenced: both entries come back with an error, and replay finds both or neither.
func TestAGroupIsFencedWhole(t *testing.T) {
	for _, lands := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			s, sink := newHooked(t), newSink()
			wake := make(chan struct{})
			s.onPut(func(n int, _ string, do func() (string, error)) (string, error) {
				if lands {
					do()
				}
				<-wake
				return "", store.ErrUnknownOutcome
			})
			l := openLog(t, Options{Store: s})
			if err := l.AppendGroup(group(sink, "a", "b")...); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			successor := &hooked{Store: s.Store}
			end := fenceIt(t, successor, 0)
			want := ""
			if lands {
				want = "ab"
			}
			if got := replayed(t, successor, testID, 0, end); got != want {
				t.Errorf("landed %v: replay finds %q", lands, got)
			}
			close(wake)
			if !lands {
				<-l.Done()
				if sink.committed(t) != "" || len(sink.entries()) != 2 {
					t.Errorf("%d entries came back", len(sink.entries()))
				}
			} else {
				synctest.Wait()
				if got := sink.committed(t); got != "ab" {
					t.Errorf("committed is %q", got)
				}
				l.Close(t.Context())
			}
		})
	}
}
