package check_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluicemq/sluice/internal/check"
	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/manifest"
)

func TestSoundStore(t *testing.T) {
	for name, cipher := range map[string][]byte{"plain": nil, "encrypted": bytes.Repeat([]byte{7}, 16)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := lived(t, cipher)
				ring := [][]byte{bytes.Repeat([]byte{9}, 32), bytes.Repeat([]byte{7}, 16)} // of which one fits
				running := take(t, w.store)
				found, all, sum := findings(t, w.store, check.Options{SegmentKeys: ring})
				if len(found) > 0 || !sum.Live {
					t.Errorf("beside a running node: %+v", all)
				}
				w.stop()
				found, all, sum = findings(t, w.store, check.Options{SegmentKeys: ring})
				if len(found) > 0 || sum.Live {
					t.Errorf("at rest: %+v", all)
				}
				if sum.Streams != 2 || sum.Segments < 3 || sum.Verified != sum.Segments || sum.LogMessages < 90 || sum.SegmentMessages < 350 || sum.Nodes != 1 {
					t.Errorf("it went through %+v", sum)
				}
				if found, all, _ := findings(t, running.lay(t), check.Options{SegmentKeys: ring}); len(found) > 0 {
					t.Errorf("after a kill: %+v", all)
				}
				if _, _, sum := findings(t, w.store, check.Options{SegmentKeys: ring, Quick: true}); sum.Verified != 0 || sum.Errors != 0 {
					t.Errorf("a quick check: %+v", sum)
				}
				if cipher != nil {
					for _, wrong := range [][][]byte{nil, ring[:1]} {
						found, _, _ := findings(t, w.store, check.Options{SegmentKeys: wrong})
						if len(found) == 0 || slices.ContainsFunc(found, func(f string) bool { return !strings.HasPrefix(f, "warning segment-encrypted") }) {
							t.Errorf("with another key: %q", found)
						}
					}
				}
			})
		})
	}
}

// flip damages one byte in the middle of an object.
func flip(s snapshot, k string) {
	data := bytes.Clone(s[k])
	data[len(data)/2] ^= 0x20
	s[k] = data
}

// follows reports whether a finding tells which streams a log that cannot be read leaves behind.
func follows(finding string, all []string) bool {
	return strings.HasPrefix(finding, "warning stream-orphan ") && slices.ContainsFunc(all, func(f string) bool {
		return strings.HasPrefix(f, "error batch-") || strings.HasPrefix(f, "error head-") || strings.HasPrefix(f, "error log-")
	})
}

func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t, nil)
		running := take(t, w.store)
		w.stop()
		sound := take(t, w.store)

		headKey := key.HeadKey("n")
		manifests, segments, logs := sound.of(key.Manifest), sound.of(key.StreamSegment), sound.of(key.WAL)
		theManifest := manifests[len(manifests)-1]
		m, err := manifest.Decode(theManifest, sound[theManifest])
		if err != nil {
			t.Fatal(err)
		}
		segments = slices.DeleteFunc(segments, func(k string) bool {
			return !slices.ContainsFunc(m.Segments, func(s manifest.Segment) bool { return m.Key(s) == k })
		})
		h, err := head.Decode(headKey, sound[headKey])
		if err != nil {
			t.Fatal(err)
		}
		own := h.Logs[len(h.Logs)-1]
		middle := own.ID().Key(own.Start + 4) // behind the checkpoint that the manifest names
		fence := ""                           // of an epoch before
		for _, k := range logs {
			if p, _ := key.Parse(k); p.Epoch < uint64(own.Epoch) {
				fence = k
			}
		}
		later := &world{t: t, store: running.lay(t)} // the node was killed, and started again
		later.start()
		later.publish("L", 10)
		later.stop()
		taken := take(t, later.store)
		th, err := head.Decode(headKey, taken[headKey])
		if err != nil || len(th.Logs) != 2 {
			t.Fatalf("%+v, %v", th, err)
		}
		closed := th.Logs[0]
		end := closed.ID().Key(closed.End)
		stray := closed.ID().Key(closed.End + 1)
		before := own.ID().Key(own.Start - 1)
		orphan := key.SegmentKey("A", "S", uint64(m.ID), 7, 99)
		lost := key.SegmentKey("A", "OLD", 5, 1, 1)
		lostManifest := key.ManifestKey("A", "OLD", 5)
		change := func(s snapshot, f func(h *head.Head)) {
			c, _ := head.Decode(headKey, s[headKey])
			f(c)
			s[headKey], _ = json.Marshal(c)
		}
		swap := func(s snapshot, f func(m *manifest.Manifest)) {
			c := m.Clone()
			f(c)
			if s[theManifest], err = c.Encode(); err != nil {
				t.Fatal(err)
			}
		}
		start := "error messages-missing " + theManifest
		for _, c := range []struct {
			name   string
			of     snapshot
			damage func(s snapshot)
			want   []string
			quick  []string // nil: the same
		}{
			{"a batch is damaged", sound, func(s snapshot) { flip(s, middle) }, []string{"error batch-damaged " + middle}, nil},
			{"a batch is missing", sound, func(s snapshot) { delete(s, middle) }, []string{"error batch-missing " + middle}, nil},
			{"the first batch is missing", sound, func(s snapshot) { delete(s, own.ID().Key(own.Start)) }, []string{"error batch-missing " + own.ID().Key(own.Start)}, nil},
			{"a batch is cut off", sound, func(s snapshot) { s[middle] = s[middle][:50] }, []string{"error batch-damaged " + middle}, nil},
			{"a batch lies elsewhere", sound, func(s snapshot) { s[middle] = s[own.ID().Key(own.Start)] }, []string{"error batch-damaged " + middle}, nil},
			{"a batch is of a newer format", sound, func(s snapshot) { d := bytes.Clone(s[middle]); d[4] = 9; s[middle] = d }, []string{"error batch-newer " + middle}, nil},
			{"the head is damaged", sound, func(s snapshot) { s[headKey] = s[headKey][:40] },
				[]string{"error head-damaged " + headKey}, nil},
			{"the head is newer", sound, func(s snapshot) {
				s[headKey] = bytes.Replace(s[headKey], []byte(`"format": 1`), []byte(`"format": 2`), 1)
			},
				[]string{"error head-newer " + headKey}, nil},
			{"the head is missing", sound, func(s snapshot) { delete(s, headKey) }, []string{"error head-missing " + headKey}, nil},
			{"the head is of an earlier time", sound, func(s snapshot) {
				change(s, func(h *head.Head) { h.Epoch, h.Logs = own.Epoch-1, nil })
			}, []string{"error log-unlisted " + logs[len(logs)-1][:len(logs[len(logs)-1])-16]}, nil},
			{"the head has lost a log", sound, func(s snapshot) { change(s, func(h *head.Head) { h.Logs = nil }) }, []string{"error log-unlisted "}, nil},
			{"the head begins too early", sound, func(s snapshot) { change(s, func(h *head.Head) { h.Logs[len(h.Logs)-1].Start-- }) },
				[]string{"error batch-missing " + before}, nil},
			{"the head begins too late", sound, func(s snapshot) {
				change(s, func(h *head.Head) { h.Logs[len(h.Logs)-1].Start += 3 })
			}, []string{"note log-leftover " + own.ID().Key(own.Start), "error stream-uncreated " + theManifest}, nil},
			{"two heads list a log", sound, func(s snapshot) {
				other := *h
				other.Node = "m"
				s[key.HeadKey("m")], _ = json.Marshal(other)
			}, []string{"error log-listed-twice " + headKey}, nil},
			{"the fence of a log is missing that nobody lists", sound, func(s snapshot) { delete(s, fence) }, nil, nil},
			{"a batch came late", sound, func(s snapshot) { s[before] = []byte("late") }, []string{"note log-leftover " + before}, nil},
			{"a batch came late to a log that nobody lists", sound, func(s snapshot) { s[fence[:len(fence)-16]+"0000000000000000"] = []byte("late") },
				[]string{"note log-orphan " + fence[:len(fence)-16] + "0000000000000000"}, nil},
			{"a node was killed", taken, func(s snapshot) {}, nil, nil},
			{"a closed log lacks its fence", taken, func(s snapshot) { delete(s, end) }, []string{"error fence-missing " + end}, nil},
			{"a fence is damaged", taken, func(s snapshot) { flip(s, end) }, []string{"error fence-damaged " + end}, nil},
			{"a batch lies in the place of the fence", taken, func(s snapshot) {
				change(s, func(h *head.Head) { h.Logs[0].End-- })
			}, []string{"error fence-missing " + closed.ID().Key(closed.End-1)}, nil},
			{"the fence comes early", taken, func(s snapshot) {
				change(s, func(h *head.Head) { h.Logs[0].End++ })
			}, []string{"error fence-early " + end}, nil},
			{"a write landed behind the fence", taken, func(s snapshot) { s[stray] = []byte("late") }, []string{"note log-stray " + stray}, nil},
			{"a closed log lacks a batch", taken, func(s snapshot) { delete(s, middle) }, []string{"error batch-missing " + middle}, nil},
			{"a closed log lacks its end", taken, func(s snapshot) { delete(s, end); delete(s, closed.ID().Key(closed.End-1)) },
				[]string{"error batch-missing " + closed.ID().Key(closed.End-1), "error fence-missing " + end}, nil},
			{"a manifest is damaged", sound, func(s snapshot) { flip(s, theManifest) }, []string{"error manifest-damaged " + theManifest}, nil},
			{"a manifest is missing", sound, func(s snapshot) { delete(s, theManifest) }, []string{start, "warning segment-orphan " + segments[0]}, nil},
			{"a manifest names no checkpoint", sound, func(s snapshot) { swap(s, func(m *manifest.Manifest) { m.From.Byte += 3 }) }, []string{"error checkpoint-missing " + theManifest}, nil},
			{"a manifest lists less", sound, func(s snapshot) { swap(s, func(m *manifest.Manifest) { m.Segments = m.Segments[1:] }) },
				[]string{start, "warning segment-orphan " + segments[0]}, nil},
			{"a manifest says something else", sound, func(s snapshot) { swap(s, func(m *manifest.Manifest) { m.Segments[0].Bytes++ }) }, []string{"error segment-damaged " + segments[0]}, nil},
			{"a segment is missing", sound, func(s snapshot) { delete(s, segments[1]) }, []string{"error segment-missing " + segments[1], start}, nil},
			{"a segment is cut off", sound, func(s snapshot) { s[segments[1]] = s[segments[1]][:99] }, []string{"error segment-size " + segments[1], start}, nil},
			{"a message is damaged", sound, func(s snapshot) { d := bytes.Clone(s[segments[1]]); d[100] ^= 1; s[segments[1]] = d }, []string{"error segment-damaged " + segments[1]}, []string{}},
			{"an index is damaged", sound, func(s snapshot) {
				d := bytes.Clone(s[segments[1]])
				d[m.Segments[1].IndexAt+m.Segments[1].IndexSize-1] ^= 1
				s[segments[1]] = d
			}, []string{"error segment-damaged " + segments[1]}, nil},
			{"a footer is damaged", sound, func(s snapshot) { d := bytes.Clone(s[segments[1]]); d[len(d)-9] ^= 1; s[segments[1]] = d }, []string{"error segment-damaged " + segments[1]}, []string{}},
			{"a segment is not listed", sound, func(s snapshot) { s[orphan] = []byte("x") }, []string{"warning segment-orphan " + orphan}, nil},
			{"a segment is not listed yet", running, func(s snapshot) { s[orphan] = []byte("x") }, []string{"note segment-orphan " + orphan}, nil},
			{"a dropped segment waits", sound, func(s snapshot) {
				s[orphan] = []byte("x")
				swap(s, func(m *manifest.Manifest) { m.Dropped = append(m.Dropped, manifest.Dropped{First: 7, Unique: 99}) })
			}, nil, nil},
			{"a stream is not known", sound, func(s snapshot) { s[lost], s[lostManifest] = []byte("x"), []byte("y") },
				[]string{"warning stream-orphan " + strings.TrimSuffix(lostManifest, "manifest")}, nil},
			{"the cluster is damaged", sound, func(s snapshot) { s[key.ClusterKey] = []byte("{") }, []string{"error cluster-damaged cluster"}, nil},
			{"the cluster is newer", sound, func(s snapshot) { s[key.ClusterKey] = []byte(`{"format":2}`) }, []string{"error cluster-newer cluster"}, nil},
			{"foreign", sound, func(s snapshot) { s["backups/x"] = nil }, []string{"note foreign backups/x"}, nil},
			{"probe", sound, func(s snapshot) { s["probe/x"] = nil }, []string{"note probe-leftover probe/x"}, nil},
			{"quarantine", sound, func(s snapshot) { s[key.QuarantineKey(orphan)] = nil }, nil, nil},
			{"one batch is missing where the node was killed", running, func(s snapshot) { delete(s, middle) }, []string{"warning log-hole " + middle}, nil},
		} {
			for _, quick := range []bool{false, true} {
				s := snapshot{}
				for k, v := range c.of {
					s[k] = v
				}
				c.damage(s)
				found, all, sum := findings(t, s.lay(t), check.Options{Quick: quick})
				want := c.want
				if quick && c.quick != nil {
					want = c.quick
				}
				found = slices.DeleteFunc(found, func(f string) bool { return follows(f, found) })
				for _, x := range want {
					if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, x) }) {
						t.Errorf("%s (quick %v): not found: %s\nbut %q", c.name, quick, x, found)
					}
				}
				if len(found) != len(want) {
					t.Errorf("%s (quick %v): found %+v\nwant %q", c.name, quick, all, want)
				}
				if n := strings.Count(strings.Join(found, "\n"), "error "); n != sum.Errors {
					t.Errorf("%s: %d errors told, %d counted", c.name, n, sum.Errors)
				}
			}
		}
	})
}
