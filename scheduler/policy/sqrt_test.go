package policy

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// historyOf is the state of a query that was executed every gap slots for some days
// of 24 slots, and changed as often as finds says.
func historyOf(days, gap, finds int) []float64 {
	var d changeHistory
	for slot := gap; slot <= 24*days; slot += gap {
		d.noted, d.changed, d.from = true, finds > 0, uint64(slot-gap)
		finds--
		d.advanceTo(1 + uint64(slot/24))
		d.applySample(uint64(slot))
	}
	return d.state()
}

func TestShares(t *testing.T) {
	m := Moment{Slot: 400, Budget: 10 * time.Second}
	var all []*Candidate
	for i, finds := range []int{1, 4, 16, 4} {
		c := &Candidate{Query: query(fmt.Sprint("q", i)), Median: time.Minute, Estimate: time.Minute}
		c.Stats = Stats{Last: 336, Executions: 300, State: historyOf(13, 4, finds)}
		all = append(all, c)
	}
	all[3].Query.Holders[0].Weight = 4
	got, _ := shares(m, all, 24)
	// Rates of about 1 : 4 : 16 : 4, the last with a weight of 4.
	for i, want := range []float64{1, 2, 4, 4} {
		if r := got[i] / got[0]; math.Abs(r-want) > 0.1*want {
			t.Errorf("query %d has %g times the refreshes of the first, want about %g: %v", i, r, want, got)
		}
	}
	// A minute counts as the budget of 10 s, and 0.95 of 24·10 s are shared out.
	sum := 0.0
	for _, x := range got {
		sum += x * 10
	}
	if math.Abs(sum-0.95*240) > 0.01 {
		t.Errorf("%g s a day are shared out, want 228", sum)
	}
	// A query is refreshed at most once a slot.
	m.Budget = time.Hour
	perDay, _ := shares(m, all, 24)
	for i, x := range perDay {
		if x != 24 {
			t.Errorf("with an hour a slot query %d has %g refreshes a day", i, x)
		}
	}
}

// Shares are right also where executing all queries in each slot takes more than 292 years a day.
func TestSharesOfMany(t *testing.T) {
	const queries = 120_000
	c := &Candidate{Query: query("q"), Median: time.Second, Estimate: time.Second}
	m := Moment{Slot: 400, Budget: time.Second, Lead: time.Second}
	perDay, _ := shares(m, slices.Repeat([]*Candidate{c}, queries), slotsPerDay(m))
	if want := 0.95 * 86_400 / queries; math.Abs(perDay[0]-want) > 1e-6 {
		t.Errorf("%g refreshes a day, want %g", perDay[0], want)
	}
}

// What is remembered of a query does not outlive its state, its holders or the grid.
func TestRememberedRoot(t *testing.T) {
	c := &Candidate{}
	check := func(what string, day float64) {
		t.Helper()
		for range 2 {
			if got, want := c.root(day), rootOf(c, day); got != want {
				t.Errorf("%s: the root is %g, want %g", what, got, want)
			}
		}
	}
	check("no state", 24)
	q := query("q")
	c.SetQuery(q)
	c.Stats.Last = 336
	c.SetState(historyOf(13, 4, 3))
	check("a state", 24)
	c.SetState(historyOf(13, 4, 9))
	check("another state", 24)
	q.Holders[0].Weight = 4
	c.SetQuery(q)
	check("another weight", 24)
	check("another grid", 96)
	c.SetState(squareRoot{}.Fold(c.Stats.State, 336, Sample{Slot: 340, Changed: true}))
	c.Stats.Last = 340
	check("a pending sample", 96)
	c.Stats.Last = 350
	check("a pending sample of a later slot", 96)
	c.SetState(nil)
	check("no state again", 96)
}

// Changes older than 14 days do not count.
func TestHistoryForgets(t *testing.T) {
	s := historyOf(10, 1, 200)
	d := readHistory(s)
	before := d.rate(24)
	d.advanceTo(11 + 13)
	if d.rate(24) >= before {
		t.Errorf("after 13 days without any execution the rate is %g, was %g", d.rate(24), before)
	}
	d.advanceTo(11 + 14)
	if sum := d.runs[0] + d.slots[0]; sum != 0 || d.rate(24) != (&changeHistory{}).rate(24) {
		t.Errorf("after 14 days %v is left", d)
	}
}

// A flat profile spaces evenly, a steep one in proportion to the square root.
func TestDayPattern(t *testing.T) {
	flat := readPattern(nil)
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-500, 500).Draw(t, "x")
		if math.Abs(flat.integral(x)-x/24) > 1e-9 {
			t.Fatalf("up to hour %g it is %g days", x, flat.integral(x))
		}
	})
	shared := make([]float64, 2*dayBins)
	for b := range dayBins {
		shared[dayBins+b] = 1e9
		shared[b] = 1e6
		if b >= 12 {
			shared[b] = 9e6
		}
	}
	p := readPattern(shared)
	// Nine times the rate is three times the density: 1/4 of the day's refreshes
	// in the first half, 3/4 in the second.
	if x := p.integral(12); math.Abs(x-0.25) > 0.001 {
		t.Errorf("the quiet half of the day has %g of the refreshes, want 0.25", x)
	}
	if a, b := p.integral(30), 1+p.integral(6); math.Abs(a-b) > 1e-12 {
		t.Errorf("the next day is another: %g, %g", a, b)
	}
}

// Changes at one time of day attract the refreshes to it.
func TestLearnsTheDay(t *testing.T) {
	shared := make([]float64, 2*dayBins)
	for slot := range 24 * 60 {
		at := float64(slot % 24)
		for range 20 {
			learnHours(shared, at, 1, at >= 6 && at < 12)
		}
	}
	p := readPattern(shared)
	// An execution at hour h looks back on hour h−1.
	if busy := p.integral(11) - p.integral(5); busy < 0.5 {
		t.Errorf("the six hours with all changes have %g of the refreshes", busy)
	}
	sum := 0.0
	for b := range dayBins {
		sum += shared[b]
	}
	if math.Abs(sum-6*20*60) > 1e-6 {
		t.Errorf("%g changes are noted, there were %d", sum, 6*20*60)
	}
}
