package retrieval

import "math"

// Allocate divides n retrievals per day among sources: m_i ∝ √(w_i·λ_i), with sum n.
// weights is nil if all are 1. If no source ever posts, all get the same. The numbers
// are real; Whole rounds them.
func Allocate(rates, weights []float64, n float64) []float64 {
	m := make([]float64, len(rates))
	sum := 0.0
	for i, r := range rates {
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		m[i] = math.Sqrt(w) * math.Sqrt(r)
		sum += m[i]
	}
	for i := range m {
		if sum == 0 {
			m[i] = n / float64(len(m))
		} else {
			m[i] *= n / sum
		}
	}
	return m
}

// Whole rounds an allocation to whole numbers of at least 1. The sum is n unless
// there are more than n sources. Each further retrieval goes where it saves the most
// expected delay: going from m to m + 1 evenly spaced retrievals saves
// w_i·λ_i·(1/m − 1/(m+1))/2.
func Whole(rates, weights []float64, n int) []int {
	m := make([]int, len(rates))
	worth := func(i int) float64 {
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		k := float64(m[i])
		return w * rates[i] / (k * (k + 1))
	}
	h := make([]int, len(m)) // a heap of sources, the largest saving first
	for i := range m {
		m[i], h[i] = 1, i
	}
	down := func(i int) {
		for {
			best := i
			for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
				if worth(h[c]) > worth(h[best]) {
					best = c
				}
			}
			if best == i {
				return
			}
			h[i], h[best] = h[best], h[i]
			i = best
		}
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		down(i)
	}
	for left := n - len(m); left > 0 && len(h) > 0; left-- {
		m[h[0]]++
		down(0)
	}
	return m
}
