package plan

import (
	"slices"

	"github.com/freshet/freshet/registry"
)

// A tally counts an endpoint's queries by state. Every change of a query updates it,
// so reading costs nothing.
type tally struct {
	states  [6]int // as in registry.States
	results int    // queries that have a result
}

func stateIndex(s registry.State) int { return slices.Index(registry.States(), s) }

func (t *tally) of(s registry.State) int { return t.states[stateIndex(s)] }

// all returns the counts by state, zeros included.
func (t *tally) all() map[registry.State]int {
	m := make(map[registry.State]int, len(t.states))
	for i, s := range registry.States() {
		m[s] = t.states[i]
	}
	return m
}

// move changes what a query counts as.
func (t *tally) move(c *item, to tallied) {
	for _, x := range []struct {
		of tallied
		n  int
	}{{c.counted, -1}, {to, 1}} {
		if x.of.state > 0 {
			t.states[x.of.state-1] += x.n
		}
		if x.of.result {
			t.results += x.n
		}
	}
	c.counted = to
}
