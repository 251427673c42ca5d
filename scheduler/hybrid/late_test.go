package hybrid

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A query that is late gains on others with each slot, also in slots in which nothing changes.
func TestLateQueriesGain(t *testing.T) {
	p := Default()
	c := &policy.Candidate{Query: registry.Query{ID: "late"}, Median: time.Second, Estimate: time.Second}
	c.Stats.Complete(p, policy.Sample{Elapsed: time.Second})
	b := prior()
	c.Stats.State = b.state()
	waiting := func(slot uint64) float64 {
		e := new(endpointState)
		e.slot, e.clock = slot-1, 265 // empty slots do not count
		m := policy.Moment{Slot: slot, Budget: 10 * time.Second, Shared: e.state()}
		return p.Inputs(m, p.Rank(m, []*policy.Candidate{c}), c)["waiting"]
	}
	if x, y := waiting(300), waiting(318); y < 1.9*x || y > 2.5*x {
		t.Errorf("18 slots more change the price of waiting from %g to %g", x, y)
	}
}
