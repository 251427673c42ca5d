package plan

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// counting is round robin that counts the keys that it computes.
type counting struct {
	policy.Policy
	asked *int
}

func (p counting) Key(c *policy.Candidate) policy.Key {
	*p.asked++
	return p.Policy.Key(c)
}

// TestWorkOnThePlanGoesInPieces does work on all queries of an endpoint and counts how
// many of them are processed before others have a turn.
func TestWorkOnThePlanGoesInPieces(t *testing.T) {
	const n = 5000
	for _, w := range []struct {
		name    string
		prepare func(*Planner)
		do      func(*Planner)
	}{
		{"another budget", nil, func(p *Planner) { p.SetPolicy(p.policy, RuleStrict, time.Minute) }},
		{"all are gone", nil, func(p *Planner) { p.keep(nil) }},
		{"back-offs are forgiven", func(p *Planner) {
			for _, c := range p.order {
				c.Stats.NotBefore, c.Stats.Failures = p.slot+9, 3
			}
		}, func(p *Planner) { p.forgive(p.now.Add(time.Hour)) }},
		{"all wait for one slot", func(p *Planner) {
			for _, c := range p.order {
				s := c.Stats
				s.NotBefore = p.slot + 1
				p.put(c.Query, s)
			}
		}, func(p *Planner) { p.begin(p.slot+1, p.now.Add(time.Minute), time.Minute) }},
		{"all wait for one moment", rarely, func(p *Planner) { p.begin(p.slot+1, p.now.Add(2*time.Hour), time.Minute) }},
		{"the clock is set back", rarely, func(p *Planner) { p.begin(p.slot+1, p.now.Add(-9*time.Hour), time.Minute) }},
		{"all have run", func(p *Planner) {
			for _, c := range p.order {
				p.pick(c)
			}
		}, func(p *Planner) { p.end(p.now) }},
	} {
		t.Run(w.name, func(t *testing.T) {
			p, asked := planned(t, "rr", registered(n)), 0
			if w.prepare != nil {
				w.prepare(p)
			}
			p.policy, p.looked = counting{p.policy, &asked}, p.now
			most, sum, left := 0, 0, len(p.all)
			turn := func() {
				done := asked + left - len(p.all)
				most, sum, asked, left = max(most, done), sum+done, 0, len(p.all)
			}
			p.let = func(work func()) {
				turn()
				work()
			}
			w.do(p)
			if turn(); sum < n || most > piece {
				t.Errorf("%d queries are worked on, and up to %d of them without a break, want %d and at most %d", sum, most, n, piece)
			}
		})
	}
}

// rarely makes all queries wait for an hour after their last execution.
func rarely(p *Planner) {
	for _, c := range p.order {
		q, s := c.Query, c.Stats
		q.Holders = []registry.Holder{{Caller: registry.Anonymous, MinInterval: registry.Duration(time.Hour)}}
		s.CheckedAt = p.now
		p.put(q, s)
	}
}
