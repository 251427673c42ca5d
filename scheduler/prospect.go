package scheduler

import (
	"math"
	"slices"
)

// Prospects are what is known of the worth of queries without working it out
// anew. While nothing else is learnt of a query its worth rises with the clock
// and with its hazard r: with a = rλ,
//
//	d/dτ e^(−aτ)(1 + τ(1−e^(−a))) ≤ −aτ(1−e^(−a))·e^(−aτ) ≤ 0, as 1−e^(−a) ≤ a,
//	d/dr of the same = −λτ(1+τ)(1−e^(−a))·e^(−aτ) ≤ 0.
//
// So what it would be for a later clock and a higher hazard is a bound until
// then, and a slot works out the worth of those only whose bound says that their
// turn may come.
type prospects struct {
	bound  []float64 // the worth is at most that, while
	until  []float64 // the clock is not past this
	oldest []uint64  // slot on whose place in the calendar it depends
	cell   []uint8   // and the hazard cell
	worth  []float64 // as evaluated
	as     []uint32  // in this round
	bonus  []float64 // to be added to both, see comfort
	turned bool      // some are not 0

	high  [cells]float64 // hazard of which the bounds are
	fade  [cells][rates]float64
	begun float64    // level of the first wave
	level float64    // what is worth less waits for a later wave
	step  float64    // from one to the next
	ends  [2]float64 // the least worth that had its turn in the last slot, live and turned
	low   float64    // in this one

	looks []outlook
	gains []float64
	which []int32
	list  []int32
}

const (
	slack  = 1e-9 // of a gain: more than the error of its arithmetic, see lowest
	lowest = 0.01 // hazard: below it, 1 − e^(−rλ) has too few digits for that
	jiffy  = 1e-6 // of the clock: more than the error of its arithmetic
)

func (p *prospects) grow() {
	p.bound, p.until = append(p.bound, 0), append(p.until, 0)
	p.oldest, p.cell = append(p.oldest, 0), append(p.cell, 0)
	p.worth, p.as, p.bonus = append(p.worth, 0), append(p.as, 0), append(p.bonus, 0)
}

// forget gives up what is known of a query.
func (p *prospects) forget(i int32) { p.bound[i], p.until[i], p.as[i] = math.Inf(1), math.Inf(1), 0 }

// lookBack gives up the bounds that do not hold in this slot, but for those that
// the clock has overtaken.
func (b *book) lookBack() {
	v := b.view
	var raised [cells]bool
	any := false
	for c, r := range v.ratio {
		if r > b.high[c] || r < 0.8*b.high[c] {
			raised[c] = r > b.high[c]
			any = any || raised[c]
			b.high[c] = 1.05 * r
			b.fade[c] = leaves(b.high[c])
		}
	}
	if from := v.calendar.from; any || from > 0 {
		for i, c := range b.cell {
			if raised[c] || b.oldest[i] < from { // the calendar has forgotten where that slot stood
				b.until[i] = math.Inf(-1)
			}
		}
	}
}

// begin takes for the level of the first wave the worth at which the last slot
// came to its end.
func (p *prospects) begin(turned bool) {
	end := func() *float64 {
		if p.turned {
			return &p.ends[1]
		}
		return &p.ends[0]
	}
	if p.low < math.Inf(1) {
		*end() = p.low
	}
	p.turned = turned
	p.begun, p.step, p.low = *end(), 0.95, math.Inf(1)
	p.level = p.begun
}

// served says that a query has had its turn.
func (b *book) served(i int32) {
	if b.as[i] == b.round {
		b.low = min(b.low, b.worth[i]+b.bonus[i])
	}
}

// evaluate works out the worth of queries in this slot.
func (b *book) evaluate(list []int32) {
	b.looks, b.which = b.looks[:0], b.which[:0]
	for _, i := range list {
		if b.as[i] != b.round {
			b.as[i] = b.round
			b.looks, b.which = append(b.looks, b.outlook(i)), append(b.which, i)
		}
	}
	b.finish(func(i int32, gain float64) { b.worth[i] = gain / b.rows[i].price })
}

func (b *book) finish(take func(i int32, gain float64)) {
	b.gains = slices.Grow(b.gains[:0], len(b.looks))[:len(b.looks)]
	b.view.gains(b.looks, b.gains)
	for k, i := range b.which {
		take(i, b.gains[k])
	}
}

// outlook is that of view.
func (b *book) outlook(i int32) outlook {
	r, v := &b.rows[i], b.view
	if r.noted {
		return v.outlook(r.c)
	}
	c := b.cellOf(r)
	tau := max(0, v.now-v.calendar.clock(b.last[i]))
	return outlook{w: r.w, leave: &v.leave[c], tau: tau, x: r.x, e: math.Exp(-v.ratio[c] * tau * (1.0 / (1 << rateStep)))}
}

func (b *book) cellOf(r *row) int {
	if r.changed == 0 {
		return int(r.cells) + ageCells - 1
	}
	return int(r.cells) + ageRow(b.view.start-b.view.calendar.clock(r.changed))
}

// foresee makes bounds for queries that have none.
func (b *book) foresee(list []int32) {
	b.looks, b.which = b.looks[:0], b.which[:0]
	for _, i := range list {
		b.bound[i], b.until[i] = math.Inf(1), math.Inf(1)
		if o, ok := b.foresight(i); ok {
			b.looks, b.which = append(b.looks, o), append(b.which, i)
		}
	}
	b.finish(func(i int32, gain float64) { b.bound[i] = (gain + slack) / b.rows[i].price })
}

// foresight is a query's outlook for later, and until when that is a bound: until
// it may be worth nearly as much as what had its turn in the last slot. Worth
// grows at most as the square of the time that has passed. Where that is soon no
// bound is worth its while.
func (b *book) foresight(i int32) (outlook, bool) {
	const part, most = 0.85, 16
	r, v := &b.rows[i], b.view
	c := b.cellOf(r)
	if r.noted || r.x > 1 || v.ratio[c] < lowest || b.last[i] > v.epoch.slot {
		return outlook{}, false
	}
	since := v.calendar.clock(b.last[i])
	tau := max(0, v.now-since)
	later := tau * min(most, math.Sqrt(part*b.begun/max(b.worth[i], 1e-300)))
	if later < tau+2 {
		return outlook{}, false
	}
	tau = later
	until, oldest := since+tau, b.last[i]
	if row := c - int(r.cells); r.changed > 0 && row < ageCells-2 {
		until = min(until, v.calendar.clock(r.changed)+math.Ldexp(1, row+1)-1)
		oldest = min(oldest, r.changed)
	}
	if oldest < v.calendar.from {
		return outlook{}, false
	}
	b.until[i], b.oldest[i], b.cell[i] = until-jiffy, oldest, uint8(c)
	return outlook{w: r.w, leave: &b.fade[c], tau: tau, x: r.x, e: math.Exp(-b.high[c] * tau * (1.0 / (1 << rateStep)))}, true
}

// wave brings the next ones in the order, in whatever order themselves: those
// that no other comes before. It brings none only where there are none.
func (b *book) wave() []entry {
	b.entries = b.entries[:0]
	if len(b.special) > 0 {
		for _, i := range b.special {
			if b.state[i] == chosen {
				b.bring(i)
			}
		}
		b.special = b.special[:0]
	}
	for len(b.entries) == 0 && b.waiting > 0 {
		b.reach()
	}
	return b.entries
}

// reach brings those that are worth at least the level, and lowers it.
func (b *book) reach() {
	now, level := b.view.now, b.level
	best := math.Inf(-1) // of those that are not brought
	b.list = b.list[:0]
	for i, s := range b.state {
		if s != crowded {
			continue
		}
		if b.as[i] != b.round {
			if x := b.bound[i] + b.bonus[i]; x < level && b.until[i] >= now {
				best = max(best, x)
				continue
			}
		}
		b.list = append(b.list, int32(i))
	}
	b.evaluate(b.list)
	dim := b.list[:0]
	for _, i := range b.list {
		x := b.worth[i] + b.bonus[i]
		if x >= level {
			b.rows[i].class = classIndex
			b.bring(i)
			continue
		}
		best = max(best, x)
		if !b.turned && (b.until[i] < now || math.IsInf(b.bound[i], 1)) {
			dim = append(dim, i)
		}
	}
	b.foresee(dim)
	b.lower(best)
}

// lower sets the level of the next wave.
func (b *book) lower(best float64) {
	const least = 1e-9
	if b.level = b.step * min(b.level, best); b.level < least {
		b.level = math.Inf(-1)
	}
	b.step = max(0.5, b.step*b.step)
}

// bring takes a query out of those that no wave has brought.
func (b *book) bring(i int32) {
	b.state[i] = standing
	b.waiting--
	if c := b.rows[i].full; c != nil {
		c.key = b.key(i)
		b.entries = append(b.entries, entryOf(c))
	}
}

// all brings everything.
func (b *book) all() []entry {
	b.level = math.Inf(-1)
	list := slices.Clone(b.wave())
	for b.waiting > 0 {
		list = append(list, b.wave()...)
	}
	return list
}
