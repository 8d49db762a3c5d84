package engine

import (
	"github.com/sluicemq/sluice/internal/subject"
)

// fewConsumers is up to how many consumers are simply asked one after the other whether a message concerns them.
const fewConsumers = 4

// interest finds the consumers that a message concerns, by their filters.
type interest struct {
	all    []*Consumer // of the stream
	index  *subject.Trie[*Consumer]
	result subject.Result[*Consumer]
	found  []*Consumer
}

func (i *interest) add(c *Consumer) {
	i.all = append(i.all, c)
	switch {
	case i.index != nil:
		i.enter(c)
	case len(i.all) > fewConsumers:
		i.index = subject.NewTrie[*Consumer](subject.TrieOptions{})
		for _, c := range i.all {
			i.enter(c)
		}
	}
}

func (i *interest) patterns(c *Consumer) []string {
	if c.filter.All() {
		return []string{">"}
	}
	return c.filter.Subjects()
}

func (i *interest) enter(c *Consumer) {
	for _, p := range i.patterns(c) {
		i.index.Insert(p, "", c)
	}
}

// remove takes a consumer out; its filter is still the one that it was added with.
func (i *interest) remove(c *Consumer) {
	for k, other := range i.all {
		if other == c {
			i.all = append(i.all[:k], i.all[k+1:]...)
			break
		}
	}
	if i.index == nil {
		return
	}
	for _, p := range i.patterns(c) {
		i.index.Remove(p, "", c)
	}
}

// in lists the consumers whose filter a subject passes; valid until the next call. A consumer's filters do not
// overlap, so none is listed twice.
func (i *interest) in(subj []byte) []*Consumer {
	if i.index == nil {
		i.found = i.found[:0]
		for _, c := range i.all {
			if c.filter.Match(subj) {
				i.found = append(i.found, c)
			}
		}
		return i.found
	}
	i.index.Match(subj, &i.result)
	return i.result.Plain
}
