// Package gateway starts a real S3 server for tests: versitygw (https://github.com/versity/versitygw) on a folder of
// the test, on a free port of the loopback interface.
package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	// BinaryEnv names the server's binary, if it is not in the PATH as "versitygw".
	BinaryEnv = "SLUICE_TEST_VERSITYGW"

	// lifetime bounds the server, should the test never end.
	lifetime = 15 * time.Minute
	// startTimeout bounds the time until it answers.
	startTimeout = 20 * time.Second
	startTries   = 3
	pollInterval = 10 * time.Millisecond
)

// S3 is a running server with one empty bucket.
type S3 struct {
	Endpoint  string // http://127.0.0.1:port
	Region    string
	Bucket    string
	AccessKey string
	SecretKey string
	// Dir holds the bucket's folder, with the objects as files.
	Dir string

	port   int
	binary string

	// mu guards the following.
	mu      sync.Mutex
	stop    context.CancelFunc
	stopped chan struct{}
}

// StartS3 starts a server that ends with the test, or skips the test if there is none on this machine.
//
// It takes AWS_CA_BUNDLE out of the environment of this process: the file that it names may be missing, and the server
// does not speak TLS.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	binary := os.Getenv(BinaryEnv)
	if binary == "" {
		found, err := exec.LookPath("versitygw")
		if err != nil {
			t.Skipf("needs an S3 server: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0, or name it in %s", BinaryEnv)
		}
		binary = found
	}
	if err := os.Unsetenv("AWS_CA_BUNDLE"); err != nil {
		t.Fatal(err)
	}
	s := &S3{
		Region: "us-east-1", Bucket: "sluice-test", AccessKey: "test-access", SecretKey: "test-secret-key",
		Dir: t.TempDir(), binary: binary,
	}
	t.Cleanup(s.Stop)
	var err error
	for range startTries { // another process may take the port first
		if s.port, err = freePort(); err != nil {
			continue
		}
		s.Endpoint = fmt.Sprintf("http://127.0.0.1:%d", s.port)
		if err = s.Start(); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("start the S3 server: %v", err)
	}
	if _, err := s.client().CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &s.Bucket}); err != nil {
		t.Fatalf("create the bucket: %v", err)
	}
	return s
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Start starts the server again after a Stop, on the same port and objects.
func (s *S3) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), lifetime)
	cmd := exec.CommandContext(ctx, s.binary,
		"--port", fmt.Sprintf("127.0.0.1:%d", s.port), "--quiet", "--health", "/health", "posix", s.Dir)
	cmd.Env = append(withoutAWS(os.Environ()), "ROOT_ACCESS_KEY="+s.AccessKey, "ROOT_SECRET_KEY="+s.SecretKey)
	output, err := os.CreateTemp(filepath.Dir(s.Dir), "s3-log")
	if err != nil {
		cancel()
		return err
	}
	cmd.Stdout, cmd.Stderr = output, output
	endWithParent(cmd)

	stopped := make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(stopped)
		defer output.Close()
		runOnThread(func() {
			err := cmd.Start()
			started <- err
			if err == nil {
				_ = cmd.Wait() // killed, or the reason is in the output
			}
		})
	}()
	if err := <-started; err != nil {
		cancel()
		return err
	}
	s.mu.Lock()
	s.stop, s.stopped = cancel, stopped
	s.mu.Unlock()
	if err := s.waitHealthy(stopped); err != nil {
		s.Stop()
		log, _ := os.ReadFile(output.Name())
		return fmt.Errorf("%w; its output: %s", err, log)
	}
	return nil
}

func (s *S3) waitHealthy(stopped <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/health", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-stopped:
			return fmt.Errorf("%s ended at once", s.binary)
		case <-ctx.Done():
			return fmt.Errorf("%s is not healthy after %v: %w", s.binary, startTimeout, err)
		}
	}
}

// Stop kills the server, as a power loss of its machine would, and waits until it is gone.
func (s *S3) Stop() {
	s.mu.Lock()
	stop, stopped := s.stop, s.stopped
	s.mu.Unlock()
	if stop != nil {
		stop()
		<-stopped
	}
}

// URL is the store's URL for a prefix of the bucket. It holds no credentials: see Credentials and Environ.
func (s *S3) URL(prefix string) string {
	query := url.Values{"region": {s.Region}, "endpoint": {s.Endpoint}, "path_style": {"true"}}
	return "s3://" + s.Bucket + "/" + prefix + "?" + query.Encode()
}

// Credentials gives the server's only user.
func (s *S3) Credentials() aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey}, nil
	})
}

// Environ is the environment for a process that is to use the server: this one's, with the AWS settings replaced.
func (s *S3) Environ() []string {
	return append(withoutAWS(os.Environ()),
		"AWS_ACCESS_KEY_ID="+s.AccessKey, "AWS_SECRET_ACCESS_KEY="+s.SecretKey, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)
}

func withoutAWS(environ []string) []string {
	var kept []string
	for _, pair := range environ {
		if !strings.HasPrefix(pair, "AWS_") {
			kept = append(kept, pair)
		}
	}
	return kept
}

func (s *S3) client() *awss3.Client {
	return awss3.New(awss3.Options{
		Region: s.Region, BaseEndpoint: aws.String(s.Endpoint), UsePathStyle: true, Credentials: s.Credentials(),
	})
}
