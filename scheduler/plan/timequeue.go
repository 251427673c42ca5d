package plan

// A timeQueue holds items that wait for a time, soonest first. Each knows until
// when, so that it can be taken out.
type timeQueue struct{ order blocks }

// entry is a candidate's place. A time has more digits than a float.
func (q *timeQueue) entry(c *item) listEntry {
	return listEntry{value: float64(c.time >> 32), low: float64(c.time & (1<<32 - 1)), id: c.prefix, c: c}
}

// set makes c wait until at, in nanoseconds since the epoch.
func (q *timeQueue) set(c *item, at int64) {
	q.drop(c)
	c.time, c.timed = at, true
	q.order.put(q.entry(c))
}

// drop ends c's waiting, if it waits.
func (q *timeQueue) drop(c *item) {
	if c.timed {
		q.order.cut(q.entry(c))
		c.timed = false
	}
}

// due takes out the first that waits until at or less.
func (q *timeQueue) due(at int64) *item {
	c := q.order.fits(0)
	if c == nil || c.time > at {
		return nil
	}
	q.drop(c)
	return c
}
