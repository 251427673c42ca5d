package bench

import (
	"math"
	"testing"
)

// Half of the queries change in every tenth slot, half never. After 10 slots without a change a query is one of the first with
// probability e^(−1)/(1 + e^(−1)) = 0.269, and after a change with certainty.
func TestBelief(t *testing.T) {
	rates := make([]float64, 40)
	for q := range 20 {
		rates[q] = 0.1
	}
	w := NewSimulator(random(t, 3, 1000, rates))
	b := w.belief()
	kinds, of := w.kinds()
	if len(kinds) != 1 || of[39] != 0 {
		t.Fatal(kinds, of)
	}
	frequent := func() (p, rate float64) {
		for i, r := range kinds[0].rates {
			if r > 0 {
				p, rate = p+b.rates[7][i], r
			}
		}
		return p, rate
	}
	p, rate := frequent()
	if math.Abs(p-0.5) > 1e-9 || math.Abs(rate-0.1) > 0.01 {
		t.Fatalf("at first %g change at rate %g", p, rate)
	}
	if want, got := 0.5*(1-2*math.Exp(-1)), b.worth(7, 10); math.Abs(want-got) > 0.01 {
		t.Errorf("worth %g, want %g", got, want)
	}
	b.learn(7, 10, false)
	if p, _ = frequent(); math.Abs(p-0.269) > 0.01 {
		t.Errorf("after a miss, %g", p)
	}
	b.learn(7, 10, true)
	if p, _ = frequent(); p < 1-1e-9 {
		t.Errorf("after a change, %g", p)
	}
}
