package policy

import "fmt"

// ttl gives every query a time to live in slots. A query is due if last + ttl ≤ i.
// Queries are ordered by the slot in which they became due, so one that was due and
// did not run comes earlier next time. ttl is 1 at t0. An execution that finds a
// change sets it to 1 (reset) or to max(1, ttl div 2) (half), one that finds none
// to min(max, 2·ttl). The state is the ttl.
//
// Source: Knuth, Hartig, Sack, "Scheduling Refresh Queries for Keeping Results from
// a SPARQL Endpoint Up-to-Date", section 4.
type ttl struct {
	max  uint64
	half bool
}

func ttlDefinition() Definition {
	return Definition{
		Name: "ttl",
		Params: []Param{
			{Name: "max", Default: "32", Doc: "longest time to live, in slots"},
			{Name: "on", Default: "reset", Values: []string{"reset", "half"}, Doc: "what a change does to the time to live: back to " +
				"one slot, or half of it"},
		},
		Doc:    "time to live: doubled by every execution without a change, cut back by a change",
		Source: "Knuth, Hartig, Sack 2016, section 4",
		Build: func(a Args) (Policy, error) {
			m, err := a.Count("max")
			return ttl{max: m, half: a["on"] == "half"}, err
		},
	}
}

func (p ttl) String() string {
	if p.half {
		return fmt.Sprintf("ttl:max=%d:half", p.max)
	}
	return fmt.Sprintf("ttl:max=%d:reset", p.max)
}

func (p ttl) Fold(state []float64, _ uint64, x Sample) []float64 {
	live := p.live(state)
	switch {
	case !x.Changed:
		live = min(p.max, 2*live)
	case p.half:
		live = max(1, live/2)
	default:
		live = 1
	}
	return []float64{float64(live)}
}

func (ttl) live(state []float64) uint64 {
	if len(state) != 1 {
		return 1
	}
	return uint64(state[0])
}

// due is the first slot in which the query may run: that of its ttl, or an earlier
// one in which its max_staleness runs out.
func (p ttl) due(c *Candidate) uint64 {
	due := c.Stats.Last + p.live(c.Stats.State)
	if c.Overdue > 0 {
		due = min(due, c.Overdue)
	}
	return due
}

func (p ttl) Key(c *Candidate) Key {
	due := p.due(c)
	return Key{Due: due, Value: float64(due)}
}

func (p ttl) Inputs(_ Moment, _ Ranking, c *Candidate) map[string]float64 {
	return map[string]float64{
		"last": float64(c.Stats.Last), "ttl": float64(p.live(c.Stats.State)), "due": float64(p.due(c)),
	}
}
