package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// idle is a planner of twenty queries with profiles that wait, and what one
// slot in which nothing happens costs of them.
func idle(t *testing.T, profiles int, when func(query string) registry.When) time.Duration {
	t.Helper()
	policy, err := ParsePolicy("rr")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlanner(policy, time.Hour)
	p.claimFor(&interval.Ranking{Kind: interval.MRSF, Preemptive: true}, 0.5)
	now := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	id := func(n int) string { return fmt.Sprintf("q_%02d", n%20) }
	for i := range 20 {
		p.put(registry.Query{ID: id(i), Endpoint: "city", Holders: []registry.Holder{{Caller: "a"}}}, Stats{})
	}
	var list []ProfileState
	for i := range profiles {
		list = append(list, ProfileState{Profile: registry.Profile{ID: fmt.Sprintf("p_%06d", i), Endpoint: "city", CreatedAt: now,
			Window: registry.Span{Time: time.Hour},
			Items:  []registry.Item{{Query: id(i), When: when(id(i))}, {Query: id(i + 1), When: when(id(i))}}}})
	}
	p.profiles(list, nil)
	least := time.Hour
	for range 20 {
		now = now.Add(time.Minute)
		begun := time.Now()
		p.begin(p.slot, now, time.Minute)
		p.openRounds(now)
		p.closeRounds(now, "")
		p.end(now)
		least = min(least, time.Since(begun))
	}
	return least
}

// A slot in which nothing happens costs nothing of profiles that wait for a
// change, however many there are. Looking at each would cost a thousand times
// as much.
func TestWaitingProfilesCostASlotNothing(t *testing.T) {
	on := func(query string) registry.When { return registry.When{Changed: query} }
	few, many := idle(t, 100, on), idle(t, 100_000, on)
	t.Logf("a slot of 100 profiles takes %s, one of 100,000 %s", few, many)
	if many > 50*few {
		t.Errorf("a slot takes %s with 100 profiles that wait, %s with 100,000", few, many)
	}
}

// What profiles a change begins costs so much for each of them. Were every round
// looked for among all of them, twenty times as many would cost four hundred times
// as much; caches and a busy machine make a few times twenty of it at most.
func TestRoundsOfOneChangeCostTheSameEach(t *testing.T) {
	few, many := opened(t, 2000), opened(t, 40_000)
	t.Logf("2,000 rounds take %s, 40,000 take %s", few, many)
	if many > 200*few {
		t.Errorf("2,000 rounds take %s, 40,000 take %s", few, many)
	}
}

// opened is what it takes to open a round of each profile, to capture it and to
// hand it out.
func opened(t *testing.T, profiles int) time.Duration {
	t.Helper()
	least := time.Hour
	for range 3 {
		now := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
		when := registry.When{Changed: "q_a"}
		var list []ProfileState
		for i := range profiles {
			list = append(list, ProfileState{Profile: registry.Profile{ID: fmt.Sprintf("p_%06d", i), Window: registry.Span{Time: time.Hour},
				Items: []registry.Item{{Query: "q_a", When: when}, {Query: "q_b", When: when}, {Query: "q_c", When: when}}}})
		}
		n := &tracker{}
		n.load(list, nil, 1)
		none := func(string) (ranAt, bool) { return ranAt{}, false }
		at := func(s int) ranAt {
			return ranAt{start: now.Add(time.Duration(s) * time.Second), end: now.Add(time.Duration(s+1) * time.Second), slot: 1}
		}
		begun := time.Now()
		n.change("q_a", &diff.Delta{}, at(0), none)
		n.ran("q_b", at(1))
		if !n.ran("q_c", at(2)) {
			t.Fatal("nothing was captured")
		}
		if list, ended := n.take(); len(list) != profiles || len(ended) != profiles {
			t.Fatalf("%d rounds of %d profiles ended", len(list), len(ended))
		}
		least = min(least, time.Since(begun))
	}
	return least
}
