package hybrid_test

import (
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/hybrid"
	"github.com/freshet/freshet/scheduler/policy"
)

// Further changes that hints find in one slot do not make a query look less volatile.
func TestChangesInOneSlot(t *testing.T) {
	p, err := policy.Parse([]policy.Definition{hybrid.Definition()}, "hybrid")
	if err != nil {
		t.Fatal(err)
	}
	for _, every := range []uint64{1, 2, 20} {
		var s policy.Stats
		run := func(slot uint64, changed bool) {
			x := policy.Sample{Slot: slot, Elapsed: time.Second, Changed: changed}
			s.Complete(p, x)
			s.Remember(x)
		}
		rate := func() float64 {
			return p.Inputs(policy.Moment{Slot: 1}, policy.Ranking{}, &policy.Candidate{Stats: s})["rate_per_slot"]
		}
		run(1, false)
		slot := uint64(1)
		for ; slot < 40*every; slot += every {
			run(slot+every, true)
		}
		was := rate()
		for range 5 {
			run(slot, true)
		}
		run(slot+every, true)
		run(slot+2*every, true)
		if now := rate(); now < was*0.99 {
			t.Errorf("a change in every %d slots: the rate was %g, and is %g after more changes", every, was, now)
		}
	}
}
