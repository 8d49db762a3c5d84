package segment

import (
	"encoding/binary"
	"iter"
)

// postingsPerRun is how many sequences a run of a long list has. In front of the runs stand the first sequence and the
// size of each, so that finding a sequence reads one run.
const postingsPerRun = 256

// appendPostings encodes the sequences of a subject, three or more and rising. The first is in the dictionary.
func appendPostings(dst []byte, seqs []uint64) []byte {
	runs := (len(seqs) + postingsPerRun - 1) / postingsPerRun
	var body []byte
	if runs == 1 {
		return appendDeltas(dst, seqs)
	}
	for i := range runs {
		run := seqs[i*postingsPerRun : min((i+1)*postingsPerRun, len(seqs))]
		at := len(body)
		body = appendDeltas(body, run)
		if i > 0 {
			dst = binary.AppendUvarint(dst, run[0]-seqs[(i-1)*postingsPerRun])
		}
		dst = binary.AppendUvarint(dst, uint64(len(body)-at))
	}
	return append(dst, body...)
}

func appendDeltas(dst []byte, run []uint64) []byte {
	for i := 1; i < len(run); i++ {
		dst = binary.AppendUvarint(dst, run[i]-run[i-1])
	}
	return dst
}

// postingsReader reads the sequences of a subject, in order. next and skip may be mixed.
type postingsReader struct {
	runs  cursor // the directory of runs; none of a short list
	body  []byte // of the runs behind the current one
	run   cursor // what is left of the current run
	start uint64 // its first sequence
	seq   uint64 // the newest
	fresh bool   // the run's first sequence is yet to be given
	left  uint64 // sequences to be given
	inRun uint64 // of them in the current run
}

func newPostingsReader(s *Subject, postings []byte) postingsReader {
	r := postingsReader{start: s.First, left: s.Count, inRun: min(s.Count, postingsPerRun), fresh: true}
	switch b := postings[s.postingsAt : s.postingsAt+s.postingsSize]; {
	case s.Count == 2:
		r.run.b = binary.AppendUvarint(nil, s.Last-s.First)
	case s.Count <= postingsPerRun:
		r.run.b = b
	default:
		r.runs, r.body = cutRuns(b, s.Count)
		r.cut()
	}
	return r
}

// cutRuns cuts the directory of runs, which ends where its entries do, from the runs.
func cutRuns(b []byte, count uint64) (directory cursor, runs []byte) {
	c := cursor{b: b}
	c.uvarint()
	for range (count - 1) / postingsPerRun {
		c.uvarint()
		c.uvarint()
		if c.bad {
			break
		}
	}
	return cursor{b: b[:c.at], bad: c.bad}, b[c.at:]
}

// cut takes the next run's bytes off the body.
func (r *postingsReader) cut() {
	n := r.runs.uvarint()
	if n > uint64(len(r.body)) {
		r.runs.fail()
		n = 0
	}
	r.run = cursor{b: r.body[:n]}
	r.body = r.body[n:]
}

// advance goes to the next run.
func (r *postingsReader) advance() {
	r.start += r.runs.uvarint()
	r.cut()
	r.inRun = min(r.left, postingsPerRun)
	r.fresh = true
}

func (r *postingsReader) next() (uint64, bool) {
	if r.left == 0 {
		return 0, false
	}
	if r.inRun == 0 {
		r.advance()
	}
	if r.fresh {
		r.seq, r.fresh = r.start, false
	} else {
		r.seq += r.run.uvarint()
	}
	r.left--
	r.inRun--
	return r.seq, true
}

// skip leaves out runs that end before from; it may only be called between runs or at the start.
func (r *postingsReader) skip(from uint64) {
	for r.left > r.inRun {
		ahead := r.runs // a copy
		if r.start+ahead.uvarint() > from {
			return
		}
		r.left -= r.inRun
		r.advance()
	}
}

// next gives the first of a subject's sequences that is from or above.
func (s *Subject) next(postings []byte, from uint64) (uint64, bool) {
	if from <= s.First {
		return s.First, true
	}
	if from > s.Last {
		return 0, false
	}
	r := newPostingsReader(s, postings)
	r.skip(from)
	for {
		if seq, ok := r.next(); !ok || seq >= from {
			return seq, ok
		}
	}
}

func (s *Subject) sequences(postings []byte) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		r := newPostingsReader(s, postings)
		for seq, ok := r.next(); ok && yield(seq); seq, ok = r.next() {
		}
	}
}

// checkPostings reads a list once: as many sequences as the dictionary says, rising to the last, and nothing else.
func checkPostings(s *Subject, postings []byte) bool {
	if s.Count <= 2 {
		return true // all in the dictionary
	}
	b := postings[s.postingsAt : s.postingsAt+s.postingsSize]
	if uint64(len(b)) < s.Count-1 { // a byte each
		return false
	}
	if s.Count <= postingsPerRun {
		last, ok := checkRun(b, s.First, int(s.Count)-1)
		return ok && last == s.Last
	}
	directory, body := cutRuns(b, s.Count)
	if directory.bad {
		return false
	}
	start, last := s.First, uint64(0)
	for left := s.Count; left > 0; left -= min(left, postingsPerRun) {
		if left < s.Count {
			step := directory.uvarint()
			if step > s.Last-start || start+step <= last {
				return false
			}
			start += step
		}
		size := directory.uvarint()
		if size > uint64(len(body)) {
			return false
		}
		var ok bool
		if last, ok = checkRun(body[:size], start, int(min(left, postingsPerRun))-1); !ok {
			return false
		}
		body = body[size:]
	}
	return last == s.Last && directory.atEnd() && len(body) == 0
}

// checkRun reads the n distances of a run whose first sequence is first, each 1 or more, and gives its last.
func checkRun(b []byte, first uint64, n int) (last uint64, ok bool) {
	c := cursor{b: b}
	last = first
	for range n {
		next := last + c.uvarint()
		if next <= last {
			return 0, false
		}
		last = next
	}
	return last, c.atEnd()
}
