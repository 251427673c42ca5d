package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// idle returns the least time of a slot in which nothing happens, with twenty queries
// and profiles that wait.
func idle(t *testing.T, profiles int, when func(query string) registry.When) time.Duration {
	t.Helper()
	chosen, err := parse("rr")
	if err != nil {
		t.Fatal(err)
	}
	p := New(chosen, time.Hour)
	p.SetClaims(&interval.Ranking{Kind: interval.MRSF, Preemptive: true}, 0.5)
	now := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	id := func(n int) string { return fmt.Sprintf("q_%02d", n%20) }
	for i := range 20 {
		p.put(registry.Query{ID: id(i), Endpoint: "city", Holders: []registry.Holder{{Caller: "a"}}}, policy.Stats{})
	}
	var list []rounds.ProfileState
	for i := range profiles {
		list = append(list, rounds.ProfileState{Profile: registry.Profile{ID: fmt.Sprintf("p_%06d", i), Endpoint: "city", CreatedAt: now,
			Window: registry.Span{Time: time.Hour},
			Items:  []registry.Item{{Query: id(i), When: when(id(i))}, {Query: id(i + 1), When: when(id(i))}}}})
	}
	p.rounds.Load(list, nil, p.slot)
	least := time.Hour
	for range 20 {
		now = now.Add(time.Minute)
		begun := time.Now()
		p.begin(p.slot, now, time.Minute)
		p.claims.openRounds(now)
		p.claims.closeRounds(now, "")
		p.end(now)
		least = min(least, time.Since(begun))
	}
	return least
}

// TestWaitingProfilesCostASlotNothing checks that the cost of a slot in which nothing
// happens does not grow with the number of profiles that wait for a change. Reading
// each profile would cost a thousand times as much.
func TestWaitingProfilesCostASlotNothing(t *testing.T) {
	on := func(query string) registry.When { return registry.When{Changed: query} }
	few, many := idle(t, 100, on), idle(t, 100_000, on)
	t.Logf("a slot of 100 profiles takes %s, one of 100,000 %s", few, many)
	if many > 50*few {
		t.Errorf("a slot takes %s with 100 profiles that wait, %s with 100,000", few, many)
	}
}
