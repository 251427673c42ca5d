package plan

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
)

// A numbered heap has items in the order of a number, the smallest first. Each item knows its
// place, so it can be moved and removed.
type numbered struct {
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
func (h *numbered) set(c *item, number int64) {
	p := h.by(c)
	if p.number = number; p.at == 0 {
		heap.Push(h, c)
	} else {
		heap.Fix(h, int(p.at)-1)
	}
}

// drop removes c if it is there.
func (h *numbered) drop(c *item) {
	if p := h.by(c); p.at > 0 {
		heap.Remove(h, int(p.at)-1)
	}
}

// first returns the item with the smallest number, nil if there is none.
func (h *numbered) first() *item {
	if len(h.list) == 0 {
		return nil
	}
	return h.list[0]
}

func (h *numbered) Len() int           { return len(h.list) }
func (h *numbered) Less(i, k int) bool { return h.by(h.list[i]).number < h.by(h.list[k]).number }

func (h *numbered) Swap(i, k int) {
	h.list[i], h.list[k] = h.list[k], h.list[i]
	h.by(h.list[i]).at, h.by(h.list[k]).at = int32(i+1), int32(k+1)
}

func (h *numbered) Push(c any) {
	h.list = append(h.list, c.(*item))
	h.by(c.(*item)).at = int32(len(h.list))
}

func (h *numbered) Pop() any {
	last := len(h.list) - 1
	c := h.list[last]
	h.list[last], h.list, h.by(c).at = nil, h.list[:last], 0
	return c
}

// next lists up to most items, by number and then by id.
func (h *numbered) next(most int) []*item {
	list := slices.SortedFunc(slices.Values(h.list), func(a, b *item) int {
		return cmp.Or(cmp.Compare(h.by(a).number, h.by(b).number), strings.Compare(a.Query.ID, b.Query.ID))
	})
	return list[:min(most, len(list))]
}

// waiting returns empty heaps of queries that wait for a slot, and for a time.
func waiting() (slots, times numbered) {
	return numbered{by: func(c *item) *placed { return &c.slot }}, numbered{by: func(c *item) *placed { return &c.waits }}
}
