// Package s3 keeps objects in a bucket of Amazon S3 or of a server that speaks its API and keeps the promises of
// conditional writes (see store.Probe).
//
// Requests are made by the AWS SDK, so credentials, region and so on come from wherever it finds them: environment,
// shared configuration, container and instance roles. Its retries are on for reads, deletions and unconditional writes,
// with a bound, and off for conditional writes, where a retry could be refused because of the first attempt.
package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluicemq/sluice/internal/store"
)

// Defaults of Options.
const (
	DefaultMaxConnections = 64
	DefaultTimeout        = 30 * time.Second
	DefaultMaxAttempts    = 4
	// defaultRegion is what servers other than Amazon's mostly go by, when no region is configured for them.
	defaultRegion = "us-east-1"
)

// Values of Options.Checksums.
const (
	ChecksumsWhenSupported = "when_supported"
	ChecksumsWhenRequired  = "when_required"
)

// Options of a store in a bucket. Only Bucket is needed.
type Options struct {
	Bucket string
	// Prefix stands before every key, with a '/' between; it is taken off again in listings.
	Prefix string
	// Region of the bucket. Empty means what the AWS configuration says, or us-east-1 if there is an Endpoint.
	Region string
	// Endpoint is the base URL of a server other than Amazon's.
	Endpoint string
	// PathStyle puts the bucket into the path instead of the host name.
	PathStyle bool
	// Checksums says when the SDK adds and checks its own checksums: ChecksumsWhenSupported, ChecksumsWhenRequired, or
	// empty for what the AWS configuration says, and only when required if there is an Endpoint: not every server
	// understands the trailers that they come in.
	Checksums string
	// MaxConnections bounds the connections, idle or not. 0 means DefaultMaxConnections.
	MaxConnections int
	// Timeout bounds one attempt of a request, its body included. 0 means DefaultTimeout.
	Timeout time.Duration
	// MaxAttempts bounds the attempts of a request that may be retried. 0 means DefaultMaxAttempts.
	MaxAttempts int
	// Credentials to use instead of those of the AWS configuration.
	Credentials aws.CredentialsProvider
}

func (o *Options) setDefaults() {
	if o.MaxConnections == 0 {
		o.MaxConnections = DefaultMaxConnections
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = DefaultMaxAttempts
	}
	if o.Endpoint != "" && o.Checksums == "" {
		o.Checksums = ChecksumsWhenRequired
	}
	o.Prefix = strings.Trim(o.Prefix, "/")
}

// Validate reports every fault of the options.
func (o Options) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("s3: "+format, args...)) }
	if o.Bucket == "" {
		fault("no bucket is given")
	}
	if prefix := strings.Trim(o.Prefix, "/"); prefix != "" {
		if err := store.CheckKey(prefix); err != nil {
			fault("prefix: %w", err)
		}
	}
	if o.Endpoint != "" && !strings.HasPrefix(o.Endpoint, "http://") && !strings.HasPrefix(o.Endpoint, "https://") {
		fault("endpoint %q is not an http:// or https:// URL", o.Endpoint)
	}
	switch o.Checksums {
	case "", ChecksumsWhenSupported, ChecksumsWhenRequired:
	default:
		fault("checksums %q, want %s or %s", o.Checksums, ChecksumsWhenSupported, ChecksumsWhenRequired)
	}
	if o.MaxConnections < 0 {
		fault("max connections is %d, want 1 or more", o.MaxConnections)
	}
	if o.Timeout < 0 {
		fault("timeout is %v, want more than 0", o.Timeout)
	}
	if o.MaxAttempts < 0 {
		fault("max attempts is %d, want 1 or more", o.MaxAttempts)
	}
	return errors.Join(faults...)
}

// Store is a store.Store in a bucket.
type Store struct {
	client      *awss3.Client
	http        *awshttp.BuildableClient
	bucket      string
	prefix      string // "" or ends in '/'
	maxAttempts int
}

var _ store.Store = (*Store)(nil)

// Open prepares requests to a bucket. It sends none to it, store.Probe does.
func Open(ctx context.Context, opts Options) (*Store, error) {
	opts.setDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	httpClient := awshttp.NewBuildableClient().WithTimeout(opts.Timeout).WithTransportOptions(func(t *http.Transport) {
		t.MaxConnsPerHost = opts.MaxConnections
		t.MaxIdleConnsPerHost = opts.MaxConnections
		t.MaxIdleConns = opts.MaxConnections
	})
	cfg, err := config.LoadDefaultConfig(ctx, loadOptions(opts, httpClient)...)
	if err != nil {
		return nil, fmt.Errorf("s3: load the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		if opts.Endpoint == "" {
			return nil, errors.New("s3: no region is given, neither with the store nor in the AWS configuration")
		}
		cfg.Region = defaultRegion
	}
	s := &Store{http: httpClient, bucket: opts.Bucket, maxAttempts: opts.MaxAttempts}
	if opts.Prefix != "" {
		s.prefix = opts.Prefix + "/"
	}
	s.client = awss3.NewFromConfig(cfg, func(o *awss3.Options) {
		o.UsePathStyle = opts.PathStyle
		if opts.Endpoint != "" {
			o.BaseEndpoint = aws.String(opts.Endpoint)
		}
		// Objects of servers without checksums would each be worth a warning.
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	return s, nil
}

func loadOptions(opts Options, httpClient *awshttp.BuildableClient) []func(*config.LoadOptions) error {
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(httpClient),
		config.WithRetryMode(aws.RetryModeStandard),
		config.WithRetryMaxAttempts(opts.MaxAttempts),
		config.WithAppID("sluice"),
	}
	if opts.Region != "" {
		load = append(load, config.WithRegion(opts.Region))
	}
	if opts.Credentials != nil {
		load = append(load, config.WithCredentialsProvider(opts.Credentials))
	}
	switch opts.Checksums {
	case ChecksumsWhenSupported:
		load = append(load,
			config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenSupported),
			config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenSupported))
	case ChecksumsWhenRequired:
		load = append(load,
			config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
			config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired))
	}
	return load
}

// Close closes idle connections.
func (s *Store) Close() error {
	if t := s.http.GetTransport(); t != nil {
		t.CloseIdleConnections()
	}
	return nil
}

// fullKey checks a key and puts the prefix before it.
func (s *Store) fullKey(ctx context.Context, key string) (string, error) {
	if err := store.CheckKey(key); err != nil {
		return "", err
	}
	if n := len(s.prefix) + len(key); n > store.MaxKeyBytes {
		return "", fmt.Errorf("%w: %d bytes with the prefix, want at most %d", store.ErrInvalidKey, n, store.MaxKeyBytes)
	}
	return s.prefix + key, ctx.Err()
}
