package policy

import "math"

// cr is change rate: descending S·e^(−λ(i−last)) in slot i. An execution in slot j
// sets S to S·e^(−λ(j−last)) + 1 if it finds a change, − 1 if not; S is 0 at t0.
// Positive sums come first, descending by ln S + λ·last, then zeros, then negative
// ones, which rise with age: ascending by ln |S| + λ·last. The state is S.
//
// Source: Knuth, Hartig, Sack, "Scheduling Refresh Queries for Keeping Results from
// a SPARQL Endpoint Up-to-Date", section 4, equations 4 and 5. They write
// "ascending" and change(q, i), but mean descending and change(q, j).
type cr struct{ lambda float64 }

func crDefinition() Definition {
	return Definition{
		Name:   "cr",
		Params: []Param{lambdaParam("0")},
		Doc:    "change rate: executions that found a change less those that did not, fading with age",
		Source: "Knuth, Hartig, Sack 2016, section 4, equations 4 and 5",
		Build: func(a Args) (Policy, error) {
			l, err := a.decay()
			return cr{l}, err
		},
	}
}

func (p cr) String() string { return "cr:lambda=" + FormatNumber(p.lambda) }

func (p cr) Fold(state []float64, last uint64, x Sample) []float64 {
	found := -1.0
	if x.Changed {
		found = 1
	}
	faded := p.sum(state) * math.Exp(-p.lambda*float64(x.Slot-last))
	return []float64{float64(faded) + found}
}

func (cr) sum(state []float64) float64 {
	if len(state) != 1 {
		return 0
	}
	return state[0]
}

func (p cr) Key(c *Candidate) Key {
	switch s := p.sum(c.Stats.State); {
	case s > 0:
		return descending(0, aged(s, p.lambda, c.Stats.Last))
	case s < 0:
		return ascending(2, aged(-s, p.lambda, c.Stats.Last))
	}
	return Key{Class: 1}
}

func (p cr) Inputs(_ Moment, _ Ranking, c *Candidate) map[string]float64 {
	return map[string]float64{
		"last": float64(c.Stats.Last), "sum": p.sum(c.Stats.State), "lambda": p.lambda,
		"class": float64(p.Key(c).Class), "log_rank": finite(math.Abs(p.Key(c).Value)),
	}
}
