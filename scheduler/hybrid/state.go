package hybrid

import "math"

// An endpointState is hybrid's shared state: the clock of live slots, how changes follow
// on changes, and how often related queries change together.
type endpointState struct {
	slot   uint64         // the last one that was absorbed
	clock  float64        // at its end
	empty  bool           // it was
	left   float64        // how often a live slot followed on an empty one
	stayed float64        // and how often another empty one
	fell   float64        // how often an empty slot followed on a live one
	kept   float64        // and how often another live one
	found  float64        // changes in recent live slots
	spent  float64        // seconds that those took
	trust  float64        // in empty slots, see learnTrust
	came   float64        // changes that witnesses found lately
	meant  float64        // and as many as were expected of them, were all slots live
	hits   [rates]float64 // boosted queries, by their mean rate, that had changed because of that
	tries  [rates]float64 // of so many
	seen   [cells]float64
	due    [cells]float64
	ring   []uint64 // a bit per slot, 48 to a word, set where it was empty; slot s is bit s mod 48 of word s/48 mod ringWords
}

const (
	ringWords  = 100 // about 4,800 slots
	wordBits   = 48  // a float holds as much
	stateHead  = 12
	emptySlot  = 0.02 // how much time passes in an empty slot
	ageCells   = 14
	cells      = rates * ageCells
	stateTail  = stateHead + 2*rates + 2*cells
	stateSize  = stateTail + ringWords
	hazardFade = 0.9995
	yieldFade  = 0.99
)

func readState(s []float64) *endpointState {
	e := &endpointState{ring: make([]uint64, ringWords)}
	if len(s) != stateSize {
		return e
	}
	e.slot, e.clock, e.empty = uint64(s[0]), s[1], s[2] > 0
	e.left, e.stayed, e.fell, e.kept, e.found, e.spent = s[3], s[4], s[5], s[6], s[7], s[8]
	e.trust, e.came, e.meant = s[9], s[10], s[11]
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
	s := append(make([]float64, 0, stateSize), float64(e.slot), e.clock, 0, e.left, e.stayed, e.fell, e.kept, e.found, e.spent,
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
	return s
}

func (e *endpointState) bit(slot uint64) (word *uint64, mask uint64) {
	return &e.ring[slot/wordBits%ringWords], 1 << (slot % wordBits)
}

// close ends a slot; those between the last one and it count as live.
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

// next is how much time the coming slot is expected to take: after an empty one
// the learnt probability that it is not empty.
func (e *endpointState) next() float64 {
	if !e.empty {
		return 1
	}
	return min((e.left+1)/(e.left+e.stayed+2), 1-leastEmpty)
}

// leastEmpty is the least probability that a slot is an empty one: else there
// would be no finding out that some are.
const leastEmpty = 0.1

// odds are the logarithm of those that the coming slot is an empty one.
func (e *endpointState) odds() float64 {
	p := 1 - e.next()
	if !e.empty {
		p = max(leastEmpty, (e.fell+1)/(e.fell+e.kept+10))
	}
	return math.Log(p / (1 - p))
}

// spare is the part of the budget that empty slots are expected to leave for
// those whose deadlines come nearer, in the mean of all slots.
func (e *endpointState) spare() float64 {
	n := e.fell + e.stayed
	return min(0.12, 0.5*n/(n+e.kept+e.left+10))
}

// yield is how many changes a second finds in live slots.
func (e *endpointState) yield() float64 { return e.found / max(e.spent, 1) }

// proof is what the logarithm of the odds has to be for a slot to count as an
// empty one: nine to one.
const proof = 2.2

// anyway is how likely a query changes in an empty slot all the same: what it
// says may depend on the time of day.
const anyway = 0.02

// A witness changes in a live slot with probability p, and did run in the slot
// before.
type witness struct {
	p       float64
	changed bool
}

// A tell is evidence for an empty slot, as the logarithm of a ratio of likelihoods:
// of a result that is unchanged and of one that has changed.
type tell struct{ same, changed float64 }

// tellOf is how the execution of such a query speaks for an empty slot.
func tellOf(p float64) tell {
	p = min(max(p, anyway), 1-anyway)
	return tell{same: math.Log((1 - anyway) / (1 - p)), changed: math.Log(anyway / p)}
}

func (w witness) says() float64 {
	if t := tellOf(w.p); w.changed {
		return t.changed
	} else {
		return t.same
	}
}

// likely is the logarithm of the probability of what was found, where a change
// has the probability p.
func (w witness) likely(p float64) float64 {
	p = min(max(p, anyway), 1-anyway)
	if !w.changed {
		p = 1 - p
	}
	return math.Log(p)
}

// trusted says that slots are taken for empty ones where it looks so. Queries
// that do not change prove nothing by being many, unless they usually change
// together.
func (e *endpointState) trusted() bool { return e.trust > trustFrom }

const (
	trustFrom   = 3 // e^3 to one: taking slots for empty that are not costs far more than the contrary
	trustMost   = 20
	trustFade   = 0.999
	witnessFade = 0.98
)

// learnTrust learns from the witnesses of a slot whether there are empty slots at
// all: whether each of them is foretold better by what the others found than by
// itself, given how often such queries changed lately. Trust is the logarithm of
// the Bayes factor, a little of it forgotten with each slot.
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
			e.trust += w.likely(empty*anyway+(1-empty)*w.p) - w.likely(share*w.p)
		}
		e.meant += w.p
		if w.changed {
			e.came++
		}
	}
	e.trust = min(max(e.trust, -trustMost), trustMost)
}

// A calendar tells the clock at the end of recent slots.
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

// cell is a query's place in the hazard table: by its mean rate and by the
// time since its last change, the last row for none.
func cell(mean float64, changed bool, age float64) int {
	row := ageCells - 1
	if changed {
		row = ageRow(age)
	}
	return cellsOf(mean) + row
}

// cellsOf is the first of the cells of a mean rate.
func cellsOf(mean float64) int {
	_, k := math.Frexp(mean) // mean in [2^(k−1), 2^k)
	return min(max(k-1+rateStep, 0), rates-1) * ageCells
}

// ageRow is the row of those whose last change is so many slots ago; it is the
// same until 2^(row+1) − 1 slots, the last of them for ever.
func ageRow(age float64) int {
	_, a := math.Frexp(max(0, age) + 1)
	return min(a-1, ageCells-2)
}

// hazard is by how much changes are more likely in a cell than the rates say.
func (e *endpointState) hazard(cell int) float64 { return (e.seen[cell] + 3) / (e.due[cell] + 3) }
