package engine

import "container/list"

// kept is what was used last, within a bound of bytes. It is not safe for concurrent use.
type kept[K comparable, V any] struct {
	max   int
	bytes int
	items map[K]*list.Element // of keptItem[K, V]
	order *list.List          // the least recently used first
	gone  func(V)             // if set, is told of values that are pushed out or dropped
}

type keptItem[K comparable, V any] struct {
	key   K
	value V
	bytes int
}

func newKept[K comparable, V any](max int) *kept[K, V] {
	return &kept[K, V]{max: max, items: map[K]*list.Element{}, order: list.New()}
}

func (k *kept[K, V]) get(key K) (v V, ok bool) {
	e, ok := k.items[key]
	if !ok {
		return v, false
	}
	k.order.MoveToBack(e)
	return e.Value.(*keptItem[K, V]).value, true
}

// put keeps a value. The newest is kept however large it is.
func (k *kept[K, V]) put(key K, v V, bytes int) {
	k.drop(key)
	k.items[key] = k.order.PushBack(&keptItem[K, V]{key, v, bytes})
	k.bytes += bytes
	for k.bytes > k.max && k.order.Len() > 1 {
		k.remove(k.order.Front())
	}
}

func (k *kept[K, V]) drop(key K) {
	if e, ok := k.items[key]; ok {
		k.remove(e)
	}
}

// take gives a value away.
func (k *kept[K, V]) take(key K) (v V, ok bool) {
	e, ok := k.items[key]
	if !ok {
		return v, false
	}
	return k.unlink(e), true
}

func (k *kept[K, V]) remove(e *list.Element) {
	if v := k.unlink(e); k.gone != nil {
		k.gone(v)
	}
}

func (k *kept[K, V]) unlink(e *list.Element) V {
	item := k.order.Remove(e).(*keptItem[K, V])
	delete(k.items, item.key)
	k.bytes -= item.bytes
	return item.value
}
