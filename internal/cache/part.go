package cache

import (
	"fmt"
	"math"
	"strings"

	"github.com/sluicemq/sluice/internal/store"
)

// MaxPartBytes bounds one part.
const MaxPartBytes = 256 << 20

// Part is a range of an immutable object that is always read as a whole, and the unit of caching: a row group, an index
// section, a batch of a log. Two parts of one object are equal or disjoint; where they overlap, each is kept by itself.
type Part struct {
	Offset int64 // from the start of the object
	Length int64 // bytes, 1 to MaxPartBytes
}

func (p Part) end() int64 { return p.Offset + p.Length }

// cost is what the part takes in memory.
func (p Part) cost() int64 { return p.Length + entryBytes }

// valid reports whether there can be such a part.
func (p Part) valid() bool {
	return p.Offset >= 0 && p.Length >= 1 && p.Length <= MaxPartBytes && p.Offset <= math.MaxInt64-p.Length
}

// check is valid with reasons, for a part and its key.
func check(key string, p Part) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if !p.valid() {
		return fmt.Errorf("%w: offset %d, length %d, want 1 to %d bytes", store.ErrInvalidRange, p.Offset, p.Length, MaxPartBytes)
	}
	return nil
}

// index finds what is known of a part, and all that is known of an object.
type index[V any] map[string]map[Part]V

func (x index[V]) get(key string, p Part) (V, bool) {
	v, ok := x[key][p]
	return v, ok
}

// put reports whether the object is new.
func (x index[V]) put(key string, p Part, v V) bool {
	parts, known := x[key]
	if !known {
		parts = make(map[Part]V, 1)
		x[key] = parts
	}
	parts[p] = v
	return !known
}

// remove reports whether it was the last part of the object.
func (x index[V]) remove(key string, p Part) bool {
	parts := x[key]
	delete(parts, p)
	if len(parts) > 0 {
		return false
	}
	delete(x, key)
	return true
}

// of gives everything of an object, or of all whose keys begin with a prefix.
func (x index[V]) of(key string, prefix bool) []V {
	var found []V
	add := func(parts map[Part]V) {
		for _, v := range parts {
			found = append(found, v)
		}
	}
	if !prefix {
		add(x[key])
		return found
	}
	for k, parts := range x {
		if strings.HasPrefix(k, key) {
			add(parts)
		}
	}
	return found
}
