package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/sluicemq/sluice/internal/store"
)

func TestMain(m *testing.M) {
	// It may name a file that is not there, and no server here speaks TLS.
	_ = os.Unsetenv("AWS_CA_BUNDLE")
	os.Exit(m.Run())
}

// fake is a server that answers every request the same way, and counts them.
type fake struct {
	*httptest.Server
	requests atomic.Int64
}

func newFake(t *testing.T, answer http.HandlerFunc) *fake {
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		answer(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) open(t *testing.T, change func(*Options)) *Store {
	t.Helper()
	opts := Options{
		Bucket: "bucket", Endpoint: f.URL, PathStyle: true, MaxAttempts: 2,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "s"}, nil
		}),
	}
	if change != nil {
		change(&opts)
	}
	s, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func answerError(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		if code != "" {
			fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>m</Message></Error>`, code)
		}
	}
}

func answerReset(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }

var sentinels = []error{
	store.ErrNotFound, store.ErrPrecondition, store.ErrUnknownOutcome, store.ErrThrottled, store.ErrInvalidKey,
	store.ErrInvalidRange, store.ErrFull, store.ErrNoBucket,
}

// wantOnly checks that an error wraps one sentinel, or none of them.
func wantOnly(t *testing.T, what string, err, want error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want %v", what, want)
	}
	for _, sentinel := range sentinels {
		if is := errors.Is(err, sentinel); is != (sentinel == want) {
			t.Errorf("%s: errors.Is(%q, %v) = %v", what, err, sentinel, is)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name              string
		answer            http.HandlerFunc
		create, match     error
		get, list, delete error
		retried           bool // where retries are on
	}{
		{name: "412", answer: answerError(412, "PreconditionFailed"),
			create: store.ErrPrecondition, match: store.ErrPrecondition, delete: store.ErrPrecondition},
		{name: "404 key", answer: answerError(404, "NoSuchKey"), match: store.ErrPrecondition, get: store.ErrNotFound, list: store.ErrNotFound},
		{name: "404 bucket", answer: answerError(404, "NoSuchBucket"),
			create: store.ErrNoBucket, match: store.ErrNoBucket, get: store.ErrNoBucket, list: store.ErrNoBucket, delete: store.ErrNoBucket},
		{name: "404 of something else", answer: answerError(404, "")},
		{name: "409 conflict", answer: answerError(409, "ConditionalRequestConflict"),
			create: store.ErrUnknownOutcome, match: store.ErrUnknownOutcome, delete: store.ErrUnknownOutcome},
		{name: "409 aborted", answer: answerError(409, "OperationAborted"),
			create: store.ErrUnknownOutcome, match: store.ErrUnknownOutcome, delete: store.ErrUnknownOutcome},
		{name: "409 of another kind", answer: answerError(409, "ExistingObjectIsDirectory"),
			create: store.ErrUnknownOutcome, match: store.ErrUnknownOutcome, delete: store.ErrUnknownOutcome},
		{name: "416", answer: answerError(416, "InvalidRange"), get: store.ErrInvalidRange, list: store.ErrInvalidRange},
		{name: "503 slow down", answer: answerError(503, "SlowDown"), retried: true,
			create: store.ErrThrottled, match: store.ErrThrottled, get: store.ErrThrottled, list: store.ErrThrottled, delete: store.ErrThrottled},
		{name: "429", answer: answerError(429, ""), retried: true,
			create: store.ErrThrottled, match: store.ErrThrottled, get: store.ErrThrottled, list: store.ErrThrottled, delete: store.ErrThrottled},
		{name: "503", answer: answerError(503, "ServiceUnavailable"), retried: true,
			create: store.ErrUnknownOutcome, match: store.ErrUnknownOutcome, delete: store.ErrUnknownOutcome},
		{name: "500", answer: answerError(500, "InternalError"), retried: true,
			create: store.ErrUnknownOutcome, match: store.ErrUnknownOutcome, delete: store.ErrUnknownOutcome},
		{name: "502 of a proxy", answer: answerError(502, ""), retried: true,
			create: store.ErrUnknownOutcome, match: store.ErrUnknownOutcome, delete: store.ErrUnknownOutcome},
		{name: "400 request timeout", answer: answerError(400, "RequestTimeout"), retried: true,
			create: store.ErrUnknownOutcome, match: store.ErrUnknownOutcome, delete: store.ErrUnknownOutcome},
		{name: "507", answer: answerError(507, ""),
			create: store.ErrFull, match: store.ErrFull, get: store.ErrFull, list: store.ErrFull, delete: store.ErrFull},
		{name: "quota", answer: answerError(403, "QuotaExceeded"),
			create: store.ErrFull, match: store.ErrFull, get: store.ErrFull, list: store.ErrFull, delete: store.ErrFull},
		{name: "403", answer: answerError(403, "AccessDenied")},
		{name: "reset", answer: answerReset, retried: true,
			create: store.ErrUnknownOutcome, match: store.ErrUnknownOutcome, delete: store.ErrUnknownOutcome},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // the SDK waits between attempts
			server := newFake(t, tt.answer)
			s := server.open(t, nil)
			ctx := t.Context()
			count := func(what string, want int64) {
				t.Helper()
				if n := server.requests.Swap(0); n != want && (want != 2 || n < 2) {
					t.Errorf("%s: %d attempts, want %d", what, n, want)
				}
			}
			_, err := s.Put(ctx, "k", []byte("data"), store.IfAbsent())
			wantOnly(t, "create", err, tt.create)
			count("create", 1)
			_, err = s.Put(ctx, "k", []byte("data"), store.IfMatch("e"))
			wantOnly(t, "if-match", err, tt.match)
			count("if-match", 1)

			attempts := int64(1)
			if tt.retried {
				attempts = 2
			}
			_, err = s.Get(ctx, "k")
			wantOnly(t, "get", err, tt.get)
			count("get", attempts)
			_, err = s.List(ctx, store.ListOptions{})
			wantOnly(t, "list", err, tt.list)
			wantOnly(t, "delete", s.Delete(ctx, "k"), tt.delete)
		})
	}
}

func TestTimeouts(t *testing.T) {
	release := make(chan struct{})
	server := newFake(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)

	s := server.open(t, func(o *Options) { o.Timeout = 50 * time.Millisecond; o.MaxAttempts = 1 })
	_, err := s.Put(t.Context(), "k", []byte("data"), store.IfAbsent())
	wantOnly(t, "create beyond the time limit", err, store.ErrUnknownOutcome)
	_, err = s.Get(t.Context(), "k")
	wantOnly(t, "get beyond the time limit", err, nil)

	s = server.open(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = s.Put(ctx, "k", []byte("data"), store.IfAbsent())
	wantOnly(t, "create whose context ends", err, store.ErrUnknownOutcome)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("create whose context ends: %v, want it to say so", err)
	}
}

func TestUnreachable(t *testing.T) {
	server := newFake(t, answerReset)
	s := server.open(t, func(o *Options) { o.MaxAttempts = 1 })
	server.Close()
	_, err := s.Put(t.Context(), "k", nil, store.IfAbsent())
	wantOnly(t, "create on a server that is gone", err, store.ErrUnknownOutcome)
	_, err = s.Get(t.Context(), "k")
	wantOnly(t, "get on a server that is gone", err, nil)
}

func TestNoCredentials(t *testing.T) {
	server := newFake(t, answerReset)
	s := server.open(t, func(o *Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("no credentials here")
		})
	})
	_, err := s.Put(t.Context(), "k", nil, store.IfAbsent())
	wantOnly(t, "create without credentials", err, nil)
	if n := server.requests.Load(); n != 0 {
		t.Errorf("%d requests without credentials", n)
	}
}

// A body that breaks off is read again, which the SDK does not do, and is never taken for the whole.
func TestTornBody(t *testing.T) {
	body := strings.Repeat("body", 1000)
	var torn atomic.Int64 // bodies still to be torn
	server := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Header().Set("ETag", `"etag"`)
		if torn.Add(-1) >= 0 {
			_, _ = io.WriteString(w, body[:1000])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, body)
	})
	s := server.open(t, func(o *Options) { o.MaxAttempts = 3 })
	torn.Store(2)
	obj, err := s.Get(t.Context(), "k")
	if err != nil || string(obj.Data) != body || obj.ETag != "etag" {
		t.Errorf("Get over two torn bodies: %d bytes, ETag %s, %v", len(obj.Data), obj.ETag, err)
	}
	torn.Store(100)
	_, err = s.Get(t.Context(), "k")
	wantOnly(t, "Get of torn bodies only", err, nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Get of torn bodies only: %v, want an unexpected EOF", err)
	}
	if n := 100 - torn.Load(); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
	torn.Store(0)
	if _, err := s.GetRange(t.Context(), "k", 5, 10); err == nil {
		t.Error("GetRange was answered with the whole object: no error")
	}
}

func TestDeleteReportsKeys(t *testing.T) {
	server := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `<DeleteResult>
			<Error><Key>gone</Key><Code>NoSuchKey</Code></Error>
			<Error><Key>slow</Key><Code>SlowDown</Code></Error>
			<Error><Key>kept</Key><Code>AccessDenied</Code><Message>denied</Message></Error>
		</DeleteResult>`)
	})
	err := server.open(t, nil).Delete(t.Context(), "gone", "slow", "kept")
	wantOnly(t, "Delete", err, store.ErrThrottled)
	for _, want := range []string{"kept: AccessDenied: denied", "slow"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Delete: %v, does not tell of %s", err, want)
		}
	}
}

func TestListSkipsWhatIsNotOurs(t *testing.T) {
	pages := []string{
		`<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>next</NextContinuationToken>
			<Contents><Key>p/folder/</Key></Contents><Contents><Key>p/has space</Key></Contents><Contents><Key>p/.key.sgwtmp.17</Key></Contents></ListBucketResult>`,
		`<ListBucketResult><IsTruncated>false</IsTruncated>
			<Contents><Key>p/key</Key><Size>7</Size><ETag>"e"</ETag></Contents></ListBucketResult>`,
	}
	server := newFake(t, nil)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := 0
		if r.URL.Query().Get("continuation-token") == "next" {
			page = 1
		}
		_, _ = io.WriteString(w, pages[page])
	})
	page, err := server.open(t, func(o *Options) { o.Prefix = "/p/" }).List(t.Context(), store.ListOptions{})
	want := store.Attributes{Key: "key", Size: 7, ETag: "e"}
	if err != nil || len(page.Objects) != 1 || page.Objects[0] != want || page.More {
		t.Errorf("List = %+v, %v, want %+v", page, err, want)
	}
}

func TestOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		opts Options
		want []string // parts of the error
	}{
		"no bucket":    {Options{}, []string{"no bucket"}},
		"no region":    {Options{Bucket: "b"}, []string{"no region"}},
		"every fault":  {Options{Prefix: "a b", Endpoint: "x", Checksums: "y", MaxConnections: -1, Timeout: -1, MaxAttempts: -1}, []string{"bucket", "prefix", "endpoint", "checksums", "connections", "timeout", "attempts"}},
		"good options": {Options{Bucket: "b", Region: "r", Prefix: "/a/b/"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, env := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"} {
				t.Setenv(env, "")
			}
			t.Setenv("AWS_CONFIG_FILE", "/dev/null")
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
			_, err := Open(t.Context(), tt.opts)
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("Open: %v, want an error with %q", err, tt.want)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Open: %v, want it to tell of the %s", err, part)
				}
			}
		})
	}
}
