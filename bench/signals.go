package bench

import "math/rand/v2"

// Signals are what a noisy feed says about changes. Live policies get them as hints.
type Signals struct {
	Miss float64 `json:"miss"` // the share of the changes that it does not report
	Lie  float64 `json:"lie"`  // the share of its reports that no change caused
}

// signals lists the queries that are reported in each slot. False reports concern queries as
// often as true ones, at random times. The same trace has the same ones.
func (w *Simulator) signals(s Signals) [][]int {
	out := make([][]int, w.t.Revisions+1)
	r := rand.New(rand.NewPCG(1, 0x2545f4914f6cdd1d))
	for _, x := range w.t.Series {
		for _, v := range x.Versions[1:] {
			if r.Float64() < s.Miss {
				continue
			}
			out[v.Rev] = append(out[v.Rev], x.Query)
			for r.Float64() < s.Lie {
				at := 1 + r.IntN(w.t.Revisions)
				out[at] = append(out[at], x.Query)
			}
		}
	}
	return out
}
