package policy

import "math"

// ljf is longest job first: ascending e^(−λ(i−last))/median in slot i, where median
// is the median execution time. The key is the logarithm without −λi, which is the
// same for all queries: λ·last − ln median. The policy has no state.
//
// Source: Knuth, Hartig, Sack, "Scheduling Refresh Queries for Keeping Results from
// a SPARQL Endpoint Up-to-Date", section 4, equation 3.
type ljf struct{ lambda float64 }

func ljfDefinition() Definition {
	return Definition{
		Name:   "ljf",
		Params: []Param{lambdaParam("0.5")},
		Doc:    "longest job first: the largest median time, growing with age",
		Source: "Knuth, Hartig, Sack 2016, section 4, equation 3",
		Build: func(a Args) (Policy, error) {
			l, err := a.decay()
			return ljf{l}, err
		},
	}
}

func (p ljf) String() string { return "ljf:lambda=" + FormatNumber(p.lambda) }

func (ljf) Fold([]float64, uint64, Sample) []float64 { return nil }

func (p ljf) Key(c *Candidate) Key {
	l := logOf(c.Median)
	if math.IsInf(l.hi, 0) { // the median is 0
		return Key{Value: math.Inf(1)}
	}
	return ascending(0, productOf(p.lambda, float64(c.Stats.Last)).minus(l))
}

func (p ljf) Inputs(_ Moment, _ Ranking, c *Candidate) map[string]float64 {
	return map[string]float64{
		"last": float64(c.Stats.Last), "median_seconds": c.Median.Seconds(), "lambda": p.lambda,
		"log_rank": finite(p.Key(c).Value),
	}
}
