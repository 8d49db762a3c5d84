package storeurl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/dir"
	"github.com/sluicemq/sluice/internal/store/mem"
	"github.com/sluicemq/sluice/internal/store/s3"
	"github.com/sluicemq/sluice/internal/store/storetest/gateway"
)

func dirTarget(path string) Target { return Target{Kind: Dir, Dir: dir.Options{Path: path}} }

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		url      string
		want     Target
		location string // "" for the kind's own
	}{
		{"/var/lib/sluice", dirTarget("/var/lib/sluice"), "/var/lib/sluice"},
		{"./data", dirTarget("./data"), ""},
		{"data", dirTarget("data"), ""},
		{"with space?and=mark", dirTarget("with space?and=mark"), ""},
		{"dir:///var/lib/sluice", dirTarget("/var/lib/sluice"), "/var/lib/sluice"},
		{"dir://./data", dirTarget("./data"), ""},
		{"dir://.", dirTarget("."), ""},
		{"dir://../data", dirTarget("../data"), ""},
		{"dir:///a%20b", dirTarget("/a b"), "/a b"},
		{"dir:///x?max_folders=7", Target{Kind: Dir, Dir: dir.Options{Path: "/x", MaxFolders: 7}}, "/x"},
		{"mem://", Target{Kind: Mem}, "memory, nothing is kept"},
		{"mem://?max_bytes=1000", Target{Kind: Mem, Mem: mem.Options{MaxBytes: 1000}}, "memory, nothing is kept"},
		{"s3://bucket", Target{Kind: S3, S3: s3.Options{Bucket: "bucket"}}, "s3://bucket"},
		{"s3://bucket/a/b/?region=eu-central-1", Target{Kind: S3, S3: s3.Options{Bucket: "bucket", Prefix: "a/b", Region: "eu-central-1"}}, "s3://bucket/a/b"},
		{"s3://my.bucket/p?endpoint=http://localhost:9000&path_style=true&checksums=when_required&max_connections=8&max_attempts=2&timeout=5s",
			Target{Kind: S3, S3: s3.Options{
				Bucket: "my.bucket", Prefix: "p", Endpoint: "http://localhost:9000", PathStyle: true,
				Checksums: s3.ChecksumsWhenRequired, MaxConnections: 8, MaxAttempts: 2, Timeout: 5 * time.Second,
			}}, "s3://my.bucket/p at http://localhost:9000"},
	} {
		got, err := Parse(tt.url)
		if err != nil || got != tt.want {
			t.Errorf("Parse(%q) = %+v, %v\nwant %+v", tt.url, got, err, tt.want)
		}
		if location := got.Location(); tt.location != "" && location != tt.location || !filepath.IsAbs(location) && got.Kind == Dir {
			t.Errorf("location of %q is %q, want %q", tt.url, location, tt.location)
		}
	}
}

func TestParseFaults(t *testing.T) {
	for _, tt := range []struct {
		url  string
		want []string
	}{
		{"", []string{"empty"}},
		{"file:///x", []string{`no such kind of store: "file"`, "dir, s3 or mem"}},
		{"s3:bucket", []string{"two slashes"}},
		{"dir:/x", []string{"two slashes"}},
		{"dir://", []string{"needs a path"}},
		{"dir://data/x", []string{"dir:///data/x", "dir://./data/x"}},
		{"dir:///x?sync=off&other=1", []string{"unknown parameter other, sync", "known are max_folders"}},
		{"dir:///x?max_folders=0", []string{"max_folders", "1 or more"}},
		{"dir:///%zz", []string{"invalid URL escape"}},
		{"mem://x", []string{"nothing after mem://"}},
		{"mem://?size=1", []string{"unknown parameter size"}},
		{"s3://", []string{"no bucket"}},
		{"s3://host:9000/x", []string{"parameter endpoint"}},
		{"s3://bucket/has space", []string{"prefix", "invalid key"}},
		{"s3://bucket/x#y", []string{"#"}},
		{"s3://bucket?path_style=maybe&timeout=-1s&max_attempts=x&region=a&region=b&endpoint=", []string{
			"path_style", "timeout", "max_attempts", "region: it is given more than once", "endpoint: it is empty"}},
		{"s3://bucket?endpoint=localhost:9000", []string{"http://"}},
		{"s3://bucket?checksums=never", []string{"when_required"}},
		{"s3://bucket?secret_key=hunter2", []string{"unknown parameter secret_key", "region, endpoint"}},
		{"s3://key:hunter2@bucket/x", []string{"AWS_SECRET_ACCESS_KEY"}},
		{"s3://key:hunter2@bu cket/x", []string{"invalid"}},
		{"s3:key:hunter2@bucket/x?a=hunter2", []string{"two slashes"}},
		{"s3://bucket/x?a=hunter2;b", []string{"cannot be read"}},
	} {
		_, err := Parse(tt.url)
		if err == nil {
			t.Errorf("Parse(%q): no error", tt.url)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Parse(%q): %v\nwant %q in it", tt.url, err, want)
			}
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Parse(%q) gives the secret away: %v", tt.url, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"dir:///a?max_folders=2", "s3://b/p?endpoint=http://x&path_style=1", "mem://", "x", "s3://u:p@b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rawURL string) {
		target, err := Parse(rawURL)
		if (err == nil) == (target.Kind == "") {
			t.Fatalf("Parse(%q) = %+v, %v", rawURL, target, err)
		}
	})
}

func TestOpen(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{"mem://", "dir://" + filepath.ToSlash(t.TempDir()) + "/new", "dir://./relative/path", "bare"} {
		h, err := Open(t.Context(), url, Options{})
		if err != nil {
			t.Errorf("Open(%q): %v", url, err)
			continue
		}
		if err := store.Probe(t.Context(), h, ""); err != nil {
			t.Errorf("Open(%q): %v", url, err)
		}
		if err := h.Close(); err != nil {
			t.Errorf("Close of %q: %v", url, err)
		}
	}
	for _, path := range []string{"relative/path", "bare"} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("a relative path was not made where it belongs: %v", err)
		}
	}
	if _, err := Open(t.Context(), "ftp://x", Options{}); err == nil {
		t.Error("Open of an unknown kind: no error")
	}
}

func TestOpenS3(t *testing.T) {
	server := gateway.StartS3(t)
	h, err := Open(t.Context(), server.URL("some/prefix"), Options{S3Credentials: server.Credentials()})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := store.Probe(t.Context(), h, "probe/"); err != nil {
		t.Error(err)
	}
	if _, err := h.Put(t.Context(), "k", []byte("x"), store.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(server.Dir, server.Bucket, "some/prefix/k")); err != nil || string(data) != "x" {
		t.Errorf("the object's file holds %q, %v", data, err)
	}
}
