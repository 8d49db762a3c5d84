package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluicemq/sluice/internal/store"
)

// Put implements store.Store. A conditional Put is one attempt.
func (s *Store) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	tag, err := s.put(ctx, key, data, cond)
	if err != nil {
		return "", fmt.Errorf("s3: put %s (%v): %w", key, cond, err)
	}
	return tag, nil
}

func (s *Store) put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	full, err := s.fullKey(ctx, key)
	if err != nil {
		return "", err
	}
	in := &awss3.PutObjectInput{
		Bucket:        &s.bucket,
		Key:           &full,
		Body:          bytes.NewReader(data),
		ContentLength: aws.Int64(int64(len(data))),
	}
	var once []func(*awss3.Options)
	if !cond.IsAlways() {
		once = append(once, func(o *awss3.Options) { o.Retryer = aws.NopRetryer{} })
	}
	if cond.IsAbsent() {
		in.IfNoneMatch = aws.String("*")
	}
	if match, ok := cond.Match(); ok {
		in.IfMatch = aws.String(`"` + match + `"`)
	}
	out, err := s.client.PutObject(ctx, in, once...)
	if err != nil {
		return "", writeError(err, cond)
	}
	return etag(out.ETag), nil
}

// deleteGroup is the most keys of one DeleteObjects request.
const deleteGroup = 1000

// Delete implements store.Store, with one request for each 1000 keys.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	objects := make([]types.ObjectIdentifier, 0, len(keys))
	for _, key := range keys {
		full, err := s.fullKey(ctx, key)
		if err != nil {
			return fmt.Errorf("s3: delete: %w", err)
		}
		objects = append(objects, types.ObjectIdentifier{Key: &full})
	}
	for group := range slices.Chunk(objects, deleteGroup) {
		if err := s.deleteGroup(ctx, group); err != nil {
			return fmt.Errorf("s3: delete %d keys from %s on: %w", len(group), aws.ToString(group[0].Key), err)
		}
	}
	return nil
}

func (s *Store) deleteGroup(ctx context.Context, group []types.ObjectIdentifier) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	out, err := s.client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{
		Bucket: &s.bucket,
		Delete: &types.Delete{Objects: group, Quiet: aws.Bool(true)},
	})
	if err != nil {
		return writeError(err, store.Always())
	}
	// The answer is 200 even if no key could be deleted.
	const maxShown = 5
	var faults []error
	for _, e := range out.Errors {
		code := aws.ToString(e.Code)
		if code == "NoSuchKey" {
			continue
		}
		if len(faults) == maxShown {
			faults = append(faults, errors.New("and more"))
			break
		}
		err := fmt.Errorf("%s: %s: %s", aws.ToString(e.Key), code, aws.ToString(e.Message))
		faults = append(faults, mark(err, failure{code: code}.general()))
	}
	return errors.Join(faults...)
}
