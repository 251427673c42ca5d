package plan

import (
	"container/heap"
	"time"
)

// An oldest knows when the least recently confirmed result was last known to be true.
// It counts the queries by the second of their last complete execution, so the cost of
// an execution does not grow with the number of queries. Paused queries and those
// without a result do not count.
type oldest struct {
	n       map[int64]int // queries by second
	seconds secondHeap    // the keys of n, and some removed ones
}

// checkedIn is the second that counts for a query, 0 for none.
func checkedIn(c *item) int64 {
	if c.halted || c.Stats.CheckedAt.IsZero() {
		return 0
	}
	return c.Stats.CheckedAt.Unix()
}

// set updates what is known of a query.
func (o *oldest) set(c *item) { o.move(c, checkedIn(c)) }

// drop forgets a query.
func (o *oldest) drop(c *item) { o.move(c, 0) }

func (o *oldest) move(c *item, to int64) {
	if c.checked == to {
		return
	}
	if o.n == nil {
		o.n = map[int64]int{}
	}
	if c.checked != 0 {
		if o.n[c.checked]--; o.n[c.checked] == 0 {
			delete(o.n, c.checked)
		}
	}
	if c.checked = to; to != 0 {
		if o.n[to]++; o.n[to] == 1 {
			heap.Push(&o.seconds, to)
			o.tidy()
		}
	}
}

// tidy keeps the heap small while it is not read.
func (o *oldest) tidy() {
	if len(o.seconds) <= 2*len(o.n)+64 {
		return
	}
	o.seconds = o.seconds[:0]
	for s := range o.n {
		o.seconds = append(o.seconds, s)
	}
	heap.Init(&o.seconds)
}

// at is the second of the oldest result, zero if there is none.
func (o *oldest) at() time.Time {
	for len(o.seconds) > 0 {
		if s := o.seconds[0]; o.n[s] > 0 {
			return time.Unix(s, 0).UTC()
		}
		heap.Pop(&o.seconds)
	}
	return time.Time{}
}

type secondHeap []int64

func (h secondHeap) Len() int           { return len(h) }
func (h secondHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h secondHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *secondHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *secondHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
