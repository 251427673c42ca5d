package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// Terms are the conditions of a slot.
type Terms struct {
	Lead    time.Duration // from its grid time to the next one, 0 = no grid
	Width   int           // executions at a time
	Timeout time.Duration // of one execution
	Charged time.Duration // used by trial runs before it; at most the whole budget counts
	Merging Merging
}

// Begin begins the next slot.
func (p *Planner) Begin(now time.Time, t Terms) *SlotBudget {
	p.begin(p.slot, now, t.Lead)
	p.claims.openRounds(now)
	s := newSlotBudget(p, t.Width, t.Timeout, t.Charged)
	s.merging = t.Merging
	return s
}

// begin prepares the queries for the slot that begins.
func (p *Planner) begin(slot uint64, now time.Time, lead time.Duration) {
	p.slot, p.begun, p.lead, p.summed = slot, now, lead, -1
	p.Proofs().Watch(now)
	p.Advance(now)
	p.Proofs().Wake(now)
	p.Proofs().auditProved()
	p.rank()
	p.applyHints()
	p.heads = p.heads[:0]
	if c := p.ranked.first(); c != nil {
		p.heads = append(p.heads, c)
		if c.tier == TierRefresh {
			for c := range p.ranked.all {
				if c.tier != TierRefresh {
					p.heads = append(p.heads, c)
					break
				}
			}
		}
	}
	if c := p.firstWithout(); c != nil && !slices.Contains(p.heads, c) {
		p.heads = append(p.heads, c)
	}
}

// An Ending is what a slot leaves behind.
type Ending struct {
	Waiting int                 // eligible queries that did not run
	Stretch float64             // policy.Ranking.Stretch
	Taught  []*policy.Candidate // queries that have a new state but did not run; valid until the next slot
	Shared  []float64           // state of a policy that is a Collective
}

// End ends the slot. stopped is why nothing more could start, empty if the budget
// decided. The debt stays the same until Owe.
func (p *Planner) End(now time.Time, stopped string) Ending {
	waiting := p.waiting()
	p.claims.closeRounds(now, stopped)
	p.end(now)
	return Ending{Waiting: waiting, Stretch: p.ranking.Stretch, Taught: p.taught, Shared: slices.Clone(p.shared)}
}

// end closes the slot and settles the queries that ran.
func (p *Planner) end(now time.Time) {
	p.owed = slices.DeleteFunc(p.owed, func(c *item) bool { return c.ran })
	for _, c := range p.heads {
		if len(p.ran) > 0 && (c.in == &p.ranked || c.ran && c.short) && !slices.Contains(p.owed, c) {
			p.owed = append(p.owed, c)
		}
	}
	p.heads = p.heads[:0]
	p.freshFirst = p.servedOld && !p.servedNew && p.fresh.n > 0
	p.servedNew, p.servedOld = false, false
	p.absorb()
	p.slot, p.now = p.slot+1, now.Round(0)
	p.settleRan()
	p.endChecks()
}
