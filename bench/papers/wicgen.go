package papers

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/freshet/freshet/scheduler/wic"
)

// WICParams are the parameters of a generated WIC workload.
type WICParams struct {
	Pages   int
	N       int
	C       Capacity
	Life    wic.Life
	Urgency wic.Urgency
	Changes float64 // of a page in the epoch, on average
	// FPN is the probability that a change is missing from the estimates and is
	// expected at a random instant instead; Sigma the standard deviation, in
	// instants, by which each expected change is spread.
	FPN   float64
	Sigma float64
	Seed  uint64
}

// WICBaseline returns parameters with the paper's accuracy of estimates and its epoch
// of a day in minutes.
func WICBaseline() WICParams {
	return WICParams{
		Pages: 60, N: 1440, C: Capacity{1}, Life: wic.Life{Kind: wic.Append}, Urgency: wic.Urgency{Kind: wic.Exp, Param: 0.5},
		Changes: 15, FPN: 0.1, Sigma: 2, Seed: 1,
	}
}

// Generate makes a workload with changes of Poisson processes. The probabilities are
// the true changes with false positives and negatives and a spread (section 5 of the
// paper). The same parameters give the same workload. Other settings of life, urgency
// and C have the same changes.
func (p WICParams) Generate() (*WICWorkload, error) {
	if p.Pages < 0 || p.N < 1 || !(p.Changes >= 0) || !(p.FPN >= 0 && p.FPN <= 1) || !(p.Sigma >= 0 && p.Sigma <= float64(p.N)) {
		return nil, fmt.Errorf("%w: %d pages, %d instants, %v changes, FPN = %v, σ = %v", ErrWorkload, p.Pages, p.N, p.Changes, p.FPN, p.Sigma)
	}
	rng := rand.New(rand.NewPCG(p.Seed, 0x31c))
	l := &WICWorkload{Pages: p.Pages, N: p.N, C: p.C, Life: p.Life, Urgency: p.Urgency, Pi: make([][]float64, p.Pages),
		Updates: make([][]int, p.Pages)}
	for i := range l.Pi {
		l.Updates[i] = []int{}
		for _, t := range poissonTimes(rng, p.Changes, p.N) {
			l.Updates[i] = append(l.Updates[i], int(t))
		}
		l.Pi[i] = p.estimate(rng, l.Updates[i])
	}
	return l, l.Check()
}

// seeded is Generate with another seed.
func (p WICParams) seeded(seed uint64) (*WICWorkload, error) {
	p.Seed = seed
	return p.Generate()
}

// estimate returns the probabilities of a page's changes, with noise.
func (p WICParams) estimate(rng *rand.Rand, updates []int) []float64 {
	pi := make([]float64, p.N)
	for _, at := range updates {
		if rng.Float64() < p.FPN {
			at = 1 + rng.IntN(p.N)
		}
		if p.Sigma == 0 {
			pi[at-1] = 1
			continue
		}
		reach := int(math.Ceil(4 * p.Sigma))
		for t := max(1, at-reach); t <= min(p.N, at+reach); t++ {
			pi[t-1] += normal((float64(t-at)+0.5)/p.Sigma) - normal((float64(t-at)-0.5)/p.Sigma)
		}
	}
	for t := range pi {
		pi[t] = min(1, pi[t])
	}
	return pi
}

// normal is the distribution function of the normal distribution.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
