package subject

// shape is what the Trie must know of a text before it looks it up.
type shape struct {
	// one and two are the lengths of the first token and of the first two; 0 where no token follows them, so that no
	// pattern could match that has a wildcard after as many literal tokens.
	one, two int
	// The others are for patterns with a wildcard: the root below which they hang, and the length of the step there.
	wild bool
	root uint32
	step int
}

// shapeOfPattern fails where ValidPattern would. It looks at every byte once: this is the path of every SUB.
func shapeOfPattern(p string) (s shape, ok bool) {
	tokens, start := 0, 0
	for i := 0; ; i++ {
		if i < len(p) && p[i] != separator {
			continue
		}
		last := i == len(p)
		switch i - start {
		case 0:
			return s, false
		case 1:
			if p[start] == tail && !last {
				return s, false
			}
			if !s.wild && (p[start] == tail || p[start] == star) {
				s.wild = true
				s.root, s.step = rootOf(tokens, s, i)
			}
		}
		if last {
			return s, true
		}
		switch tokens {
		case 0:
			s.one = i
		case 1:
			s.two = i
		}
		tokens++
		start = i + 1
	}
}

// rootOf is for a pattern with its first wildcard after so many tokens.
func rootOf(tokens int, s shape, end int) (root uint32, step int) {
	switch tokens {
	case 0:
		return rootNone, end
	case 1:
		return rootOne, s.one
	}
	return rootTwo, s.two
}

// shapeOfSubject fails where a token is empty: such a subject reaches nobody.
func shapeOfSubject(v string) (s shape, ok bool) {
	tokens, start := 0, 0
	for i := range len(v) {
		if v[i] != separator {
			continue
		}
		if i == start {
			return s, false
		}
		switch tokens {
		case 0:
			s.one = i
		case 1:
			s.two = i
		}
		tokens++
		start = i + 1
	}
	return s, start < len(v)
}
