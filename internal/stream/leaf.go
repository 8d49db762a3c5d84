package stream

import (
	"bytes"
	"encoding/binary"
	"math"
)

const (
	// leafSubjects is how many subjects a leaf holds at most.
	leafSubjects = 64
	// leafThin is how many subjects a leaf has when it looks for a neighbour to join.
	leafThin = leafSubjects / 4
)

// leaf is a run of subjects in bytewise order, in one piece of memory. What all of them begin and end with is there once,
// so that of a subject only the middle is kept:
//
//	2 bytes  number of subjects
//	2 bytes  length of the common beginning
//	2 bytes  length of the common end
//	4 bytes  for each subject, its id
//	2 bytes  for each subject, where its middle ends
//	the common beginning, the common end, the middles
type leaf []byte

// maxSubjectBytes is the longest subject that a stream keeps.
const maxSubjectBytes = math.MaxUint16

const (
	leafHeader = 6
	leafFixed  = 6 // of each subject
	maxMiddles = math.MaxUint16
)

func half(b []byte) int { return int(binary.LittleEndian.Uint16(b)) }

func (l leaf) n() int               { return half(l) }
func (l leaf) id(i int) subjectID   { return binary.LittleEndian.Uint32(l[leafHeader+4*i:]) }
func (l leaf) end(n, i int) int     { return half(l[leafHeader+4*n+2*i:]) }
func (l leaf) prefix(n int) []byte  { at := leafHeader + leafFixed*n; return l[at : at+half(l[2:])] }
func (l leaf) middles(n int) []byte { return l[leafHeader+leafFixed*n+half(l[2:])+half(l[4:]):] }
func (l leaf) suffix(n int) []byte {
	at := leafHeader + leafFixed*n + half(l[2:])
	return l[at : at+half(l[4:])]
}

func (l leaf) middle(n, i int) []byte {
	from := 0
	if i > 0 {
		from = l.end(n, i-1)
	}
	return l.middles(n)[from:l.end(n, i)]
}

// position finds a subject that is there by its id.
func (l leaf) position(id subjectID) int {
	ids := l[leafHeader : leafHeader+4*l.n()]
	for i := 0; len(ids) >= 4; i, ids = i+1, ids[4:] {
		if binary.LittleEndian.Uint32(ids) == id {
			return i
		}
	}
	return -1
}

// appendText appends the i-th subject.
func (l leaf) appendText(b []byte, i int) []byte {
	n := l.n()
	b = append(b, l.prefix(n)...)
	b = append(b, l.middle(n, i)...)
	return append(b, l.suffix(n)...)
}

func (l leaf) textLen(i int) int {
	n := l.n()
	return half(l[2:]) + len(l.middle(n, i)) + half(l[4:])
}

// is reports whether the i-th subject is text.
func (l leaf) is(i int, text []byte) bool {
	n := l.n()
	prefix, middle, suffix := l.prefix(n), l.middle(n, i), l.suffix(n)
	return len(text) == len(prefix)+len(middle)+len(suffix) &&
		string(text[len(prefix):len(prefix)+len(middle)]) == string(middle) &&
		string(text[:len(prefix)]) == string(prefix) && string(text[len(text)-len(suffix):]) == string(suffix)
}

// compare orders the i-th subject and a text.
func (l leaf) compare(i int, text []byte) int {
	n := l.n()
	for _, part := range [...][]byte{l.prefix(n), l.middle(n, i)} {
		if k := min(len(part), len(text)); string(part) != string(text[:k]) {
			return bytes.Compare(part, text[:k])
		}
		text = text[len(part):]
	}
	return bytes.Compare(l.suffix(n), text)
}

// begins reports whether the i-th subject begins with a text.
func (l leaf) begins(i int, text []byte) bool {
	n := l.n()
	for _, part := range [...][]byte{l.prefix(n), l.middle(n, i)} {
		if len(text) <= len(part) {
			return string(part[:len(text)]) == string(text)
		}
		if string(part) != string(text[:len(part)]) {
			return false
		}
		text = text[len(part):]
	}
	return bytes.HasPrefix(l.suffix(n), text)
}

// search gives the first subject that is not less than a text, or the number of subjects.
func (l leaf) search(text []byte) int {
	low, high := 0, l.n()
	for low < high {
		middle := (low + high) / 2
		if l.compare(middle, text) < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// insert puts a subject at its position, if it begins and ends like the others and the leaf has room.
func (l leaf) insert(i int, id subjectID, text []byte) (leaf, bool) {
	n := l.n()
	prefix, suffix := l.prefix(n), l.suffix(n)
	rest := len(text) - len(prefix) - len(suffix)
	if n == leafSubjects || rest < 0 || !bytes.HasPrefix(text, prefix) || !bytes.HasSuffix(text, suffix) {
		return l, false
	}
	fixed, from, all := len(prefix)+len(suffix), 0, l.end(n, n-1)
	if all+rest > maxMiddles {
		return l, false
	}
	if i > 0 {
		from = l.end(n, i-1)
	}
	middle := text[len(prefix) : len(prefix)+rest]
	old, size := l, len(l)+leafFixed+rest
	if size <= cap(l) {
		l = l[:size]
	} else {
		l = make(leaf, size, size+(size-leafHeader-fixed)/8)
	}
	// From the back, since everything moves backward, maybe in place.
	oldTexts, texts := leafHeader+leafFixed*n, leafHeader+leafFixed*(n+1)
	copy(l[texts+fixed+from+rest:], old[oldTexts+fixed+from:oldTexts+fixed+all])
	copy(l[texts:], old[oldTexts:oldTexts+fixed+from])
	copy(l[texts+fixed+from:], middle)
	oldEnds, ends := leafHeader+4*n, leafHeader+4*(n+1)
	for k := n - 1; k >= i; k-- {
		binary.LittleEndian.PutUint16(l[ends+2*k+2:], uint16(half(old[oldEnds+2*k:])+rest))
	}
	copy(l[ends:], old[oldEnds:oldEnds+2*i])
	binary.LittleEndian.PutUint16(l[ends+2*i:], uint16(from+rest))
	copy(l[leafHeader+4*i+4:], old[leafHeader+4*i:oldEnds])
	copy(l[leafHeader:], old[leafHeader:leafHeader+4*i])
	binary.LittleEndian.PutUint32(l[leafHeader+4*i:], id)
	copy(l, old[:leafHeader])
	binary.LittleEndian.PutUint16(l, uint16(n+1))
	return l, true
}

// entry is a subject outside a leaf.
type entry struct {
	id   subjectID
	text []byte
}

// appendEntries appends the subjects; buffer takes their texts, and grows.
func (l leaf) appendEntries(list []entry, buffer []byte) ([]entry, []byte) {
	for i := range l.n() {
		from := len(buffer)
		buffer = l.appendText(buffer, i)
		list = append(list, entry{l.id(i), buffer[from:len(buffer):len(buffer)]})
	}
	return list, buffer
}

// makeLeaf makes a leaf of subjects in order, unless they are too many or too long.
func makeLeaf(list []entry) (leaf, bool) {
	if len(list) > leafSubjects {
		return nil, false
	}
	// What the first and the last have in common, those between have too.
	first, last := list[0].text, list[len(list)-1].text
	prefix := 0
	for prefix < min(len(first), len(last)) && first[prefix] == last[prefix] {
		prefix++
	}
	suffix, middles := len(first)-prefix, 0
	for _, e := range list {
		k := 0
		for k < min(suffix, len(e.text)-prefix) && e.text[len(e.text)-1-k] == first[len(first)-1-k] {
			k++
		}
		suffix = k
		middles += len(e.text)
	}
	middles -= len(list) * (prefix + suffix)
	if middles > maxMiddles {
		return nil, false
	}
	size := leafHeader + leafFixed*len(list) + prefix + suffix + middles
	l := make(leaf, leafHeader, size)
	for i, v := range []int{len(list), prefix, suffix} {
		binary.LittleEndian.PutUint16(l[2*i:], uint16(v))
	}
	for _, e := range list {
		l = binary.LittleEndian.AppendUint32(l, e.id)
	}
	end := 0
	for _, e := range list {
		end += len(e.text) - prefix - suffix
		l = binary.LittleEndian.AppendUint16(l, uint16(end))
	}
	l = append(l, first[:prefix]...)
	l = append(l, first[len(first)-suffix:]...)
	for _, e := range list {
		l = append(l, e.text[prefix:len(e.text)-suffix]...)
	}
	return l, true
}

// remove takes the i-th subject out in place, or in a smaller piece of memory where that pays.
func (l leaf) remove(i int) leaf {
	n := l.n()
	fixed, from, to, all := half(l[2:])+half(l[4:]), 0, l.end(n, i), l.end(n, n-1)
	if i > 0 {
		from = l.end(n, i-1)
	}
	gap := to - from
	oldTexts, texts := leafHeader+leafFixed*n, leafHeader+leafFixed*(n-1)
	oldEnds, ends := leafHeader+4*n, leafHeader+4*(n-1)
	// From the front, since everything moves forward.
	copy(l[leafHeader+4*i:], l[leafHeader+4*i+4:oldEnds])
	copy(l[ends:], l[oldEnds:oldEnds+2*i])
	for k := i + 1; k < n; k++ {
		binary.LittleEndian.PutUint16(l[ends+2*k-2:], uint16(half(l[oldEnds+2*k:])-gap))
	}
	copy(l[texts:], l[oldTexts:oldTexts+fixed+from])
	copy(l[texts+fixed+from:], l[oldTexts+fixed+to:oldTexts+fixed+all])
	binary.LittleEndian.PutUint16(l, uint16(n-1))
	l = l[:texts+fixed+all-gap]
	if cap(l) > 2*len(l) {
		l = bytes.Clone(l)
	}
	return l
}
