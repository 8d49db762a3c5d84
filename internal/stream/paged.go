package stream

const (
	pageBits = 10
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
)

// paged is a growing table that never moves more than its first page, so that growth costs no pause however long it
// is. Positions are never given back by the table itself.
type paged[T any] struct {
	pages [][]T
	n     uint32
}

// at points to an element. The pointer holds until the next add.
func (p *paged[T]) at(i uint32) *T { return &p.pages[i>>pageBits][i&pageMask] }

// add appends an element and gives its position.
func (p *paged[T]) add(v T) uint32 {
	page := int(p.n >> pageBits)
	if page == len(p.pages) {
		var fresh []T
		if page > 0 {
			fresh = make([]T, 0, pageSize)
		}
		p.pages = append(p.pages, fresh)
	}
	p.pages[page] = append(p.pages[page], v)
	p.n++
	return p.n - 1
}
