package plan

import (
	"cmp"
	"slices"
	"strings"
)

// A heap has items in the order of a number, the smallest first. Each item knows its
// place, so it can be moved and removed.
type heap struct {
	list []*item
	by   func(*item) *placed
}

// A placed is a number of an item, and its place in the heap of that number, from 1; 0 if
// it is not there.
type placed struct {
	number int64
	at     int32
}

// set puts c at a number.
func (h *heap) set(c *item, number int64) {
	p := h.by(c)
	if p.at == 0 {
		h.list = append(h.list, c)
		p.at = int32(len(h.list))
	}
	p.number = number
	h.move(int(p.at)-1, c)
}

// drop removes c if it is there.
func (h *heap) drop(c *item) {
	p := h.by(c)
	if p.at == 0 {
		return
	}
	i, last := int(p.at)-1, len(h.list)-1
	moved := h.list[last]
	h.list[last], h.list = nil, h.list[:last]
	if p.at = 0; i < last {
		h.move(i, moved)
	}
}

// first returns the item with the smallest number, nil if there is none.
func (h *heap) first() *item {
	if len(h.list) == 0 {
		return nil
	}
	return h.list[0]
}

// move puts c at place i, or where it belongs above or below.
func (h *heap) move(i int, c *item) {
	n := h.by(c).number
	put := func(i int, c *item) { h.list[i], h.by(c).at = c, int32(i+1) }
	for ; i > 0 && n < h.by(h.list[(i-1)/2]).number; i = (i - 1) / 2 {
		put(i, h.list[(i-1)/2])
	}
	for {
		k := 2*i + 1
		if k+1 < len(h.list) && h.by(h.list[k+1]).number < h.by(h.list[k]).number {
			k++
		}
		if k >= len(h.list) || h.by(h.list[k]).number >= n {
			break
		}
		put(i, h.list[k])
		i = k
	}
	put(i, c)
}

// next lists up to most items, by number and then by id.
func (h *heap) next(most int) []*item {
	list := slices.SortedFunc(slices.Values(h.list), func(a, b *item) int {
		return cmp.Or(cmp.Compare(h.by(a).number, h.by(b).number), strings.Compare(a.Query.ID, b.Query.ID))
	})
	return list[:min(most, len(list))]
}

// waiting returns empty heaps of queries that wait for a slot, and for a time.
func waiting() (slots, times heap) {
	return heap{by: func(c *item) *placed { return &c.slot }}, heap{by: func(c *item) *placed { return &c.waits }}
}
