package scheduler

import "math"

// An epoch is hybrid's shared state: the clock of live slots, how changes follow
// on changes, and how often related queries change together.
type epoch struct {
	slot   uint64  // the last one that was absorbed
	clock  float64 // at its end
	empty  bool    // it was
	left   float64 // how often a live slot followed on an empty one
	stayed float64 // and how often another empty one
	hits   float64 // excited queries that had changed
	tries  float64 // of so many
	seen   [cells]float64
	due    [cells]float64
	ring   []uint64 // a bit per slot, 48 to a word, set where it was empty; slot s is bit s mod 48 of word s/48 mod ringWords
}

const (
	ringWords  = 100 // about 4,800 slots
	wordBits   = 48  // a float holds as much
	epochHead  = 7
	emptySlot  = 0.02 // how much time passes in an empty slot
	ageCells   = 14
	cells      = rates * ageCells
	epochSize  = epochHead + 2*cells + ringWords
	hazardFade = 0.9995
)

func readEpoch(s []float64) *epoch {
	e := &epoch{ring: make([]uint64, ringWords)}
	if len(s) != epochSize {
		return e
	}
	e.slot, e.clock, e.empty, e.left, e.stayed, e.hits, e.tries = uint64(s[0]), s[1], s[2] > 0, s[3], s[4], s[5], s[6]
	copy(e.seen[:], s[epochHead:])
	copy(e.due[:], s[epochHead+cells:])
	for i := range e.ring {
		e.ring[i] = uint64(s[epochHead+2*cells+i])
	}
	return e
}

func (e *epoch) state() []float64 {
	s := make([]float64, epochSize)
	s[0], s[1], s[3], s[4], s[5], s[6] = float64(e.slot), e.clock, e.left, e.stayed, e.hits, e.tries
	if e.empty {
		s[2] = 1
	}
	copy(s[epochHead:], e.seen[:])
	copy(s[epochHead+cells:], e.due[:])
	for i, w := range e.ring {
		s[epochHead+2*cells+i] = float64(w)
	}
	return s
}

func (e *epoch) bit(slot uint64) (word *uint64, mask uint64) {
	return &e.ring[slot/wordBits%ringWords], 1 << (slot % wordBits)
}

// close ends a slot; those between the last one and it count as live.
func (e *epoch) close(slot uint64, empty bool) {
	for s := max(e.slot+1, slot-min(slot, ringWords*wordBits)); s <= slot; s++ {
		word, mask := e.bit(s)
		*word &^= mask
		if s == slot && empty {
			*word |= mask
		}
	}
	if e.empty && empty {
		e.stayed++
	} else if e.empty {
		e.left++
	}
	passed := float64(slot - min(slot, e.slot))
	if empty {
		passed += emptySlot - 1
	}
	e.clock += passed
	e.slot, e.empty = max(slot, e.slot), empty
}

// next is how much time the coming slot is expected to take: after an empty one
// the learnt probability that it is not empty.
func (e *epoch) next() float64 {
	if !e.empty {
		return 1
	}
	return (e.left + 1) / (e.left + e.stayed + 2)
}

// A calendar tells the clock at the end of recent slots.
type calendar struct {
	from uint64 // slot of the first entry
	at   []float64
}

func (e *epoch) calendar() calendar {
	n := min(e.slot, ringWords*wordBits-1)
	c := calendar{from: e.slot - n, at: make([]float64, n+1)}
	at := e.clock
	for i := int(n); i >= 0; i-- {
		c.at[i] = at
		if word, mask := e.bit(c.from + uint64(i)); *word&mask != 0 {
			at -= emptySlot
		} else {
			at--
		}
	}
	return c
}

func (c *calendar) clock(slot uint64) float64 {
	switch {
	case slot < c.from:
		return c.at[0] - float64(c.from-slot)
	case slot-c.from >= uint64(len(c.at)):
		return c.at[len(c.at)-1] + float64(slot-c.from) - float64(len(c.at)-1)
	}
	return c.at[slot-c.from]
}

// cell is where a query stands in the hazard table: by its mean rate and by the
// time since its last change, the last row for none.
func cell(mean float64, changed bool, age float64) int {
	_, k := math.Frexp(mean) // mean in [2^(k−1), 2^k)
	row := ageCells - 1
	if changed {
		_, a := math.Frexp(max(0, age) + 1)
		row = min(a-1, ageCells-2)
	}
	return min(max(k-1+rateStep, 0), rates-1)*ageCells + row
}

// hazard is by how much changes are more likely in a cell than the rates say.
func (e *epoch) hazard(cell int) float64 { return (e.seen[cell] + 3) / (e.due[cell] + 3) }
