package policy

import (
	"math"
	"time"
)

// squareRoot is the policy sqrt. Query i gets m_i refreshes a day, in proportion to
// √(w_i·λ_i) and at most one a slot, scaled so that together they take the budget;
// λ_i is the rate of its changes in the last 14 days, w_i its weight.
//
// Within the day the times τ_j of a query's refreshes follow the criterion
// λ(τ_j)(τ_{j+1} − τ_j) = ∫_{τ_{j−1}}^{τ_j} λ(t)dt, with λ(t) the daily profile
// learnt from all queries. To first order in the spacing that is a density in
// proportion to √λ(t). So a query is due when ∫√λ(t)dt since its last execution,
// normalized to 1 for a whole day, reaches 1/m_i; a flat profile gives even
// spacing. The most overdue query comes first.
//
// Source: K. C. Sia, "Efficient Monitoring Algorithm for Fast News Alert": resource
// allocation, criteria for optimality, how much history to keep.
type squareRoot struct{}

func sqrtDefinition() Definition {
	return Definition{
		Name:   "sqrt",
		Doc:    "refreshes per day in proportion to the square root of weight times change rate, when changes are frequent",
		Source: "Sia, Efficient Monitoring Algorithm for Fast News Alert",
		Build:  func(Args) (Policy, error) { return squareRoot{}, nil },
	}
}

const (
	window   = 14 // days that rates are learnt from
	dayBins  = 24
	dayPrior = 200 // weight of the flat prior profile, in changes
	slotsDay = 24  // if the endpoint has no grid
	allotted = 0.95
)

// A changeHistory is the state of a query: what the executions of the last days
// found, one place per day, their sums, and a pending sample that has not been applied
// yet.
type changeHistory struct {
	noted, changed bool
	from           uint64 // slot of the execution before the pending one
	day            uint64 // of place 0; 0 with everything else 0 = no history yet
	runs           [window]float64
	finds          [window]float64
	slots          [window]float64 // slots between each execution and the one before
}

const (
	historyHead = 4
	historySums = 3 // after the head
	historySize = historyHead + historySums + 3*window
)

func readHistory(s []float64) changeHistory {
	var d changeHistory
	if len(s) != historySize {
		return d
	}
	d.noted, d.changed, d.from, d.day = s[0] > 0, s[1] > 0, uint64(s[2]), uint64(s[3])
	days := s[historyHead+historySums:]
	copy(d.runs[:], days)
	copy(d.finds[:], days[window:])
	copy(d.slots[:], days[2*window:])
	return d
}

func (d *changeHistory) state() []float64 {
	s := make([]float64, historySize)
	if d.noted {
		s[0] = 1
	}
	if d.changed {
		s[1] = 1
	}
	s[2], s[3] = float64(d.from), float64(d.day)
	s[historyHead], s[historyHead+1], s[historyHead+2] = d.sums()
	days := s[historyHead+historySums:]
	copy(days, d.runs[:])
	copy(days[window:], d.finds[:])
	copy(days[2*window:], d.slots[:])
	return s
}

// sums are exact, because what is added is whole.
func (d *changeHistory) sums() (runs, finds, slots float64) {
	for i := range window {
		runs, finds, slots = runs+d.runs[i], finds+d.finds[i], slots+d.slots[i]
	}
	return runs, finds, slots
}

// advanceTo makes place 0 the place of a day and drops the days outside the window.
// A state that was folded without a calendar counts as of today.
func (d *changeHistory) advanceTo(day uint64) {
	if d.day > 0 && day > d.day {
		by := int(min(day-d.day, window))
		for _, a := range []*[window]float64{&d.runs, &d.finds, &d.slots} {
			copy(a[by:], a[:window-by])
			clear(a[:by])
		}
	}
	d.day = max(d.day, day)
}

// applySample applies the pending sample.
func (d *changeHistory) applySample(slot uint64) {
	if !d.noted {
		return
	}
	d.runs[0]++
	d.slots[0] += float64(slot - min(slot, d.from))
	if d.changed {
		d.finds[0]++
	}
	d.noted, d.changed, d.from = false, false, 0
}

// rate is the expected number of changes per slot. Several changes between two
// executions are seen as one; the estimate corrects for that as if executions were
// evenly spaced. Without any history it is one in four months of hourly slots.
//
// Source: J. Cho, H. Garcia-Molina, "Estimating frequency of change", 2003.
func (d *changeHistory) rate(day float64) float64 {
	runs, finds, slots := d.sums()
	return rate(runs, finds, slots, day)
}

func rate(runs, finds, slots, day float64) float64 {
	floor := 0.05 / (float64(6*day) + slots)
	if runs == 0 || slots == 0 || finds == 0 {
		return floor
	}
	return floor - math.Log((runs-finds+0.5)/(runs+0.5))*runs/slots
}

func (squareRoot) String() string { return "sqrt" }

// Fold stores an execution as a pending sample. Absorb, which knows the day,
// applies it.
func (squareRoot) Fold(state []float64, last uint64, x Sample) []float64 {
	d := readHistory(state)
	d.applySample(last)
	d.noted, d.changed, d.from = true, x.Changed, last
	return d.state()
}

// Key is replaced by the keys of each Rank.
func (squareRoot) Key(c *Candidate) Key { return Key{Value: float64(c.Stats.Last)} }

// slotsPerDay is the number of slots per day, at least 1.
func slotsPerDay(m Moment) float64 {
	if m.Lead <= 0 {
		return slotsDay
	}
	return max(1, float64(24*time.Hour)/float64(m.Lead))
}

// A dayPattern is the daily pattern of changes, as the integral of the square root
// of its rate: at[b] at the start of bin b, 1 at the end of the day.
type dayPattern struct{ at [dayBins + 1]float64 }

func readPattern(shared []float64) dayPattern {
	var p dayPattern
	var finds, slots float64
	if len(shared) == 2*dayBins {
		for b := range dayBins {
			finds, slots = finds+shared[b], slots+shared[dayBins+b]
		}
	}
	for b := range dayBins {
		rate := 1.0
		if slots > 0 && finds > 0 { // relative to the mean, and shrunk towards it
			expected := shared[dayBins+b] * finds / slots
			rate = (shared[b] + dayPrior/dayBins) / (expected + dayPrior/dayBins)
		}
		p.at[b+1] = p.at[b] + math.Sqrt(rate)
	}
	for b := range p.at {
		p.at[b] /= p.at[dayBins]
	}
	p.at[dayBins] = 1
	return p
}

// hour is the time of day of a slot, in bins. Without a grid a slot counts as an
// hour.
func hour(m Moment, day float64) float64 {
	if m.Lead <= 0 {
		return math.Mod(float64(m.Slot), slotsDay) * dayBins / slotsDay
	}
	t := m.Now.UTC()
	return float64(t.Sub(t.Truncate(24*time.Hour))) / float64(24*time.Hour) * dayBins
}

// integral is the integral up to a time of day, in bins, which may lie before or
// after the day.
func (p *dayPattern) integral(at float64) float64 {
	days := math.Floor(at / dayBins)
	at -= float64(days * dayBins)
	b := min(int(at), dayBins-1)
	return days + p.at[b] + float64((at-float64(b))*(p.at[b+1]-p.at[b]))
}

// shares returns the refreshes per day of all queries: s·√(wλ), with the scale s
// such that together they use the whole budget. Sums are in whole nanoseconds, so
// that they do not depend on the order of the slice all.
func shares(m Moment, all []*Candidate, day float64) (perDay []float64, scale float64) {
	roots, costs, most := make([]float64, len(all)), make([]float64, len(all)), 0.0
	for i, c := range all {
		roots[i] = c.root(day)
		costs[i] = float64(min(c.Estimate, m.Budget))
		most = max(most, 1/roots[i])
	}
	budget := time.Duration(allotted * float64(m.Budget) * day)
	cost := func(s float64) (sum time.Duration) {
		for i, c := range costs {
			if sum += time.Duration(min(day, s*roots[i]) * c); sum < 0 { // more than the 292 years that fit
				return math.MaxInt64
			}
		}
		return sum
	}
	if high := 2 * day * most; cost(high) > budget {
		most = halved(high, budget, cost)
	} else {
		most = high
	}
	for i := range roots {
		roots[i] = min(day, most*roots[i])
	}
	return roots, most
}

func rootOf(c *Candidate, day float64) float64 { return math.Sqrt(c.Query.Weight() * rateOf(c, day)) }

// root is rootOf, which it computes once for each state and query.
func (c *Candidate) root(day float64) float64 {
	if c.short[1] == day {
		return c.short[0]
	}
	root := rootOf(c, day)
	if s := c.Stats.State; len(s) == historySize && s[0] == 0 { // else the slot of a pending sample decides, too
		c.short = [2]float64{root, day}
	}
	return root
}

// halved bisects [0, high] forty times for the largest s that costs no more than
// the budget; high costs more. Costs rise with s, so a few evaluations decide most
// of the steps: the false position method finds points close to the answer.
func halved(high float64, budget time.Duration, cost func(float64) time.Duration) float64 {
	below, above := 0.0, high // known to cost no more than the budget, and to cost more
	under, over := float64(-budget), float64(cost(high)-budget)
	ask := func(s float64) bool {
		d := cost(s) - budget
		if d > 0 {
			above, over = s, float64(d)
		} else {
			below, under = s, float64(d)
		}
		return d > 0
	}
	for last, n := 0, 0; n < 12 && above-below > high*0x1p-40; n++ {
		s := below + (above-below)*under/(under-over)
		if !(s > below && s < above) {
			break
		}
		side := -1
		if ask(s) {
			side = 1
		}
		if side == last { // the Illinois step: halve the weight of the other end
			if side > 0 {
				under /= 2
			} else {
				over /= 2
			}
		}
		last = side
	}
	low := 0.0
	for range 40 {
		s := (low + high) / 2
		if s >= above || s > below && ask(s) {
			high = s
		} else {
			low = s
		}
	}
	return low
}

// rateOf is the rate of a query with its pending sample applied.
func rateOf(c *Candidate, day float64) float64 {
	if s := c.Stats.State; len(s) == historySize && s[0] == 0 {
		return rate(s[historyHead], s[historyHead+1], s[historyHead+2], day)
	}
	d := readHistory(c.Stats.State)
	d.applySample(c.Stats.Last)
	return d.rate(day)
}

// Rank leaves out queries that are not due and puts the most overdue first.
func (p squareRoot) Rank(m Moment, all []*Candidate) Ranking {
	day := slotsPerDay(m)
	pattern, now := readPattern(m.Shared), hour(m, day)
	perDay, scale := shares(m, all, day)
	keys := make([]Key, len(all))
	for i, c := range all {
		wait := 1/perDay[i] - p.passed(&pattern, m, c, now, day)
		keys[i] = Key{Value: wait}
		// Half a slot early is closer to the right time than half a slot late.
		if late := c.Overdue > 0; wait > 0.5/day && !late {
			keys[i].Due = m.Slot + max(1, uint64(min(wait*day, 1<<40)))
		}
	}
	return Ranking{Keys: keys, Inputs: map[string]float64{"slots_per_day": day}, Memo: scale}
}

// passed is the integral of the pattern since the last execution.
func (squareRoot) passed(pattern *dayPattern, m Moment, c *Candidate, now, day float64) float64 {
	slots := float64(m.Slot - min(m.Slot, c.Stats.Last))
	return pattern.integral(now) - pattern.integral(now-slots*dayBins/day)
}

func (p squareRoot) Inputs(m Moment, r Ranking, c *Candidate) map[string]float64 {
	in := map[string]float64{"last": float64(c.Stats.Last), "weight": c.Query.Weight()}
	day := slotsPerDay(m)
	d := readHistory(c.Stats.State)
	d.applySample(c.Stats.Last)
	in["changes_per_day"] = d.rate(day) * day
	pattern := readPattern(m.Shared)
	in["passed_days"] = p.passed(&pattern, m, c, hour(m, day), day)
	if scale, ok := r.Memo.(float64); ok && scale > 0 {
		in["refreshes_per_day"] = min(day, scale*rootOf(c, day))
	}
	return in
}

// Absorb applies the pending samples, and distributes each change over the part of
// the day in which it may have happened.
func (squareRoot) Absorb(m Moment, ran []*Candidate, _ func(*Candidate) []*Candidate) Lesson {
	day := slotsPerDay(m)
	shared := make([]float64, 2*dayBins)
	if len(m.Shared) == len(shared) {
		fade := math.Exp(-1 / (window * day))
		for i, x := range m.Shared {
			shared[i] = x * fade
		}
	}
	l := Lesson{Shared: shared}
	for _, c := range ran {
		d := readHistory(c.Stats.State)
		if !d.noted {
			continue
		}
		learnHours(shared, hour(m, day), float64(m.Slot-min(m.Slot, d.from))*dayBins/day, d.changed)
		d.advanceTo(1 + uint64(float64(m.Slot)/day))
		d.applySample(m.Slot)
		l.States = append(l.States, Taught{Candidate: c, State: d.state()})
	}
	return l
}

// learnHours distributes an execution over the bins since the one before. An
// execution that looks back on more than half a day says nothing about the time of
// day.
func learnHours(shared []float64, now, back float64, changed bool) {
	if back > dayBins/2 {
		return
	}
	for left := back; left > 1e-9; {
		from := now - left
		step := min(left, math.Floor(from)+1-from)
		b := (int(math.Floor(from))%dayBins + dayBins) % dayBins
		shared[dayBins+b] += step
		if changed {
			shared[b] += step / back
		}
		left -= max(step, 1e-6)
	}
}
