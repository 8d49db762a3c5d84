// Package store is the border to durable storage: a flat space of keys and immutable-by-convention objects with the
// conditional writes of S3 (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-requests.html).
//
// Everything above it relies on four properties, which the start-up probe ([Probe]) and the acceptance suite
// (storetest) check: a Put that returned nil is durable; of several create-only Puts to one key exactly one wins, for
// ever; an if-match Put succeeds only on the version that it names; Get and List see every Put that returned.
package store

import (
	"context"
	"errors"
)

// MaxListKeys is the most keys that one List answers, as in S3.
const MaxListKeys = 1000

// Errors of a Put fall into three classes. ErrUnknownOutcome: read the key back. ErrPrecondition: the condition did
// not hold. Anything else (ErrThrottled, ErrFull, ErrInvalidKey, ErrNoBucket, a context that had ended before the
// write began, an error of no sentinel such as "access denied"): this call wrote nothing and nothing of it can land
// later.
var (
	// ErrNotFound: there is no object at the key.
	ErrNotFound = errors.New("store: object not found")
	// ErrPrecondition: the condition of a Put did not hold, so nothing was written by this call. After a retry below
	// this interface it may be the caller's own earlier attempt that holds the key.
	ErrPrecondition = errors.New("store: precondition failed")
	// ErrUnknownOutcome: the write may have happened, may happen later, or not at all (a timeout, a reset, a 5xx, or a
	// 409 that tells of a conflicting request without saying who won). The caller reads the key back and compares what
	// it finds with what it wrote; if the key is absent it tries again.
	ErrUnknownOutcome = errors.New("store: outcome of the write is unknown")
	// ErrThrottled: the store asks for a slower pace (503 SlowDown); nothing was written.
	ErrThrottled = errors.New("store: throttled")
	// ErrInvalidKey: the key is empty, too long, not made of the allowed characters, or the folder of another key.
	ErrInvalidKey = errors.New("store: invalid key")
	// ErrInvalidRange: a ranged Get begins at or beyond the end of the object, before its start, or asks for no bytes.
	ErrInvalidRange = errors.New("store: invalid range")
	// ErrFull: the store has no room left (disk full, quota); nothing was written.
	ErrFull = errors.New("store: no space left")
	// ErrNoBucket: the bucket or the root folder itself is missing, which is never to be taken for a missing object.
	ErrNoBucket = errors.New("store: no such bucket")
)

// Condition says when a Put may write.
type Condition struct {
	kind conditionKind
	etag string
}

type conditionKind uint8

const (
	always conditionKind = iota
	ifAbsent
	ifMatch
)

// Always writes whatever is there: for objects that only one writer ever touches.
func Always() Condition { return Condition{} }

// IfAbsent creates: the Put fails with ErrPrecondition when the key holds an object (If-None-Match: *).
func IfAbsent() Condition { return Condition{kind: ifAbsent} }

// IfMatch replaces exactly the version with this ETag; a changed or missing object is ErrPrecondition.
func IfMatch(etag string) Condition { return Condition{kind: ifMatch, etag: etag} }

// IsAlways reports whether the condition is Always.
func (c Condition) IsAlways() bool { return c.kind == always }

// IsAbsent reports whether the condition is IfAbsent.
func (c Condition) IsAbsent() bool { return c.kind == ifAbsent }

// Match gives the ETag of IfMatch, and whether the condition is one.
func (c Condition) Match() (etag string, ok bool) { return c.etag, c.kind == ifMatch }

// String names the condition for errors and logs.
func (c Condition) String() string {
	switch c.kind {
	case ifAbsent:
		return "create"
	case ifMatch:
		return "if-match " + c.etag
	default:
		return "always"
	}
}

// Object is a whole object as it was read.
type Object struct {
	Data []byte // owned by the caller
	ETag string // the version that Data is; opaque
}

// Attributes describe an object in a listing.
type Attributes struct {
	Key  string
	Size int64 // bytes
	ETag string
}

// ListOptions choose the keys of one List.
type ListOptions struct {
	Prefix     string // only keys that start with it
	StartAfter string // only keys that sort after it (bytewise)
	Limit      int    // at most so many; 0 and anything above MaxListKeys mean MaxListKeys
}

// PageLimit gives the number of keys that a List with these options may answer.
func (o ListOptions) PageLimit() int {
	if o.Limit <= 0 || o.Limit > MaxListKeys {
		return MaxListKeys
	}
	return o.Limit
}

// Page is one answer of List, in bytewise order of keys.
type Page struct {
	Objects []Attributes
	More    bool // there may be further keys: list again, starting after the last one; never set without Objects
}

// Store holds objects. All methods may be called concurrently, wait as long as ctx allows, and give errors that wrap
// the sentinels of this package where one applies. Implementations never retry a conditional Put by themselves.
//
// An ETag names the content of a key, not a moment: where two Puts write the same bytes, their ETags may be equal
// (S3) or not (dir, mem). So a caller that must tell two versions apart makes their contents differ. The ETag that Get
// gives beside data may be older than the data when the object is replaced at that moment (versitygw), never newer: an
// if-match Put on it fails, rather than replacing a version that was not read.
type Store interface {
	// Get reads a whole object.
	Get(ctx context.Context, key string) (Object, error)
	// GetRange reads length bytes from offset, fewer where the object ends before. The caller owns the memory.
	GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error)
	// Put writes an object and returns its ETag once it is durable. It does not keep data.
	Put(ctx context.Context, key string, data []byte, cond Condition) (etag string, err error)
	// List answers the next keys of a prefix.
	List(ctx context.Context, opts ListOptions) (Page, error)
	// Delete removes objects; keys without one are no error. When it fails, some may be gone and others not.
	Delete(ctx context.Context, keys ...string) error
}
