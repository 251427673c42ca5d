package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// TestTallyIsTheCount compares the tally with a full count.
func TestTallyIsTheCount(t *testing.T) {
	for i, s := range registry.States() {
		if stateIndex(s) != i {
			t.Errorf("%s is %d", s, i)
		}
	}
	random := rand.New(rand.NewPCG(7, 7))
	p := New(named("rr"), time.Minute)
	p.now = noon
	outcomes := []registry.Outcome{registry.Changed, registry.Failed, registry.Rejected, registry.Throttled, registry.Cut, registry.Outdated}
	for range 3000 {
		id := string(rune('a' + random.IntN(26)))
		c := p.all[id]
		switch {
		case c == nil || random.IntN(8) == 0:
			q := registry.Query{ID: id, Holders: []registry.Holder{{Caller: "x"}}}
			if random.IntN(3) == 0 {
				until := p.now.Add(time.Duration(random.IntN(100)) * time.Minute)
				q.Holders[0].Until = &until
			}
			if random.IntN(6) == 0 {
				q.Pause = &registry.Pause{}
			}
			var s policy.Stats
			if c != nil {
				s = c.Stats
			}
			p.put(q, s)
		case random.IntN(20) == 0:
			p.drop(id)
		case random.IntN(5) == 0:
			p.Advance(p.now.Add(time.Duration(random.IntN(30)) * time.Minute))
		default:
			s := c.Stats
			o := outcomes[random.IntN(len(outcomes))]
			switch {
			case o.Complete():
				s.Complete(named("rr"), policy.Sample{Slot: p.slot})
			case o != registry.Outdated || s.Executions > 0:
				s.Incomplete(policy.Attempt{Slot: p.slot, At: p.now, Outcome: o, Whole: true})
			}
			s.LastRun = policy.Run{At: p.now, Outcome: o}
			p.lift(c)
			p.learn(c, &s)
			p.settle(c)
			p.count(c)
		}
		want, results := map[registry.State]int{}, 0
		for _, s := range registry.States() {
			want[s] = 0
		}
		for _, c := range p.all {
			want[policy.StateOf(&c.Query, &c.Stats, p.now)]++
			if c.Stats.Executions > 0 {
				results++
			}
		}
		if got := p.tally.all(); !equalCounts(got, want) || p.tally.results != results {
			t.Fatalf("counted %v, there are %v; %d results, there are %d", got, want, p.tally.results, results)
		}
	}
}

func equalCounts(a, b map[registry.State]int) bool {
	return slices.EqualFunc(registry.States(), registry.States(), func(x, y registry.State) bool { return a[x] == b[y] })
}
