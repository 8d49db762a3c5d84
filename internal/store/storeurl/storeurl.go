// Package storeurl opens a store by its URL:
//
//	dir:///absolute/path, dir://./relative/path, or a bare path    a folder (see package dir)
//	s3://bucket/prefix?parameters                                  a bucket (see package s3)
//	mem://?parameters                                              memory (see package mem)
//
// Parameters of s3: region, endpoint, path_style (true, false), checksums (when_supported, when_required),
// max_connections, max_attempts, timeout (of one attempt, as "30s"). Of dir: max_folders. Of mem: max_bytes. Credentials
// are not taken from a URL, which gets into logs and process lists, but from where the AWS SDK finds them.
package storeurl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/dir"
	"github.com/sluicemq/sluice/internal/store/mem"
	"github.com/sluicemq/sluice/internal/store/s3"
)

// Kind is where a store keeps its objects.
type Kind string

// The kinds, by the scheme of their URLs.
const (
	Dir Kind = "dir"
	S3  Kind = "s3"
	Mem Kind = "mem"
)

// Target is a parsed URL: the kind, and the options of that kind.
type Target struct {
	Kind Kind
	Dir  dir.Options
	S3   s3.Options
	Mem  mem.Options
}

// Location says for people where the objects are, without secrets.
func (t Target) Location() string {
	switch t.Kind {
	case Dir:
		if path, err := filepath.Abs(t.Dir.Path); err == nil {
			return path
		}
		return t.Dir.Path
	case S3:
		location := "s3://" + t.S3.Bucket
		if prefix := strings.Trim(t.S3.Prefix, "/"); prefix != "" {
			location += "/" + prefix
		}
		if t.S3.Endpoint != "" {
			location += " at " + t.S3.Endpoint
		}
		return location
	default:
		return "memory, nothing is kept"
	}
}

// Options of Open.
type Options struct {
	// S3Credentials to use instead of those that the AWS SDK finds.
	S3Credentials aws.CredentialsProvider
}

// Handle is an open store, with what its user wants to know beside the objects.
type Handle struct {
	store.Store
	Target

	close func() error
}

// Close releases what the store holds: files, connections. No method may be running or called later.
func (h *Handle) Close() error { return h.close() }

// Open opens the store of a URL. It does not check what the store promises: see store.Probe.
func Open(ctx context.Context, rawURL string, opts Options) (*Handle, error) {
	target, err := Parse(rawURL)
	if err != nil {
		return nil, err
	}
	h := &Handle{Target: target, close: func() error { return nil }}
	switch target.Kind {
	case Dir:
		s, err := dir.Open(ctx, target.Dir)
		if err != nil {
			return nil, err
		}
		h.Store, h.close = s, s.Close
	case S3:
		target.S3.Credentials = opts.S3Credentials
		s, err := s3.Open(ctx, target.S3)
		if err != nil {
			return nil, err
		}
		h.Store, h.close = s, s.Close
	case Mem:
		s, err := mem.New(target.Mem)
		if err != nil {
			return nil, err
		}
		h.Store = s
	default:
		return nil, fmt.Errorf("store URL: %w", errors.ErrUnsupported)
	}
	return h, nil
}
