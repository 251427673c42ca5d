package hybrid

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A sample updates the estimate by Bayes' rule.
func TestRateEstimate(t *testing.T) {
	b := prior()
	// Σ w_k·2^(k−14): 0.24125·(1+2+4+8)/2^14 + 0.0026923·(2^4+…+2^16)/2^14
	if want := (0.965/4*15 + 0.035/13*(131072-16)) / 16384; math.Abs(b.mean-want) > 1e-15 {
		t.Errorf("the prior's mean is %g, want %g", b.mean, want)
	}
	quiet, found := b, b
	quiet.learn(5, 1, 1, false)
	found.learn(5, 1, 1, true)
	// A change raises the mean a lot: P(change) is about 0.0103, and nearly all of
	// it comes from high rates.
	if quiet.mean >= b.mean || found.mean < 20*b.mean {
		t.Errorf("mean %g, %g without a change, %g with one", b.mean, quiet.mean, found.mean)
	}
	if found.changed != 5 || quiet.changed != 0 {
		t.Errorf("changed in %d and %d", found.changed, quiet.changed)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := prior()
		for range rapid.IntRange(0, 300).Draw(t, "n") {
			tau := rapid.Float64Range(0.02, 5000).Draw(t, "tau")
			b.learn(1, tau, rapid.Float64Range(0.01, 30).Draw(t, "r"), rapid.Bool().Draw(t, "changed"))
			sum := 0.0
			for _, w := range b.w {
				if !(w > 0) {
					t.Fatalf("a weight is %g", w)
				}
				sum += w
			}
			if math.Abs(sum-1) > 1e-9 || !(b.mean > 0 && b.mean <= 4) {
				t.Fatalf("weights sum to %g, mean rate %g", sum, b.mean)
			}
		}
		if again := readEstimate(b.state()); again != b {
			t.Fatalf("%v reads back as %v", b, again)
		}
	})
	// e^(−τλ) by repeated squaring equals that by math.Exp.
	for _, tau := range []float64{0.02, 1, 7.5, 300, 5000} {
		want := 0.0
		for k, w := range b.w {
			want += w * math.Exp(-1.3*tau*math.Ldexp(1, k-14))
		}
		if got := survival(b.w[:], 1.3, tau); math.Abs(got-want) > 1e-9*want+1e-15 {
			t.Errorf("survival over %g slots is %g, want %g", tau, got, want)
		}
	}
}

// Empty slots hardly advance the clock.
func TestClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := readState(nil)
		want := []float64{0} // by slot
		for range rapid.IntRange(1, 300).Draw(t, "slots") {
			empty := rapid.Bool().Draw(t, "empty")
			slot := e.slot + 1
			if rapid.IntRange(0, 9).Draw(t, "gap") == 0 { // slots that were not closed count as live
				want = append(want, want[len(want)-1]+1)
				slot++
			}
			e.close(slot, empty)
			step := 1.0
			if empty {
				step = 0.02
			}
			want = append(want, want[len(want)-1]+step)
			if rapid.IntRange(0, 20).Draw(t, "restart") == 0 {
				e = readState(e.state())
			}
		}
		c := e.calendar()
		for slot, w := range want {
			if got := c.clock(uint64(slot)); math.Abs(got-w) > 1e-9 {
				t.Fatalf("the clock at the end of slot %d is %g, want %g", slot, got, w)
			}
		}
	})
	e := readState(nil)
	for s := uint64(1); s < 12_000; s++ {
		e.close(s, s%3 == 0)
	}
	c := e.calendar()
	if got, want := c.clock(11_999)-c.clock(11_999-3000), 2000+1000*0.02; math.Abs(got-want) > 1 {
		t.Errorf("3000 slots took %g, want %g", got, want)
	}
	if c.clock(1) >= c.clock(2) || c.clock(11_999) >= c.clock(20_000) {
		t.Error("the clock goes backwards where it is not known")
	}
}

// Two witnesses that did not change, computed by hand: odds of 1:9 for an empty
// slot, and queries that change in half of the live slots.
func TestLearnTrust(t *testing.T) {
	e := &endpointState{trust: 1, came: 3, meant: 7}
	e.learnTrust(math.Log(1.0/9), []witness{{p: 0.5}, {p: 0.5}})
	// Each gives the other evidence of 0.98 to 0.5 for an empty slot, so 0.98:4.5
	// in all.
	empty := 0.98 / (0.98 + 4.5)
	by, itself := 1-(empty*0.02+(1-empty)*0.5), 1-4.0/8*0.5
	if want := 0.999 + 2*math.Log(by/itself); math.Abs(e.trust-want) > 1e-12 || math.Abs(e.came-2.94) > 1e-12 ||
		math.Abs(e.meant-7.86) > 1e-12 {
		t.Errorf("trust %g, want %g; %g of %g came", e.trust, want, e.came, e.meant)
	}
	e = &endpointState{}
	if e.learnTrust(0, []witness{{p: 0.9}}); e.trust != 0 {
		t.Errorf("one witness alone proves %g", e.trust)
	}
}

// What was learnt elsewhere puts a query in its place before it has a state, and the first sample
// adds to it.
func TestLearntElsewhere(t *testing.T) {
	p := Default()
	known := func(changes, executions uint64, days float64) *policy.Candidate {
		c := &policy.Candidate{Query: registry.Query{ID: fmt.Sprint("q", changes, "-", executions)}, Median: time.Second, Estimate: time.Second}
		if executions > 0 {
			c.Query.Learnt = &registry.Learnt{Changes: changes, Executions: executions, Days: days}
		}
		c.Stats.Complete(p, policy.Sample{Slot: 1, Elapsed: time.Second})
		return c
	}
	often, never, new := known(60, 240, 10), known(0, 240, 10), known(0, 0, 0)
	m := policy.Moment{Slot: 2, Budget: 10 * time.Second, Lead: time.Hour}
	r := p.Rank(m, []*policy.Candidate{new, never, often})
	if k := r.Keys; k[2].Value >= k[0].Value || k[0].Value >= k[1].Value {
		t.Errorf("keys %v of new, never and often", r.Keys)
	}
	// 60 of 240 executions in 240 slots: −ln(1 − 60/240) changes a slot.
	if rate := p.Inputs(m, r, often)["rate_per_slot"]; rate < 0.2 || rate > 0.4 {
		t.Errorf("%g changes a slot, want about 0.29", rate)
	}
	// Six changes in four-day gaps.
	if b := start(&registry.Learnt{Changes: 6, Executions: 10, Days: 40}, time.Hour); b.mean < 0.004 || b.mean > 0.02 {
		t.Errorf("%g changes a slot, want about 0.0095", b.mean)
	}
	// A lead of two hours is two slots in one.
	if a, b := start(often.Query.Learnt, time.Hour).mean, start(often.Query.Learnt, 2*time.Hour).mean; b < 1.5*a || b > 2.5*a {
		t.Errorf("%g changes an hour, %g in two", a, b)
	}
	// What cannot be true is no reason for rates that are not numbers.
	for _, days := range []float64{1e308, 1e-308} {
		for _, changes := range []uint64{0, 6, 10} {
			if b := start(&registry.Learnt{Changes: changes, Executions: 10, Days: days}, time.Nanosecond); !(b.mean > 0 && b.mean < 4) {
				t.Errorf("%d of 10 executions in %g days: %g changes a slot", changes, days, b.mean)
			}
		}
	}
	// Other queries say less than its own executions.
	of := *never.Query.Learnt
	of.Source = "elsewhere"
	if a, b := start(never.Query.Learnt, time.Hour).mean, start(&of, time.Hour).mean; b < 2*a || b >= prior().mean {
		t.Errorf("%g changes a slot, and %g if others did not change", a, b)
	}
	// They need not change alike: any number of them leaves half of each rate that a query may have.
	of.Executions = 1e6
	for k, w := range start(&of, time.Hour).w {
		if w < prior().w[k]/2 {
			t.Errorf("rate %d has %g after others did not change, of %g", k, w, prior().w[k])
		}
	}
	// What is known about others leaves a query among those that have not run, of which long ones go first.
	short, long := known(0, 240, 10), known(0, 240, 10)
	long.Median, long.Estimate = 5*time.Second, 5*time.Second
	for _, source := range []string{"", "elsewhere"} {
		for _, c := range []*policy.Candidate{short, long} {
			c.Query.Learnt.Source = source
		}
		all := []*policy.Candidate{short, long}
		for range 20 {
			all = append(all, known(60, 240, 10))
		}
		k := p.Rank(m, all).Keys
		if longFirst := k[1].Value < k[0].Value; longFirst != (source != "") {
			t.Errorf("source %q: the keys %v of a short query and a long one", source, k[:2])
		}
	}
	for _, c := range []*policy.Candidate{often, new} {
		c.Stats.Complete(p, policy.Sample{Slot: 2, Elapsed: time.Second})
		l := p.Absorb(m, []*policy.Candidate{c}, func(*policy.Candidate) []*policy.Candidate { return nil })
		c.SetState(l.States[0].State)
	}
	if a, b := readEstimate(often.Stats.State).mean, readEstimate(new.Stats.State).mean; a < 0.1 || b > 0.05 {
		t.Errorf("after one execution without a change: %g and %g changes a slot", a, b)
	}
	if a, b := start(nil, time.Hour), start(often.Query.Learnt, 0); a != prior() || b != prior() {
		t.Error("without a grid or without executions elsewhere the prior does not stand")
	}
}
