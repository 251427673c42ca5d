package scheduler

// A queue holds candidates that wait for a slot or a time, soonest first. Each
// candidate knows until when, so that it can be moved or taken out.
type queue struct {
	which waiting
	order tree
}

type waiting int

const (
	forSlot waiting = iota // wakes at a slot number
	forTime                // wakes at a time, in nanoseconds since the epoch
)

// entry is a candidate's place. A time has more digits than a float.
func (q *queue) entry(c *candidate) entry {
	at := c.wakes[q.which]
	return entry{value: float64(at >> 32), low: float64(at & (1<<32 - 1)), id: c.prefix, c: c}
}

func (q *queue) len() int { return q.order.len() }

// set makes c wait until at.
func (q *queue) set(c *candidate, at int64) {
	q.drop(c)
	c.wakes[q.which], c.waits[q.which] = at, true
	q.order.put(q.entry(c), 0)
}

// drop ends c's waiting, if it waits.
func (q *queue) drop(c *candidate) {
	if c.waits[q.which] {
		q.order.cut(q.entry(c))
		c.waits[q.which] = false
	}
}

// due takes out the first that waits until at or less.
func (q *queue) due(at int64) *candidate {
	c := q.order.first()
	if c == nil || c.wakes[q.which] > at {
		return nil
	}
	q.drop(c)
	return c
}

// next lists so many at most, soonest first.
func (q *queue) next(most int) []*candidate { return q.order.head(most) }
