package hybrid

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// How often hints are true, and how many changes they miss, is learnt, and survives a restart.
func TestHearing(t *testing.T) {
	if e := readState(nil); e.misses() != 1 {
		t.Errorf("without hints, %g of the changes are expected", e.misses())
	}
	for _, x := range []struct {
		name        string
		hinted      bool // changes as hints say
		right, miss float64
	}{{"true", true, 0.97, 0.2}, {"false", false, 0.03, 1}} {
		e := new(endpointState)
		for range 300 {
			e.fadeHints()
			for range 4 {
				e.hear(&policy.Candidate{Hinted: true}, x.hinted, 0.05)
				e.hear(&policy.Candidate{Hinted: false}, !x.hinted, 1)
			}
		}
		e = readState(e.state())
		if r, m := e.right(), e.misses(); (r > 0.5) != x.hinted || max(r, 1-r) < 0.97 || (m > 0.5) == x.hinted {
			t.Errorf("%s hints: %.2f are true, and they miss %.2f", x.name, r, m)
		}
	}
	old := new(endpointState)
	old.slot, old.clock = 7, 6.5
	if got := readState(old.state()[:stateOld]); got.slot != 7 || got.clock != 6.5 || got.misses() != 1 {
		t.Errorf("a state of before reads as slot %d, clock %g", got.slot, got.clock)
	}
}

// A query that is asked again because the endpoint lags behind a true hint does not make hints less credible.
func TestAskedAgainIsNoLie(t *testing.T) {
	p, shared := Default(), []float64(nil)
	right := func() float64 { return readState(shared).right() }
	slot := uint64(0)
	ask := func(changed bool, shown policy.Shown) {
		slot++
		c := &policy.Candidate{Hinted: true, Shown: shown}
		c.Stats.Complete(p, policy.Sample{Elapsed: time.Second})
		c.Stats.Complete(p, policy.Sample{Slot: slot, Elapsed: time.Second, Changed: changed})
		l := p.Absorb(policy.Moment{Slot: slot, Budget: time.Second, Shared: shared}, []*policy.Candidate{c},
			func(*policy.Candidate) []*policy.Candidate { return nil })
		shared = l.Shared
	}
	for range 20 {
		ask(false, 0)
		ask(false, policy.ShownAgain)
		ask(true, policy.ShownLate)
		ask(false, policy.ShownAgain)
	}
	if right() < 0.8 {
		t.Errorf("after true hints only, %.2f of them are taken to be true", right())
	}
	for range 60 {
		ask(false, 0)
	}
	if right() > 0.3 {
		t.Errorf("after false hints only, %.2f of them are taken to be true", right())
	}
}

// A hinted query goes before one that changes more often, unless hints have turned out to be false.
func TestHintedGoesFirst(t *testing.T) {
	p := Default()
	query := func(id string, changed bool) *policy.Candidate {
		c := &policy.Candidate{Query: registry.Query{ID: id}, Median: time.Second, Estimate: time.Second}
		c.Stats.Complete(p, policy.Sample{Elapsed: time.Second})
		b := prior()
		b.learn(8, 8, 1, changed)
		c.Stats.Last, c.Stats.State = 8, b.state()
		return c
	}
	often, quiet := query("often", true), query("quiet", false)
	first := func(e *endpointState) string {
		e.slot, e.clock = 9, 9
		r := p.Rank(policy.Moment{Slot: 10, Budget: 10 * time.Second, Shared: e.state()}, []*policy.Candidate{often, quiet})
		if r.Keys[0].Value < r.Keys[1].Value {
			return "often"
		}
		return "quiet"
	}
	e := new(endpointState)
	if got := first(e); got != "often" {
		t.Errorf("without a hint, %s is first", got)
	}
	quiet.Hinted = true
	for range 50 {
		e.hear(&policy.Candidate{Hinted: true}, true, 0)
	}
	if got := first(e); got != "quiet" {
		t.Errorf("after true hints, %s is first", got)
	}
	for range 1000 {
		e.hear(&policy.Candidate{Hinted: true}, false, 0)
	}
	if got := first(e); got != "often" {
		t.Errorf("after false hints, %s is first", got)
	}
}

// More hints can prove true than still count, if all show late: their evidence stays a number.
func TestHintsThatAllShowLate(t *testing.T) {
	e := new(endpointState)
	for range 100 {
		e.hear(&policy.Candidate{Hinted: true}, false, 0.01)
	}
	for range 10 {
		e.fadeHints()
	}
	for range 100 {
		e.hear(&policy.Candidate{Hinted: true, Shown: policy.ShownLate}, true, 0.01)
	}
	if r, x := e.right(), e.evidence(); r >= 1 || !(x > 0 && x < 10) {
		t.Errorf("%g are true, and the evidence is %g", r, x)
	}
}
