package cohort

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The model finds the costs of an endpoint, also when they change.
func TestCostsAreLearnt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	c := New("t_1", true)
	for _, want := range [][3]float64{{0.010, 0.0002, 0.00001}, {0.002, 0.001, 0.00005}} {
		for range 400 {
			m, rows := 1+r.IntN(200), r.IntN(3000)
			seconds := (want[0] + want[1]*float64(m) + want[2]*float64(rows)) * (0.9 + 0.2*r.Float64())
			c.Asked(Values, m, rows, m, time.Duration(seconds*1e9))
		}
		a, b, perRow := c.Costs(Values)
		got, exact := a+100*b+1000*perRow, want[0]+100*want[1]+1000*want[2]
		if math.Abs(got-exact) > 0.15*exact {
			t.Errorf("100 members with 1000 rows cost %g, not %g (a %g, b %g, c %g)", got, exact, a, b, perRow)
		}
	}
}

// Each endpoint gets the kind that is cheapest there.
func TestCheapestKindIsChosen(t *testing.T) {
	for _, cost := range []map[Kind]time.Duration{
		{Single: 10, Values: 2, Probe: 1}, {Single: 10, Values: 1, Probe: 2}, {Single: 10, Values: 300, Probe: 1},
		{Single: 1, Values: 3, Probe: 5},
	} {
		c, used := New("t_1", true), map[Kind]int{}
		best := Single
		for k, v := range cost {
			if v < cost[best] {
				best = k
			}
		}
		for range 1000 {
			k, n := c.Next(noon, registry.MergeAuto)
			used[k]++
			c.Asked(k, n, n, n, cost[k]*time.Millisecond*time.Duration(n))
		}
		if used[best] < 900 || len(used) != 3 {
			t.Errorf("costs %v: used %v", cost, used)
		}
	}
}

// If a probe can confirm no query of a template, asking alone is tried all the same.
func TestSingleIsTriedWithoutProbes(t *testing.T) {
	c, used := New("t_1", true), map[Kind]int{}
	for range 1000 {
		k, n := c.Next(noon, registry.MergeAuto, Probe)
		used[k]++
		c.Asked(k, n, n, n, map[Kind]time.Duration{Single: 1, Values: 3}[k]*time.Millisecond*time.Duration(n))
	}
	if used[Single] < 900 || used[Probe] > 0 {
		t.Errorf("used %v", used)
	}
}

// A kind that costs far more is tried again rarely, and with few members.
func TestTrialsOfExpensiveKindsAreRare(t *testing.T) {
	c, spent := New("t_1", true), map[Kind]int{}
	cost := map[Kind]int{Single: 20, Values: 1000, Probe: 3}
	for range 20_000 {
		k, n := c.Next(noon, registry.MergeAuto)
		spent[k] += n * cost[k]
		c.Asked(k, n, n, n, time.Duration(n*cost[k])*time.Millisecond)
	}
	if others := spent[Values] + spent[Single]; others > spent[Probe]/20 {
		t.Errorf("spent %v", spent)
	}
}

// A failure halves the number of members down to one, and good requests restore it.
func TestFailureHalves(t *testing.T) {
	c := New("t_1", false)
	size := func() int { _, n := c.Next(noon, registry.MergeValues); return n }
	for n := size(); n > 1; n = size() {
		c.Failed(Values, n)
		if next := c.known.Merged[Values].Limit; next != n/2 {
			t.Fatalf("%d members after a failure with %d", next, n)
		}
	}
	for range 10_000 {
		k, n := c.Next(noon, registry.MergeValues)
		c.Asked(k, n, n, n, time.Millisecond)
	}
	if n := c.known.Merged[Values].Limit; n != MaxMembers {
		t.Errorf("%d members after many good requests", n)
	}
}

// An endpoint that refuses long requests refuses fewer than one in a hundred: the limit is
// tried more and more rarely. What failed at random for a time grows back soon.
func TestRefusalsBecomeRare(t *testing.T) {
	c, refused := New("t_1", false), 0
	for range 10_000 {
		k, n := c.Next(noon, registry.MergeValues)
		if n > 40 {
			refused++
			c.Failed(k, n)
			continue
		}
		c.Asked(k, n, n, n, time.Millisecond)
	}
	if n := c.known.Merged[Values].Limit; refused > 100 || n < 20 {
		t.Errorf("%d of 10000 requests were refused, the limit is %d", refused, n)
	}
	for range 100 {
		c.Failed(Values, 40)
		c.Failed(Values, 2)
	}
	for turn := range 1000 {
		k, n := c.Next(noon, registry.MergeValues)
		if c.Asked(k, n, n, n, time.Millisecond); n >= 40 {
			t.Logf("%d members after %d good requests", n, turn)
			return
		}
	}
	t.Error("the limit does not grow")
}

// One answer in a hundred is audited, and at least one an hour. A difference switches
// merging off for a day.
func TestAudits(t *testing.T) {
	c, now, audits := New("t_1", false), noon, 0
	for range 100 {
		audits += c.Audits(now, 50)
		now = now.Add(time.Second)
	}
	if audits < 50 || audits > 52 {
		t.Errorf("%d audits of 5000 answers", audits)
	}
	c.Audits(now, 1)
	if n := c.Audits(now.Add(time.Hour), 1); n != 1 {
		t.Errorf("%d audits after an hour", n)
	}
	c.Audited(now, Values, true)
	if k, _ := c.Next(now, registry.MergeValues); k != Values {
		t.Errorf("%s after a good audit", k)
	}
	c.Audited(now, Values, false)
	if k, _ := c.Next(now.Add(23*time.Hour), registry.MergeValues); k != Single {
		t.Errorf("%s after a difference", k)
	}
	if k, _ := c.Next(now.Add(25*time.Hour), registry.MergeValues); k != Values {
		t.Errorf("%s a day after a difference", k)
	}
}

// The shares of the members add up to the time of the request, and grow with the rows.
func TestShares(t *testing.T) {
	c := New("t_1", false)
	for i := range 100 {
		rows := 7 * i % 50 * 10
		c.Asked(Values, 1+i%20, rows, 1, time.Duration(1+i%20+rows)*time.Millisecond)
	}
	got := c.Shares(Values, []int{0, 1, 100}, time.Second)
	if got[0]+got[1]+got[2] != time.Second || got[0] >= got[1] || got[1] >= got[2] {
		t.Errorf("shares %v", got)
	}
}

// A kind whose first requests all failed is tried again soon, and more rarely after each
// failure: the endpoint may have been in trouble then.
func TestFailedKindIsTriedAgain(t *testing.T) {
	c, used := New("t_1", true), map[Kind]int{}
	for range 3000 {
		k, n := c.Next(noon, registry.MergeAuto)
		used[k]++
		if k == Single {
			c.Asked(k, 1, 1, 1, 10*time.Millisecond)
		} else {
			c.Failed(k, n)
		}
	}
	for _, k := range []Kind{Values, Probe} {
		if used[k] < 5 || used[k] > 40 {
			t.Errorf("%s was tried %d times", k, used[k])
		}
	}
	for range 1000 { // it is well again
		k, n := c.Next(noon, registry.MergeAuto)
		used[k]++
		c.Asked(k, n, n, n, map[Kind]time.Duration{Single: 10, Values: 1, Probe: 2}[k]*time.Millisecond*time.Duration(n))
	}
	if used[Values] < 700 {
		t.Errorf("used %v", used)
	}
}

// After a restart, kinds that have failed and expensive ones are not tried at once, and
// the cheapest kind goes on.
func TestRestoredCohortGoesOn(t *testing.T) {
	ask := func(c *Cohort) Kind {
		k, n := c.Next(noon, registry.MergeAuto)
		if k == Probe {
			c.Failed(k, n)
		} else {
			c.Asked(k, n, n, n, map[Kind]time.Duration{Single: 10, Values: 1}[k]*time.Millisecond*time.Duration(n))
		}
		return k
	}
	c := New("t_1", true)
	for range 2000 {
		ask(c)
	}
	d := New("t_1", true)
	d.Restore(c.State("", noon), noon)
	used := map[Kind]int{}
	for range 30 {
		used[ask(d)]++
	}
	if used[Values] < 29 {
		t.Errorf("used %v in the first requests after a restart", used)
	}
}
