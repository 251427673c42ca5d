package plan

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// TestSqrtSpacing checks that, over weeks, the distances between refreshes follow the
// shares.
func TestSqrtSpacing(t *testing.T) {
	p, _ := parse("sqrt")
	w := steady{seed: 7}
	for i := range 40 {
		w.costs = append(w.costs, time.Second)
		w.rates = append(w.rates, []float64{0.4, 0.1, 0.025, 0}[i%4])
	}
	r := replay(t, p, 5*time.Second, w)
	count := make([]float64, 4)
	for slot := range 24 * 40 {
		r.Slot(func(x Played) {
			if slot >= 24*20 && x.Outcome == registry.Unchanged || x.Outcome == registry.Changed {
				count[x.Query%4]++
			}
		})
	}
	if !(count[0] > 1.4*count[1] && count[1] > 1.3*count[2] && count[2] > 1.3*count[3] && count[3] > 0) {
		t.Errorf("refreshes by rate 0.4, 0.1, 0.025, 0: %v", count)
	}
}
