package plan

import "container/heap"

// A timeQueue is a heap of the items that wait for a time. Each item knows its place, so
// it can be removed.
type timeQueue []*item

func (q timeQueue) Len() int           { return len(q) }
func (q timeQueue) Less(i, j int) bool { return q[i].time < q[j].time }
func (q timeQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].timed, q[j].timed = int32(i+1), int32(j+1)
}

func (q *timeQueue) Push(x any) {
	c := x.(*item)
	*q = append(*q, c)
	c.timed = int32(len(*q))
}

func (q *timeQueue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	c.timed = 0
	return c
}

// set makes c wait until at, in nanoseconds since the epoch.
func (q *timeQueue) set(c *item, at int64) {
	q.drop(c)
	c.time = at
	heap.Push(q, c)
}

// drop removes c if it waits.
func (q *timeQueue) drop(c *item) {
	if c.timed > 0 {
		heap.Remove(q, int(c.timed-1))
	}
}

// due removes and returns the first item that waits until at or earlier.
func (q *timeQueue) due(at int64) *item {
	if len(*q) == 0 || (*q)[0].time > at {
		return nil
	}
	return heap.Pop(q).(*item)
}
