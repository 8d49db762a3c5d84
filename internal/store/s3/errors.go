package s3

import (
	"errors"
	"fmt"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/sluicemq/sluice/internal/store"
)

// failure is what a request that failed tells: the HTTP status (0 if no answer came) and S3's error code
// (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html).
type failure struct {
	status int
	code   string
}

func inspect(err error) failure {
	var f failure
	var response *awshttp.ResponseError
	var api smithy.APIError
	if errors.As(err, &response) {
		f.status = response.HTTPStatusCode()
	}
	if errors.As(err, &api) {
		f.code = api.ErrorCode()
	}
	return f
}

// general gives the sentinel for errors that mean the same for every request, nil if there is none.
func (f failure) general() error {
	switch f.code {
	case "NoSuchBucket":
		return store.ErrNoBucket
	case "SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests", "TooManyRequestsException":
		return store.ErrThrottled
	case "QuotaExceeded", "NoSpaceLeftOnDevice", "InsufficientCapacity", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded":
		return store.ErrFull
	}
	switch f.status {
	case http.StatusTooManyRequests:
		return store.ErrThrottled
	case http.StatusInsufficientStorage:
		return store.ErrFull
	}
	return nil
}

// readError adds the sentinel that fits to an error of a Get or List.
func readError(err error) error {
	f := inspect(err)
	sentinel := f.general()
	switch {
	case sentinel != nil:
	case f.code == "NoSuchKey":
		sentinel = store.ErrNotFound
	case f.status == http.StatusRequestedRangeNotSatisfiable:
		sentinel = store.ErrInvalidRange
	}
	return mark(err, sentinel)
}

// writeError adds the sentinel that fits to an error of a Put or Delete. An answer in the 4xx range means that nothing
// was written, with two exceptions:
//
//   - 409 ConditionalRequestConflict (OperationAborted on some servers) says that another request, a create or a
//     deletion, was under way for the key, not that it won: S3 asks to upload again. If it were ErrPrecondition, two
//     writers that hit each other, or one that hit a deletion, could both conclude that the key is taken while it is
//     free. As an unknown outcome the caller reads the key back, and tries again if it is absent. Other codes with 409
//     are no clearer: versitygw says ExistingObjectIsDirectory when a folder vanishes while it writes.
//   - 408, or 400 RequestTimeout: the server waited for the body, and what it made of it is not said.
//
// What is answered with 5xx, or not at all, may have happened or may yet happen.
func writeError(err error, cond store.Condition) error {
	f := inspect(err)
	sentinel := f.general()
	_, ifMatch := cond.Match()
	switch {
	case sentinel != nil:
	case f.status == http.StatusPreconditionFailed:
		sentinel = store.ErrPrecondition
	case f.code == "NoSuchKey" && ifMatch:
		sentinel = store.ErrPrecondition // S3 answers NoSuchKey to If-Match on a missing object
	case f.status == http.StatusConflict,
		f.status == http.StatusRequestTimeout, f.code == "RequestTimeout",
		f.status >= 500, f.status < 400 && f.status > 0,
		f.status == 0 && sent(err):
		sentinel = store.ErrUnknownOutcome
	}
	return mark(err, sentinel)
}

// sent reports whether a request that got no answer may have reached the server, so not if its credentials could not be
// had or it could not be built.
func sent(err error) bool {
	var send *smithyhttp.RequestSendError
	var canceled *smithy.CanceledError
	var answer *smithy.DeserializationError
	return errors.As(err, &send) || errors.As(err, &canceled) || errors.As(err, &answer)
}

func mark(err, sentinel error) error {
	if err == nil || sentinel == nil {
		return err
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}
