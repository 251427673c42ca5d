package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestLookAtFindsAll checks that a Ranker sees every query that may run exactly once,
// in both ways of lookAt, while queries come and go.
func TestLookAtFindsAll(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 1))
	p, err := parse("sqrt") // leaves some out of a slot
	if err != nil {
		t.Fatal(err)
	}
	plan := throng(t, p, 300).p
	plan.budget = time.Hour
	for slot := uint64(1000); slot < 1060; slot++ {
		for _, c := range slices.Clone(plan.order) {
			if r.IntN(40) == 0 {
				plan.drop(c.Query.ID)
			}
		}
		for _, c := range plan.order[:len(plan.order)/4] {
			if r.IntN(2) == 0 {
				plan.put(c.Query, c.Stats)
			}
		}
		for i, c := range plan.order {
			if int(c.Number) != i || plan.all[c.Query.ID] != c {
				t.Fatalf("seed %d: %s is not where it is held to be", seed, c.Query.ID)
			}
		}
		if len(plan.order) != len(plan.all) {
			t.Fatalf("seed %d: %d queries in order, %d held", seed, len(plan.order), len(plan.all))
		}
		plan.begin(slot, time.Time{}, 0)
		seen := plan.ranked.len() + len(plan.rests)
		if seen != len(plan.all) {
			t.Fatalf("seed %d: slot %d saw %d queries of %d", seed, slot, seen, len(plan.all))
		}
		for range min(5, plan.ranked.len()) {
			c := plan.ranked.first()
			plan.pick(c)
			c.Stats.Last = slot
			c.Stats.Executions++
		}
		plan.end(time.Time{})
	}
}
