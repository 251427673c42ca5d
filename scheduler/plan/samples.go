package plan

import (
	"math/bits"

	"github.com/freshet/freshet/scheduler/policy"
)

// sampleRooms gives queries room for their next sample, so that many executions share one
// allocation. A query that has run n times has room for at most 2n samples, as if each had
// grown alone.
type sampleRooms struct {
	free  [roomSizes][]policy.Sample // what is left of the last allocations
	count [roomSizes]int             // the number of rooms in them
}

const (
	roomSizes = 8 // 1, 2, 4, … 64, and ring
	ringSize  = 2*policy.Ring + 2
)

// roomsAtOnce is the largest number of rooms of each size that are allocated together. The
// allocation is kept as long as one of them is in use, so large ones are fewer.
var roomsAtOnce = [roomSizes]int{128, 128, 128, 128, 32, 32, 32, 32}

// A ring is the last room of a query. It is used again from its front when it is full.
// Then the samples at its end stay, and with them copies of Stats that are at most two
// executions old. A query runs at most twice in a slot, and a slot ends with its record.
type ring [ringSize]policy.Sample

// makeRoom is called before a query runs.
func (r *sampleRooms) makeRoom(c *item) {
	s := c.Stats.Samples
	n := len(s)
	switch {
	case n < cap(s):
		return
	case n < policy.Ring:
		k := bits.Len(uint(n))
		c.Stats.Samples = append(r.take(k, 1<<k), s...)
		return
	case c.ring == nil || &c.ring[ringSize-1] != &s[n-1]: // else it is full
		c.ring = (*ring)(r.take(roomSizes-1, ringSize)[:ringSize])
	}
	c.Stats.Samples = append(c.ring[:0], s[n-policy.Ring:]...)
}

// take returns an empty list with room for size samples, the k-th of the sizes.
func (r *sampleRooms) take(k, size int) []policy.Sample {
	if len(r.free[k]) == 0 {
		r.count[k] = min(max(1, 2*r.count[k]), roomsAtOnce[k])
		r.free[k] = make([]policy.Sample, r.count[k]*size)
	}
	room := r.free[k][:0:size]
	r.free[k] = r.free[k][size:]
	return room
}
