package logging

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLineForm(t *testing.T) {
	tests := []struct {
		name  string
		level slog.Level
		msg   string
		with  func(*slog.Logger) *slog.Logger
		attrs []any
		want  string
	}{
		{"info", slog.LevelInfo, "Server is ready", nil, nil, "[INF] Server is ready"},
		{"warn", slog.LevelWarn, "slow", nil, []any{"cid", 7}, "[WRN] slow cid=7"},
		{"error", slog.LevelError, "no", nil, []any{"err", fmt.Errorf("a b")}, `[ERR] no err="a b"`},
		{"fatal", LevelFatal, "end", nil, nil, "[FTL] end"},
		{"debug", slog.LevelDebug, "d", nil, []any{"took", 3 * time.Millisecond}, "[DBG] d took=3ms"},
		{"trace", LevelTrace, "<<- [PUB a 1]", nil, nil, "[TRC] <<- [PUB a 1]"},
		{"newline cannot forge a line", slog.LevelInfo, "a\n[1] x\x01", nil, []any{"k", "v\nw"}, `[INF] a\n[1] x\x01 k="v\nw"`},
		{"groups", slog.LevelInfo, "m", func(l *slog.Logger) *slog.Logger { return l.With("a", 1).WithGroup("g").With("b", 2) },
			[]any{slog.Group("h", "c", 3), "d", ""}, `[INF] m a=1 g.b=2 g.h.c=3 g.d=""`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			l, err := Open(Options{Debug: true, Trace: true, NoTime: true}, &out)
			if err != nil {
				t.Fatal(err)
			}
			lg := l.Logger()
			if tc.with != nil {
				lg = tc.with(lg)
			}
			lg.Log(context.Background(), tc.level, tc.msg, tc.attrs...)
			want := fmt.Sprintf("[%d] %s\n", os.Getpid(), tc.want)
			if out.String() != want {
				t.Errorf("got  %q\nwant %q", out.String(), want)
			}
		})
	}
}

func TestTimeForm(t *testing.T) {
	var out bytes.Buffer
	l, _ := Open(Options{UTC: true}, &out)
	r := slog.NewRecord(time.Date(2026, 1, 2, 15, 4, 5, 6000, time.FixedZone("x", 3600)), slog.LevelInfo, "m", 0)
	if err := l.Logger().Handler().Handle(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("[%d] 2026/01/02 14:04:05.000006 [INF] m\n", os.Getpid()); out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestDebugAndTraceAreSwitchedApart(t *testing.T) {
	for _, o := range []Options{{}, {Debug: true}, {Trace: true}, {Debug: true, Trace: true}} {
		l, _ := Open(o, &bytes.Buffer{})
		h, ctx := l.Logger().Handler(), context.Background()
		if h.Enabled(ctx, slog.LevelDebug) != o.Debug || h.Enabled(ctx, LevelTrace) != o.Trace || !h.Enabled(ctx, slog.LevelInfo) {
			t.Errorf("%+v: debug %v trace %v", o, h.Enabled(ctx, slog.LevelDebug), h.Enabled(ctx, LevelTrace))
		}
	}
}

func TestReconfigureReachesDerivedLoggers(t *testing.T) {
	var out bytes.Buffer
	l, _ := Open(Options{NoTime: true}, &out)
	lg := l.Logger().With("a", 1)
	lg.Debug("before")
	if err := l.Reconfigure(Options{NoTime: true, Debug: true}); err != nil {
		t.Fatal(err)
	}
	lg.Debug("after")
	if got := out.String(); strings.Contains(got, "before") || !strings.Contains(got, "after a=1") {
		t.Errorf("got %q", got)
	}
	if err := l.Reconfigure(Options{File: filepath.Join(t.TempDir(), "no", "such")}); err == nil {
		t.Error("a file in a missing directory was accepted")
	}
	lg.Debug("still")
	if !strings.Contains(out.String(), "still") {
		t.Error("a failed Reconfigure changed the options")
	}
}

func TestFileMoveAndReopen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.log")
	l, err := Open(Options{File: path}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Logger().Info("one")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	l.Logger().Info("two")
	if isFile, err := l.Reopen(); !isFile || err != nil {
		t.Fatal(isFile, err)
	}
	l.Logger().Info("three")
	old, now := read(t, path+".old"), read(t, path)
	if !strings.Contains(old, "one") || !strings.Contains(old, "two") || !strings.Contains(now, "three") || strings.Contains(now, "two") {
		t.Errorf("old %q now %q", old, now)
	}
	stderrLog, _ := Open(Options{}, &bytes.Buffer{})
	if isFile, err := stderrLog.Reopen(); isFile || err != nil {
		t.Errorf("reopen without a file: %v %v", isFile, err)
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.log")
	for _, stranger := range []string{"s.log.bak", "s.log.2020.01.02.03.04.05", "s.log2", "s.log.2020.13.02.03.04.05.000000000"} {
		if err := os.WriteFile(filepath.Join(dir, stranger), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Open(Options{File: path, SizeLimit: 200, MaxFiles: 3, NoTime: true}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 40 {
		l.Logger().Info(fmt.Sprintf("line %02d %s", i, strings.Repeat("x", 40)))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	backup := regexp.MustCompile(`^s\.log\.\d{4}\.\d\d\.\d\d\.\d\d\.\d\d\.\d\d\.\d{9}$`)
	var all string
	backups := 0
	for _, e := range entries {
		if backup.MatchString(e.Name()) && !strings.Contains(e.Name(), "2020.13") {
			backups++
			all += read(t, filepath.Join(dir, e.Name()))
			if info, _ := e.Info(); info.Size() > 300 {
				t.Errorf("%s has %d bytes", e.Name(), info.Size())
			}
		}
	}
	all += read(t, path)
	if backups != 2 {
		t.Errorf("%d files set aside, want 2", backups)
	}
	if len(entries) != 2+1+4 {
		t.Errorf("files of others were touched: %v", entries)
	}
	last := strings.Split(strings.TrimSpace(all), "\n")
	for i := 1; i < len(last); i++ {
		if last[i-1] >= last[i] {
			t.Errorf("lines out of order: %q then %q", last[i-1], last[i])
		}
	}
	if !strings.Contains(all, "line 39") {
		t.Error("the last line is missing")
	}
}

func TestConcurrentLinesStayWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.log")
	l, err := Open(Options{File: path, NoTime: true}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				l.Logger().Info("0123456789", "k", "v")
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(read(t, path), "\n"), "\n")
	if len(got) != 400 {
		t.Fatalf("%d lines", len(got))
	}
	for _, line := range got {
		if !strings.HasSuffix(line, "[INF] 0123456789 k=v") {
			t.Fatalf("torn line %q", line)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
