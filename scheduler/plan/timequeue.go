package plan

// A timeQueue holds items that wait for a time, in the order of times. Each item knows
// its time, so it can be removed.
type timeQueue struct{ order blocks }

// entry is the list entry of an item. A time has more digits than a float64, so it
// takes two.
func (q *timeQueue) entry(c *item) listEntry {
	return listEntry{value: float64(c.time >> 32), low: float64(c.time & (1<<32 - 1)), id: c.Prefix, c: c}
}

// set makes c wait until at, in nanoseconds since the epoch.
func (q *timeQueue) set(c *item, at int64) {
	q.drop(c)
	c.time, c.timed = at, true
	e := q.entry(c)
	q.order.put(&e)
}

// drop removes c if it waits.
func (q *timeQueue) drop(c *item) {
	if c.timed {
		e := q.entry(c)
		q.order.cut(&e)
		c.timed = false
	}
}

// due removes and returns the first item that waits until at or earlier.
func (q *timeQueue) due(at int64) *item {
	c := q.order.fits(0)
	if c == nil || c.time > at {
		return nil
	}
	q.drop(c)
	return c
}
