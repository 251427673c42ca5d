package plan

import (
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A tally counts an endpoint's queries by state. It is updated with every change of
// a query, so reading it costs nothing.
type tally struct {
	states  [6]int // as in registry.States
	results int    // queries that have a result
}

// A tallied is what a tally holds of one query. The zero value counts nothing.
type tallied struct {
	state  uint8 // from 1
	result bool
}

func stateIndex(s registry.State) int {
	switch s { // by hand: a slot does this for each query that it runs
	case registry.New:
		return 0
	case registry.Live:
		return 1
	case registry.Stale:
		return 2
	case registry.Failing:
		return 3
	case registry.Paused:
		return 4
	}
	return 5
}

func (t *tally) of(s registry.State) int { return t.states[stateIndex(s)] }

// all returns the counts by state, zeros included.
func (t *tally) all() map[registry.State]int {
	m := make(map[registry.State]int, len(t.states))
	for i, s := range registry.States() {
		m[s] = t.states[i]
	}
	return m
}

// move replaces what a query counts as.
func (t *tally) move(c *item, to tallied) {
	for _, x := range []struct {
		of tallied
		n  int
	}{{c.worth, -1}, {to, 1}} {
		if x.of.state > 0 {
			t.states[x.of.state-1] += x.n
		}
		if x.of.result {
			t.results += x.n
		}
	}
	c.worth = to
}

// count updates the tally for a query that the planner holds.
func (p *Planner) count(c *item) {
	s := registry.Idle
	switch {
	case c.plain:
		s = c.Stats.StateWithin(0)
	case c.why != inactive || c.Query.Paused() != nil:
		s = policy.StateOf(&c.Query, &c.Stats, p.now)
	}
	if to := (tallied{uint8(stateIndex(s) + 1), c.Stats.Executions > 0}); to != c.worth {
		p.tally.move(c, to)
	}
}
