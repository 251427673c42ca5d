package plan

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// TestOldestResult compares the oldest result with a scan over all queries after
// executions, pauses, removals and a clock that is set back.
func TestOldestResult(t *testing.T) {
	chosen, err := parse("rr")
	if err != nil {
		t.Fatal(err)
	}
	const seed = 11
	random := rand.New(rand.NewPCG(seed, seed))
	p := New(chosen, time.Second)
	start := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for i := range 5000 {
		id := strconv.Itoa(random.IntN(40))
		switch q := (registry.Query{ID: id, Holders: []registry.Holder{{Caller: "a"}}}); random.IntN(8) {
		case 0:
			p.drop(id)
		case 1:
			q.Holders[0].Pause = &registry.Pause{By: "a", At: start}
			p.put(q, policy.Stats{CheckedAt: start})
		case 2:
			p.put(q, policy.Stats{})
		default:
			p.put(q, policy.Stats{Executions: 1, CheckedAt: start.Add(time.Duration(i+random.IntN(200)-100) * time.Second)})
		}
		want := time.Time{}
		for _, c := range p.all {
			if at := c.Stats.CheckedAt; c.Query.Paused() == nil && !at.IsZero() && (want.IsZero() || at.Before(want)) {
				want = at
			}
		}
		if random.IntN(3) > 0 { // not read
			continue
		}
		if got := p.Census().Oldest; !got.Equal(want) {
			t.Fatalf("seed %d, step %d: %v, want %v", seed, i, got, want)
		}
	}
}
