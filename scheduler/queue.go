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

// A wake is when a candidate is looked at again.
type wake struct {
	at    int64
	waits bool
}

// entry is a candidate's place. A time has more digits than a float.
func (q *queue) entry(c *candidate) entry {
	at := c.wakes[q.which].at
	return entry{value: float64(at >> 32), low: float64(at & (1<<32 - 1)), id: c.prefix, c: c}
}

func (q *queue) len() int { return q.order.len() }

// set makes c wait until at.
func (q *queue) set(c *candidate, at int64) {
	q.drop(c)
	c.wakes[q.which] = wake{at, true}
	q.order.put(q.entry(c), 0)
}

// drop ends c's waiting, if it waits.
func (q *queue) drop(c *candidate) {
	if w := &c.wakes[q.which]; w.waits {
		q.order.cut(q.entry(c))
		w.waits = false
	}
}

// due takes out the first that waits until at or less.
func (q *queue) due(at int64) *candidate {
	c := q.order.first()
	if c == nil || c.wakes[q.which].at > at {
		return nil
	}
	q.drop(c)
	return c
}

// next lists so many at most, soonest first.
func (q *queue) next(most int) []*candidate { return q.order.head(most) }
