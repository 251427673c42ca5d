package plan

import "time"

// A listEntry is an item with its sort key: class, value, low, slot of the last
// execution, id.
type listEntry struct {
	value, low float64
	rank       uint64 // the class above the slot
	id         uint64 // the first bytes of the id, which are nearly always unique
	estimate   time.Duration
	c          *item
}

const (
	slotBits = 48
	slotMask = 1<<slotBits - 1
)

func listEntryOf(c *item) listEntry {
	return listEntry{
		value: c.key.Value, low: c.key.Low, rank: uint64(c.key.Class-classRefresh)<<slotBits | c.Stats.Last&slotMask,
		id: c.Prefix, estimate: c.Estimate, c: c,
	}
}

func (e *listEntry) class() int { return int(e.rank>>slotBits) + classRefresh }

func (e *listEntry) before(f *listEntry) bool {
	switch {
	case (e.rank^f.rank)>>slotBits != 0:
		return e.rank < f.rank
	case e.value != f.value:
		return e.value < f.value
	case e.low != f.low:
		return e.low < f.low
	case e.rank != f.rank:
		return e.rank < f.rank
	case e.id != f.id:
		return e.id < f.id
	}
	return e.c.Query.ID < f.c.Query.ID
}

// before is the total order of items.
func before(a, b *item) bool {
	e, f := listEntryOf(a), listEntryOf(b)
	return e.before(&f)
}

func (e listEntry) compare(f listEntry) int {
	if e.before(&f) {
		return -1
	}
	return 1
}
