package ui

import (
	"github.com/freshet/freshet/registry"
)

// A lede is the first sentence of a page: the answer, and the problems.
type lede struct {
	Strong string
	Rest   []phrase
}

type phrase struct{ Text, Link string }

// A state is displayed as a shape and a word.
type state struct{ Class, Word string }

// states reports how many queries have problems, with links to their lists.
func (l lede) states(n tallied) lede {
	for _, x := range []struct {
		state       registry.State
		one, others string
	}{{registry.Failing, "query fails.", "queries fail."}, {registry.Stale, "is stale.", "are stale."}} {
		if n[x.state] > 0 {
			l.Rest = append(l.Rest, phrase{plural(n[x.state], x.one, x.others), "/queries?state=" + string(x.state)})
		}
	}
	return l
}
