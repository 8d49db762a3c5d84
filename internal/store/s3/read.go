package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluicemq/sluice/internal/store"
)

// maxPrealloc bounds the memory that is set aside for a body on the word of its header alone.
const maxPrealloc = 64 << 20

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	full, err := s.fullKey(ctx, key)
	if err == nil {
		var obj store.Object
		obj, err = s.read(ctx, &awss3.GetObjectInput{Bucket: &s.bucket, Key: &full})
		if err == nil {
			return obj, nil
		}
	}
	return store.Object{}, fmt.Errorf("s3: get %s: %w", key, err)
}

// GetRange implements store.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	data, err := s.getRange(ctx, key, offset, length)
	if err != nil {
		return nil, fmt.Errorf("s3: get range of %s: %w", key, err)
	}
	return data, nil
}

func (s *Store) getRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := store.CheckRange(offset, length); err != nil {
		return nil, err
	}
	full, err := s.fullKey(ctx, key)
	if err != nil {
		return nil, err
	}
	obj, err := s.read(ctx, &awss3.GetObjectInput{
		Bucket: &s.bucket,
		Key:    &full,
		Range:  aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)),
	})
	if err != nil {
		return nil, err
	}
	if int64(len(obj.Data)) > length {
		return nil, fmt.Errorf("asked for %d bytes, got %d: the server does not heed ranges", length, len(obj.Data))
	}
	if len(obj.Data) == 0 {
		// Some servers answer so instead of with 416, at the end of an object.
		return nil, fmt.Errorf("%w: offset %d", store.ErrInvalidRange, offset)
	}
	return obj.Data, nil
}

// errBody marks a body that broke off, which the SDK no longer retries.
var errBody = errors.New("read the body")

// read makes a GetObject request, again if its body breaks off.
func (s *Store) read(ctx context.Context, in *awss3.GetObjectInput) (obj store.Object, err error) {
	for range s.maxAttempts {
		obj, err = s.readOnce(ctx, in)
		if !errors.Is(err, errBody) || ctx.Err() != nil {
			break
		}
	}
	return obj, err
}

func (s *Store) readOnce(ctx context.Context, in *awss3.GetObjectInput) (store.Object, error) {
	out, err := s.client.GetObject(ctx, in)
	if err != nil {
		return store.Object{}, readError(err)
	}
	defer out.Body.Close()
	if in.Range != nil && out.ContentRange == nil && !strings.HasPrefix(*in.Range, "bytes=0-") {
		return store.Object{}, errors.New("the whole object was sent instead of a range of it: the server does not heed ranges")
	}
	data, err := readBody(out.Body, aws.ToInt64(out.ContentLength))
	if err != nil {
		return store.Object{}, fmt.Errorf("%w: %w", errBody, err)
	}
	if out.ContentLength != nil && int64(len(data)) != *out.ContentLength {
		return store.Object{}, fmt.Errorf("%w: %d of %d bytes: %w", errBody, len(data), *out.ContentLength, io.ErrUnexpectedEOF)
	}
	return store.Object{Data: data, ETag: etag(out.ETag)}, nil
}

func readBody(body io.Reader, size int64) ([]byte, error) {
	var buf bytes.Buffer
	// ReadFrom wants some room beyond the end, to see that it is the end.
	buf.Grow(int(min(size, maxPrealloc)) + bytes.MinRead)
	_, err := buf.ReadFrom(body)
	return buf.Bytes(), err
}

// etag takes the quotes off, with which some servers write ETags in one place and not in another.
func etag(s *string) string { return strings.Trim(aws.ToString(s), `"`) }

// maxEmptyPages bounds the pages without keys that are skipped in one List.
const maxEmptyPages = 100

// List implements store.Store.
func (s *Store) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	page, err := s.list(ctx, opts)
	if err != nil {
		return store.Page{}, fmt.Errorf("s3: list %s: %w", opts.Prefix, err)
	}
	return page, nil
}

func (s *Store) list(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	if err := ctx.Err(); err != nil {
		return store.Page{}, err
	}
	if !possiblePrefix(opts.Prefix) {
		return store.Page{}, nil
	}
	in := &awss3.ListObjectsV2Input{
		Bucket:  &s.bucket,
		Prefix:  aws.String(s.prefix + opts.Prefix),
		MaxKeys: aws.Int32(int32(opts.PageLimit())),
	}
	if opts.StartAfter != "" {
		in.StartAfter = aws.String(s.prefix + opts.StartAfter)
	}
	for range maxEmptyPages {
		out, err := s.client.ListObjectsV2(ctx, in)
		if err != nil {
			return store.Page{}, readError(err)
		}
		page := store.Page{More: aws.ToBool(out.IsTruncated)}
		for _, obj := range out.Contents {
			key, ok := strings.CutPrefix(aws.ToString(obj.Key), s.prefix)
			if !ok || !opts.Wanted(key) {
				return store.Page{}, fmt.Errorf("the server lists %q, which was not asked for", aws.ToString(obj.Key))
			}
			if store.CheckKey(key) != nil || temporary(key) {
				continue // not ours, such as the "folder/" objects that some tools make
			}
			page.Objects = append(page.Objects, store.Attributes{Key: key, Size: aws.ToInt64(obj.Size), ETag: etag(obj.ETag)})
		}
		if len(page.Objects) > 0 || !page.More {
			return page, nil
		}
		// Nothing of ours in this page: the caller could not go on from it.
		in.ContinuationToken, in.StartAfter = out.NextContinuationToken, nil
	}
	return store.Page{}, fmt.Errorf("%d pages without a key", maxEmptyPages)
}

// temporary tells the files in which versitygw (v1.8.0) prepares the replacement of an object, and which it shows in
// listings for that moment as ".name.sgwtmp.123" beside the object.
func temporary(key string) bool {
	name := path.Base(key)
	return strings.HasPrefix(name, ".") && strings.Contains(name, ".sgwtmp.")
}

// possiblePrefix reports whether a key could start with it. Others are not worth a request, and some servers refuse
// them.
func possiblePrefix(prefix string) bool {
	if prefix == "" {
		return true
	}
	return store.CheckKey(strings.TrimSuffix(prefix, "/")+"x") == nil || store.CheckKey(strings.TrimSuffix(prefix, "/")) == nil
}
