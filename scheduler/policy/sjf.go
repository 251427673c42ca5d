package policy

import (
	"math"
)

// sjf is shortest job first: ascending e^(−λ(i−last))·median in slot i, where
// median is the median execution time. The logarithm is λ·last + ln median − λi,
// and λi is the same for all queries, so the key λ·last + ln median does not change
// from slot to slot. The policy has no state.
//
// Source: Knuth, Hartig, Sack, "Scheduling Refresh Queries for Keeping Results from
// a SPARQL Endpoint Up-to-Date", section 4, equation 2.
type sjf struct{ lambda float64 }

func sjfDefinition() Definition {
	return Definition{
		Name:   "sjf",
		Params: []Param{lambdaParam("0.5")},
		Doc:    "shortest job first: the smallest median time, shrinking with age",
		Source: "Knuth, Hartig, Sack 2016, section 4, equation 2",
		Build: func(a Args) (Policy, error) {
			l, err := a.decay()
			return sjf{l}, err
		},
	}
}

func lambdaParam(otherwise string) Param {
	return Param{Name: "lambda", Default: otherwise, Doc: "decay per slot of age, 0 for none"}
}

func (p sjf) String() string { return "sjf:lambda=" + FormatNumber(p.lambda) }

func (sjf) Fold([]float64, uint64, Sample) []float64 { return nil }

func (p sjf) Key(c *Candidate) Key {
	return ascending(0, logOf(c.Median).aged(p.lambda, c.Stats.Last))
}

func (p sjf) Inputs(_ Moment, _ Ranking, c *Candidate) map[string]float64 {
	return map[string]float64{
		"last": float64(c.Stats.Last), "median_seconds": c.Median.Seconds(), "lambda": p.lambda,
		"log_rank": finite(p.Key(c).Value),
	}
}

// finite limits x to the numbers that JSON can represent. What is not a number is 0.
func finite(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return max(-math.MaxFloat64, min(math.MaxFloat64, x))
}
