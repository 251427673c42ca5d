package interval

import "cmp"

// heap is a binary heap of entries. Each entry knows its index in the heap.
type heap struct {
	items  []*entry
	before func(a, b *entry) bool
	place  func(e *entry) *int
}

func inQueue(e *entry) *int { return &e.queue }
func inRank(e *entry) *int  { return &e.rank }

func startsBefore(a, b *entry) bool { return a.start < b.start }
func endsBefore(a, b *entry) bool   { return a.finish < b.finish }

// ranksBefore compares two EIs of one group.
func ranksBefore(a, b *entry) bool {
	if a.key.a != b.key.a {
		return a.key.a < b.key.a
	}
	return ties(a, b) < 0
}

// ties orders EIs of equal value.
func ties(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.finish, b.finish), cmp.Compare(a.cei.id, b.cei.id), cmp.Compare(a.index, b.index))
}

func (h *heap) set(i int, e *entry) {
	h.items[i] = e
	*h.place(e) = i
}

func (h *heap) push(e *entry) {
	h.items = append(h.items, e)
	h.up(len(h.items)-1, e)
}

func (h *heap) remove(i int) {
	last := len(h.items) - 1
	e := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	if i == last {
		return
	}
	if i > 0 && h.before(e, h.items[(i-1)/2]) {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

// up places e at i or above.
func (h *heap) up(i int, e *entry) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(e, h.items[parent]) {
			break
		}
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, e)
}

// down places e at i or below.
func (h *heap) down(i int, e *entry) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.before(h.items[right], h.items[child]) {
			child = right
		}
		if !h.before(h.items[child], e) {
			break
		}
		h.set(i, h.items[child])
		i = child
	}
	h.set(i, e)
}

// A place is a position in a group's heap.
type place struct {
	heap *heap
	at   int
}

func (p place) entry() *entry { return p.heap.items[p.at] }

// frontier is a binary heap of places in the heaps of all groups.
type frontier struct {
	now    uint64
	places []place
}

func (f *frontier) before(i, j int) bool {
	a, b := f.places[i].entry(), f.places[j].entry()
	if a.key.class != b.key.class {
		return a.key.class < b.key.class
	}
	if x, y := a.key.value(f.now), b.key.value(f.now); x != y {
		return x < y
	}
	return ties(a, b) < 0
}

func (f *frontier) push(p place) {
	f.places = append(f.places, p)
	for i := len(f.places) - 1; i > 0; {
		parent := (i - 1) / 2
		if !f.before(i, parent) {
			return
		}
		f.places[i], f.places[parent] = f.places[parent], f.places[i]
		i = parent
	}
}

func (f *frontier) pop() place {
	top, last := f.places[0], len(f.places)-1
	f.places[0] = f.places[last]
	f.places = f.places[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if f.before(child, least) {
				least = child
			}
		}
		if least == i {
			return top
		}
		f.places[i], f.places[least] = f.places[least], f.places[i]
		i = least
	}
}
