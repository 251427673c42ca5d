package policy

import "math"

// dj is dynamics by Jaccard distance: descending D·e^(−(i−last)) in slot i. An
// execution in slot j sets D to D·e^(−(j−last)) plus the Jaccard distance to the
// previous result (ASK: 0 or 1); D is 0 at t0. The state is the logarithm ln D +
// last, because a zero must stay behind every positive value, however small. An
// execution without a change leaves the state as it is; one with a change in slot j
// sets it to ln(e^(ln D + last) + e^(ln J + j)). It is nil for 0.
//
// Source: Knuth, Hartig, Sack, "Scheduling Refresh Queries for Keeping Results from
// a SPARQL Endpoint Up-to-Date", section 4, equations 6 and 7.
type dj struct{}

func djDefinition() Definition {
	return Definition{
		Name:   "dj",
		Doc:    "dynamics: the sum of the Jaccard distances of the changes found, fading with age",
		Source: "Knuth, Hartig, Sack 2016, section 4, equations 6 and 7",
		Build:  func(Args) (Policy, error) { return dj{}, nil },
	}
}

func (dj) String() string { return "dj" }

func (p dj) Fold(state []float64, _ uint64, x Sample) []float64 {
	if !x.Changed || !(x.Jaccard > 0) {
		return append([]float64(nil), state...)
	}
	w := logAdd(p.log(state), aged(x.Jaccard, 1, x.Slot))
	return []float64{w.hi, w.lo}
}

// log is ln D + last.
func (dj) log(state []float64) wide {
	if len(state) != 2 {
		return wide{hi: math.Inf(-1)}
	}
	return wide{state[0], state[1]}
}

func (p dj) Key(c *Candidate) Key {
	w := p.log(c.Stats.State)
	if math.IsInf(w.hi, -1) {
		return Key{Class: 1}
	}
	return descending(0, w)
}

func (p dj) Inputs(_ Moment, _ Ranking, c *Candidate) map[string]float64 {
	in := map[string]float64{"last": float64(c.Stats.Last), "changed": 0}
	if w := p.log(c.Stats.State); !math.IsInf(w.hi, -1) {
		in["changed"], in["log_sum"], in["log_rank"] = 1, w.hi-float64(c.Stats.Last), w.hi
	}
	return in
}
