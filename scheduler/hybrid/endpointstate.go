package hybrid

import (
	"math"

	"github.com/freshet/freshet/scheduler/policy"
)

// An endpointState is hybrid's shared state: the clock of live slots, how likely
// changes are after changes, and how often related queries change together.
type endpointState struct {
	slot   uint64         // last slot that was absorbed
	clock  float64        // live slots at its end
	empty  bool           // whether it was empty
	left   float64        // live slots that followed an empty one
	stayed float64        // empty slots that followed an empty one
	fell   float64        // empty slots that followed a live one
	kept   float64        // live slots that followed a live one
	trust  float64        // in empty slots, see learnTrust
	came   float64        // changes that witnesses found recently
	meant  float64        // changes expected of them if all slots were live
	yield  float64        // changes that a second of the budget has found lately
	hits   [rates]float64 // boosted queries, by their mean rate, whose change is attributed to the boost
	tries  [rates]float64 // boosted queries executed, by their mean rate
	seen   [cells]float64
	due    [cells]float64
	hearing
	ring [ringWords]uint64 // one bit per slot, 48 to a word, set if it was empty; slot s is bit s mod 48 of word s/48 mod ringWords
}

const (
	ringWords  = 100  // about 4,800 slots
	wordBits   = 48   // fits into a float's mantissa
	stateHead  = 12   // one of them is not used any more
	emptySlot  = 0.02 // how much an empty slot advances the clock
	ageCells   = 14
	cells      = rates * ageCells
	stateTail  = stateHead + 2*rates + 2*cells
	stateOld   = stateTail + ringWords // without hearing
	stateSize  = stateOld + 4
	hazardFade = 0.9995
	yieldStep  = 0.02
)

func readState(s []float64) *endpointState {
	e := new(endpointState)
	if len(s) == stateSize {
		copy(e.told[:], s[stateOld:])
	} else if len(s) != stateOld {
		return e
	}
	e.slot, e.clock, e.empty = uint64(s[0]), s[1], s[2] > 0
	e.left, e.stayed, e.fell, e.kept = s[3], s[4], s[5], s[6]
	e.yield, e.trust, e.came, e.meant = s[7], s[9], s[10], s[11]
	from := s[stateHead:]
	for _, to := range e.tables() {
		from = from[copy(to, from):]
	}
	for i := range e.ring {
		e.ring[i] = uint64(s[stateTail+i])
	}
	return e
}

func (e *endpointState) tables() [4][]float64 {
	return [4][]float64{e.hits[:], e.tries[:], e.seen[:], e.due[:]}
}

func (e *endpointState) state() []float64 {
	s := append(make([]float64, 0, stateSize), float64(e.slot), e.clock, 0, e.left, e.stayed, e.fell, e.kept, e.yield, 0,
		e.trust, e.came, e.meant)
	if e.empty {
		s[2] = 1
	}
	for _, t := range e.tables() {
		s = append(s, t...)
	}
	for _, w := range e.ring {
		s = append(s, float64(w))
	}
	return append(s, e.told[:]...)
}

func (e *endpointState) bit(slot uint64) (word *uint64, mask uint64) {
	return &e.ring[slot/wordBits%ringWords], 1 << (slot % wordBits)
}

// close ends a slot. Slots between the last closed one and this one count as live.
func (e *endpointState) close(slot uint64, empty bool) {
	for s := max(e.slot+1, slot-min(slot, ringWords*wordBits)); s <= slot; s++ {
		word, mask := e.bit(s)
		*word &^= mask
		if s == slot && empty {
			*word |= mask
		}
	}
	switch {
	case e.empty && empty:
		e.stayed++
	case e.empty:
		e.left++
	case empty:
		e.fell++
	default:
		e.kept++
	}
	passed := float64(slot - min(slot, e.slot))
	if empty {
		passed += emptySlot - 1
	}
	e.clock += passed
	e.slot, e.empty = max(slot, e.slot), empty
}

// next is the expected advance of the clock in the coming slot: 1 after a live
// slot, the learnt probability that it is live after an empty one.
func (e *endpointState) next() float64 {
	if !e.empty {
		return 1
	}
	return min((e.left+1)/(e.left+e.stayed+2), 1-leastEmpty)
}

// leastEmpty is the smallest assumed probability that a slot is empty. With less,
// empty slots could never be detected.
const leastEmpty = 0.1

// odds is the logarithm of the odds that the coming slot is empty.
func (e *endpointState) odds() float64 {
	p := 1 - e.next()
	if !e.empty {
		p = max(leastEmpty, (e.fell+1)/(e.fell+e.kept+10))
	}
	return math.Log(p / (1 - p))
}

// proof is the logarithm of the odds from which a slot counts as empty: nine to
// one.
const proof = 2.2

// anyway is the probability that a query changes in an empty slot all the same, for
// example because its result depends on the time of day.
const anyway = 0.02

// A witness is the execution of a query that changes in a live slot with
// probability p and also ran in the slot before.
type witness struct {
	p       float64
	changed bool
}

// tellOf is the evidence for an empty slot, as log-likelihood ratios, from a query that
// changes in a live slot with probability p.
func tellOf(p float64) policy.Evidence {
	p = min(max(p, anyway), 1-anyway)
	return policy.Evidence{Same: math.Log((1 - anyway) / (1 - p)), Changed: math.Log(anyway / p)}
}

func (w witness) says() float64 {
	if t := tellOf(w.p); w.changed {
		return t.Changed
	} else {
		return t.Same
	}
}

// likely is the log-likelihood of the result if a change has probability p.
func (w witness) likely(p float64) float64 {
	p = min(max(p, anyway), 1-anyway)
	if !w.changed {
		p = 1 - p
	}
	return math.Log(p)
}

// trusted reports whether the policy treats slots as empty at all. Many unchanged
// results prove nothing unless the queries usually change together.
func (e *endpointState) trusted() bool { return e.trust > trustFrom }

const (
	trustFrom   = 3 // e^3 to one: treating a live slot as empty costs far more than the opposite
	trustMost   = 20
	trustFade   = 0.999
	witnessFade = 0.98
)

// learnTrust learns from the witnesses of a slot whether empty slots exist. It
// compares two predictions of each result: one from the other witnesses' results
// and one from the query alone, both given how often such queries changed recently.
// Trust is the logarithm of the Bayes factor, slightly discounted with each slot.
func (e *endpointState) learnTrust(odds float64, all []witness) {
	for _, w := range all {
		odds += w.says()
	}
	share := (e.came + 1) / (e.meant + 1)
	e.trust *= trustFade
	e.came *= witnessFade
	e.meant *= witnessFade
	for _, w := range all {
		if len(all) > 1 {
			empty := 1 / (1 + math.Exp(w.says()-odds))
			e.trust += w.likely(float64(empty*anyway)+float64((1-empty)*w.p)) - w.likely(share*w.p)
		}
		e.meant += w.p
		if w.changed {
			e.came++
		}
	}
	e.trust = min(max(e.trust, -trustMost), trustMost)
}

// A calendar returns the clock at the end of recent slots.
type calendar struct {
	from uint64 // slot of the first entry
	at   []float64
}

func (e *endpointState) calendar() calendar {
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

// cell is a query's place in the hazard table: by its mean rate and by the time
// since its last change. The last row is for queries without a change.
func cell(mean float64, changed bool, age float64) int {
	row := ageCells - 1
	if changed {
		row = ageRow(age)
	}
	return cellsOf(mean) + row
}

// cellsOf is the first cell of a mean rate.
func cellsOf(mean float64) int {
	_, k := math.Frexp(mean) // mean in [2^(k−1), 2^k)
	return min(max(k-1+policy.RateStep, 0), rates-1) * ageCells
}

// ageRow is the row for an age in slots since the last change. Row r ends at
// 2^(r+1) − 1 slots; the last row has no end.
func ageRow(age float64) int {
	_, a := math.Frexp(max(0, age) + 1)
	return min(a-1, ageCells-2)
}

// hazard is the factor by which changes in a cell are more likely than the rates
// predict.
func (e *endpointState) hazard(cell int) float64 { return (e.seen[cell] + 3) / (e.due[cell] + 3) }
