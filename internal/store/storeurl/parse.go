package storeurl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/store/dir"
	"github.com/sluicemq/sluice/internal/store/mem"
	"github.com/sluicemq/sluice/internal/store/s3"
)

// Parse reads a store's URL and reports every fault. It opens nothing.
func Parse(rawURL string) (Target, error) {
	target, err := parse(rawURL)
	if err != nil {
		return Target{}, fmt.Errorf("store URL: %w", err)
	}
	return target, nil
}

func parse(rawURL string) (Target, error) {
	if rawURL == "" {
		return Target{}, errors.New("it is empty; want dir:///path, s3://bucket/prefix or mem://")
	}
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		for _, kind := range []Kind{Dir, S3, Mem} {
			if strings.HasPrefix(rawURL, string(kind)+":") {
				return Target{}, fmt.Errorf("%q: want %s:// with two slashes", redact(rawURL), kind)
			}
		}
		return Target{Kind: Dir, Dir: dir.Options{Path: rawURL}}, nil // a bare path, taken as it is
	}
	switch Kind(scheme) {
	case Dir:
		return parseDir(rest)
	case S3:
		return parseS3(rawURL)
	case Mem:
		return parseMem(rest)
	}
	return Target{}, fmt.Errorf("no such kind of store: %q; want dir, s3 or mem", scheme)
}

// redact cuts off everything that may hold a secret.
func redact(rawURL string) string {
	rawURL, _, _ = strings.Cut(rawURL, "?")
	if i := strings.LastIndex(rawURL, "@"); i >= 0 {
		return "...@" + rawURL[i+1:]
	}
	return rawURL
}

func parseDir(rest string) (Target, error) {
	path, query, _ := strings.Cut(rest, "?")
	target := Target{Kind: Dir}
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return Target{}, fmt.Errorf("dir://%s: %w", path, err)
	}
	var faults []error
	first, _, _ := strings.Cut(decoded, "/")
	switch {
	case decoded == "" || strings.ContainsRune(decoded, 0):
		faults = append(faults, errors.New("dir:// needs a path, as in dir:///var/lib/sluice or dir://./data"))
	case first != "" && first != "." && first != "..":
		faults = append(faults, fmt.Errorf("dir://%s: write dir:///%s for the absolute path or dir://./%s for the relative one", path, path, path))
	}
	target.Dir.Path = decoded
	p, err := newParameters("dir", query, "max_folders")
	if err != nil {
		return Target{}, errors.Join(append(faults, err)...)
	}
	p.integer("max_folders", func(n int64) { target.Dir.MaxFolders = int(n) })
	faults = append(faults, p.faults...)
	if len(faults) == 0 {
		faults = append(faults, target.Dir.Validate())
	}
	return target, errors.Join(faults...)
}

func parseMem(rest string) (Target, error) {
	host, query, _ := strings.Cut(rest, "?")
	if host != "" {
		return Target{}, fmt.Errorf("mem://%s: want nothing after mem:// but parameters", host)
	}
	p, err := newParameters("mem", query, "max_bytes")
	if err != nil {
		return Target{}, err
	}
	target := Target{Kind: Mem, Mem: mem.Options{}}
	p.integer("max_bytes", func(n int64) { target.Mem.MaxBytes = n })
	return target, errors.Join(p.faults...)
}

func parseS3(rawURL string) (Target, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		var urlErr *url.Error
		if errors.As(err, &urlErr) {
			err = urlErr.Err // without the URL, which may hold a secret
		}
		return Target{}, fmt.Errorf("s3: %w", err)
	}
	var faults []error
	if u.User != nil {
		faults = append(faults, errors.New("s3: credentials do not belong into the URL: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a profile or a role"))
	}
	if u.Port() != "" {
		faults = append(faults, fmt.Errorf("s3: %q is no bucket: the server belongs into the parameter endpoint", u.Host))
	}
	if u.Fragment != "" {
		faults = append(faults, errors.New("s3: want nothing after a #"))
	}
	p, err := newParameters("s3", u.RawQuery,
		"region", "endpoint", "path_style", "checksums", "max_connections", "max_attempts", "timeout")
	if err != nil {
		return Target{}, errors.Join(append(faults, err)...)
	}
	target := Target{Kind: S3, S3: s3.Options{Bucket: u.Hostname(), Prefix: strings.Trim(u.Path, "/")}}
	o := &target.S3
	o.Region, o.Endpoint, o.Checksums = p.values.Get("region"), p.values.Get("endpoint"), p.values.Get("checksums")
	p.boolean("path_style", func(b bool) { o.PathStyle = b })
	p.integer("max_connections", func(n int64) { o.MaxConnections = int(n) })
	p.integer("max_attempts", func(n int64) { o.MaxAttempts = int(n) })
	p.duration("timeout", func(d time.Duration) { o.Timeout = d })
	return target, errors.Join(append(append(faults, p.faults...), o.Validate())...)
}

// parameters are those of one URL, with the faults found in them.
type parameters struct {
	kind   string
	values url.Values
	faults []error
}

// newParameters reads a query in which only known names may stand. Values are not repeated in its errors: what somebody
// took for a parameter may be a secret.
func newParameters(kind, query string, known ...string) (*parameters, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("%s: the parameters cannot be read", kind)
	}
	p := &parameters{kind: kind, values: values}
	var unknown []string
	for name, all := range values {
		switch {
		case !slices.Contains(known, name):
			unknown = append(unknown, name)
		case len(all) > 1:
			p.fault(name, errors.New("it is given more than once"))
		case all[0] == "":
			p.fault(name, errors.New("it is empty"))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		p.faults = append(p.faults, fmt.Errorf("%s: unknown parameter %s; known are %s",
			kind, strings.Join(unknown, ", "), strings.Join(known, ", ")))
	}
	return p, nil
}

func (p *parameters) fault(name string, err error) {
	p.faults = append(p.faults, fmt.Errorf("%s: parameter %s: %w", p.kind, name, err))
}

func (p *parameters) boolean(name string, set func(bool)) {
	if value := p.values.Get(name); value != "" {
		b, err := strconv.ParseBool(value)
		if err != nil {
			p.fault(name, fmt.Errorf("%q, want true or false", value))
			return
		}
		set(b)
	}
}

// maxInteger bounds the numbers, so that they fit an int on every machine but for sizes in bytes.
const maxInteger = 1 << 50

func (p *parameters) integer(name string, set func(int64)) {
	if value := p.values.Get(name); value != "" {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 || n > maxInteger {
			p.fault(name, fmt.Errorf("%q, want a number of 1 or more", value))
			return
		}
		set(n)
	}
}

func (p *parameters) duration(name string, set func(time.Duration)) {
	if value := p.values.Get(name); value != "" {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			p.fault(name, fmt.Errorf("%q, want a duration such as 30s", value))
			return
		}
		set(d)
	}
}
