package gateway

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
)

func TestRestart(t *testing.T) {
	s := StartS3(t)
	key := "a/key"
	if _, err := s.client().PutObject(t.Context(), &awss3.PutObjectInput{
		Bucket: &s.Bucket, Key: &key, Body: bytes.NewReader([]byte("kept")),
	}); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if _, err := s.client().ListBuckets(t.Context(), nil, func(o *awss3.Options) { o.RetryMaxAttempts = 1 }); err == nil {
		t.Error("a server that was stopped answers")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	out, err := s.client().GetObject(t.Context(), &awss3.GetObjectInput{Bucket: &s.Bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	if data, err := io.ReadAll(out.Body); err != nil || string(data) != "kept" {
		t.Errorf("after a restart the object holds %q, %v", data, err)
	}
}

func TestEnviron(t *testing.T) {
	t.Setenv("AWS_PROFILE", "somebody")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "theirs")
	s := &S3{AccessKey: "a", SecretKey: "ours"}
	env := s.Environ()
	if !slices.Contains(env, "AWS_SECRET_ACCESS_KEY=ours") || strings.Contains(strings.Join(env, "\n"), "theirs") ||
		strings.Contains(strings.Join(env, "\n"), "somebody") {
		t.Errorf("Environ does not replace the AWS settings: %v", env)
	}
}
