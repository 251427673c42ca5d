package plan

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// catalog holds all queries of an endpoint, the indexes by which they are found, and
// what is counted about them.
type catalog struct {
	all     map[string]*item
	order   []*item // the same queries, nearly in the order of their addresses
	index   constantIndex
	pattern patternIndex
	tally   tally
	oldest  numbered // of the queries with a result that are not paused, by the second in which it was last known to be true
}

// GrowIndex indexes the constants of more queries, for related queries. It reports
// whether some are left.
func (p *catalog) GrowIndex() (more bool) { return p.index.grow(p.order) }

// GrowPatterns indexes the patterns of more queries, for hints. It reports whether some
// are left.
func (p *catalog) GrowPatterns() (more bool) { return p.pattern.grow(p.order) }

// Count is how many queries are in a state.
func (p *catalog) Count(s registry.State) int { return p.tally.of(s) }

// A Census counts the queries of a plan.
type Census struct {
	Queries int
	States  map[registry.State]int
	Results int       // queries that have a result
	Oldest  time.Time // when the oldest result was last known to be true, in whole seconds
}

// Census counts the queries. Its cost does not grow with their number.
func (p *catalog) Census() Census {
	c := Census{Queries: len(p.all), States: p.tally.all(), Results: p.tally.results}
	if oldest := p.oldest.first(); oldest != nil {
		c.Oldest = time.Unix(oldest.checked.number, 0).UTC()
	}
	return c
}

// related lists the queries that share a constant with c.
func (p *catalog) related(c *policy.Candidate) []*policy.Candidate {
	for p.GrowIndex() {
	}
	return p.index.related(c)
}
