package retrieval

import "math"

// Allocate divides n retrievals per day among sources: m_i ∝ √(w_i·λ_i), with sum n.
// weights is nil if all are 1. If no source ever posts, all get the same. The numbers
// are real.
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
