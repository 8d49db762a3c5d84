package stream

const (
	// cachedTexts is how many texts a cache holds at most.
	cachedTexts = 1024
	// textChunk is how many bytes of texts are allocated at once. A text that somebody holds keeps so many.
	textChunk = 2048
)

// textCache keeps the texts of subjects that were used lately, one for each of up to 1,024 remainders of their ids. What it
// hands out is never written again, so that it holds as long as anybody wants it.
type textCache struct {
	slots []entry // a power of two
	chunk []byte
}

func (c *textCache) slot(id subjectID) *entry { return &c.slots[id&subjectID(len(c.slots)-1)] }

func (c *textCache) get(id subjectID) ([]byte, bool) {
	if len(c.slots) == 0 {
		return nil, false
	}
	s := c.slot(id)
	return s.text, s.id == id && s.text != nil
}

// room gives room for a text of n bytes.
func (c *textCache) room(n int) []byte {
	if n > textChunk/8 {
		return make([]byte, 0, n)
	}
	if cap(c.chunk)-len(c.chunk) < n {
		c.chunk = make([]byte, 0, min(textChunk, max(64, 2*cap(c.chunk)), max(64, 32*len(c.slots))))
		if cap(c.chunk) < n {
			return make([]byte, 0, n)
		}
	}
	at := len(c.chunk)
	c.chunk = c.chunk[:at+n]
	return c.chunk[at : at : at+n]
}

// put enters a text in what room gave. count is how many subjects there are.
func (c *textCache) put(id subjectID, text []byte, count int) {
	if len(c.slots) < min(count, cachedTexts) {
		size := 4
		for size < min(count, cachedTexts) {
			size *= 2
		}
		c.slots = make([]entry, size)
	}
	*c.slot(id) = entry{id, text}
}

func (c *textCache) drop(id subjectID) {
	if _, ok := c.get(id); ok {
		*c.slot(id) = entry{}
	}
}
