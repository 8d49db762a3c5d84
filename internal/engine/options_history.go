package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/cache"
	"github.com/sluicemq/sluice/internal/compact"
	"github.com/sluicemq/sluice/internal/segment"
)

// History says how streams keep their messages in segments, and what a node remembers of them.
type History struct {
	// Alive is what garbage collection goes by; nil: there are no segments, and the log is all the storage.
	Alive Alive
	// SegmentKey encrypts new segments: 16, 24 or 32 bytes; nil: they are not encrypted. OldKeys read those that were
	// written with another; segments without a key can always be read.
	SegmentKey []byte
	OldKeys    [][]byte
	// CompactBytes is how much of a stream's messages the log alone has before they are moved into a segment; 0 is 32
	// MiB. A segment takes up to SegmentBytes at once; 0 is 64 MiB. Writing one needs about as much memory.
	CompactBytes, SegmentBytes int
	// ReplayBytes bounds the log that a start replays, but for what the dedup windows need; 0 is 256 MiB.
	ReplayBytes int
	// Grace is how long objects that nothing refers to any more are kept for other programs that still read them; 0 is
	// five minutes.
	Grace time.Duration
	// DeletedFor is how long deleted messages may stay in a segment; 0 is 24 hours. Sooner, if it is half of them.
	DeletedFor time.Duration
	// Every is how often the housekeeper looks for what there is to do; 0 is five seconds.
	Every   time.Duration
	Compact compact.Options
	// Cache keeps parts of segments as they are stored.
	Cache cache.Options
	// BlockBytes bounds the row groups that are kept decoded; 0 is 32 MiB. DirectoryBytes bounds what is known of where
	// groups are: about 64 bytes for each 480 KiB of messages; 0 is 16 MiB.
	BlockBytes, DirectoryBytes int
}

func (h *History) setDefaults() {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&h.CompactBytes, 32<<20)
	set(&h.SegmentBytes, 64<<20)
	set(&h.ReplayBytes, 256<<20)
	set(&h.BlockBytes, 32<<20)
	set(&h.DirectoryBytes, 16<<20)
	if h.Grace == 0 {
		h.Grace = 5 * time.Minute
	}
	if h.Every == 0 {
		h.Every = 5 * time.Second
	}
	if h.DeletedFor == 0 {
		h.DeletedFor = 24 * time.Hour
	}
	h.Compact.SetDefaults()
}

func (h *History) validate() error {
	var errs []error
	if h.CompactBytes < 0 || h.SegmentBytes < 0 || h.ReplayBytes < 0 || h.BlockBytes < 0 || h.DirectoryBytes < 0 {
		errs = append(errs, errors.New("engine: a number of bytes is negative"))
	}
	if h.Grace < 0 || h.DeletedFor < 0 || h.Every < 0 {
		errs = append(errs, errors.New("engine: a time is negative"))
	}
	for i, key := range append([][]byte{h.SegmentKey}, h.OldKeys...) {
		if n := len(key); n != 16 && n != 24 && n != 32 && !(i == 0 && n == 0) {
			errs = append(errs, fmt.Errorf("engine: a key of %d bytes, want 16, 24 or 32", n))
		}
	}
	errs = append(errs, h.Compact.Validate(), h.Cache.Validate())
	return errors.Join(errs...)
}

// withKey calls open with the key of new segments, then with older ones and with none, until one fits. The keys are tried
// because an object does not say which is its own, and a node has few.
func (h *History) withKey(open func(key []byte) error) error {
	var key []byte
	if len(h.SegmentKey) > 0 {
		key = h.SegmentKey
	}
	err := open(key)
	for _, key := range append(slices.Clone(h.OldKeys), nil) {
		if !errors.Is(err, segment.ErrKey) {
			break
		}
		if again := open(key); !errors.Is(again, segment.ErrKey) {
			return again
		}
	}
	return err
}
