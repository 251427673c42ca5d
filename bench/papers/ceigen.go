package papers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/freshet/freshet/scheduler/rounds/interval"
	"github.com/freshet/freshet/scheduler/wic"
)

// CEIParams are the parameters of a generated CEI workload, with the names of table 1
// of "Query scheduling in the presence of complex user profiles".
type CEIParams struct {
	N      int      // resources
	M      int      // profiles
	K      int      // chronons
	C      Capacity // probes a chronon
	Lambda float64  // updates of a resource, on average
	Rank   int      // the largest of a profile
	Exact  bool     // all profiles have that rank
	Life   string   // "window" of W chronons, or "overwrite"
	W      int
	Alpha  float64 // Zipf(α, n): how much profiles prefer popular resources
	Beta   float64 // Zipf(β, k): how much they prefer few of them
	Seed   uint64
}

// CEIBaseline returns the baseline values of table 1.
func CEIBaseline() CEIParams {
	return CEIParams{N: 1000, M: 100, K: 1000, C: Capacity{1}, Lambda: 20, Rank: 3, Life: wic.Window, W: 10, Seed: 1}
}

// Check returns an error if the parameters are invalid.
func (p CEIParams) Check() error {
	switch {
	case p.N < 1 || p.M < 0 || p.K < 1 || p.Rank < 1 || p.Rank > p.N:
		return fmt.Errorf("%w: %d profiles of up to %d of %d resources in %d chronons", ErrWorkload, p.M, p.Rank, p.N, p.K)
	case !(p.Lambda >= 0 && p.Lambda <= 1e6) || !(p.Alpha >= 0 && p.Alpha <= 50) || !(p.Beta >= 0 && p.Beta <= 50):
		return fmt.Errorf("%w: λ = %v, α = %v, β = %v", ErrWorkload, p.Lambda, p.Alpha, p.Beta)
	case p.Life != wic.Window && p.Life != wic.Overwrite || p.W < 0:
		return fmt.Errorf("%w: life is %q with W = %d; there are window and overwrite", ErrWorkload, p.Life, p.W)
	}
	return p.C.check()
}

// Generate makes a workload of the template AuctionWatch(k). A profile watches up to
// k resources and has a CEI for the j-th update of all of them, for each j. The CEI
// has an EI for each resource, which starts with the j-th update of the resource and
// ends in the chronon before the next one (overwrite) or W chronons later. Updates
// are Poisson, at most one of a resource in a chronon. The same parameters give the
// same workload.
func (p CEIParams) Generate() (*CEIWorkload, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(p.Seed, 0xce1))
	l := &CEIWorkload{N: p.N, K: p.K, C: p.C, CEIs: []CEI{}, Life: p.Life, W: p.W, Updates: make([][]uint64, p.N)}
	for i := range l.Updates {
		l.Updates[i] = poissonTimes(rng, p.Lambda, p.K)
	}
	ranks, resources := newZipf(p.Beta, p.Rank), newZipf(p.Alpha, p.N)
	for m := range p.M {
		k := p.Rank
		if !p.Exact {
			k = 1 + ranks.draw(rng)
		}
		var watched []int
		for len(watched) < k {
			if r := resources.draw(rng); !slices.Contains(watched, r) {
				watched = append(watched, r)
			}
		}
		l.watch(m, watched)
	}
	return l, nil
}

// seeded is Generate with another seed.
func (p CEIParams) seeded(seed uint64) (*CEIWorkload, error) {
	p.Seed = seed
	return p.Generate()
}

// watch adds the CEIs of a profile.
func (l *CEIWorkload) watch(profile int, resources []int) {
	n := math.MaxInt
	for _, r := range resources {
		n = min(n, len(l.Updates[r]))
	}
	for j := range n {
		c := CEI{Profile: profile, EIs: make([]interval.EI[int], len(resources))}
		for i, r := range resources {
			e := interval.EI[int]{Resource: r, Start: l.Updates[r][j], Finish: uint64(l.K)}
			switch {
			case l.Life == wic.Window:
				e.Finish = min(e.Finish, e.Start+uint64(l.W))
			case j+1 < len(l.Updates[r]):
				e.Finish = l.Updates[r][j+1] - 1
			}
			c.EIs[i] = e
		}
		l.CEIs = append(l.CEIs, c)
	}
}

// poissonTimes draws the chronons of k in which an event with lambda occurrences on
// average occurs at least once.
func poissonTimes(rng *rand.Rand, lambda float64, k int) []uint64 {
	out := []uint64{}
	for t := rng.ExpFloat64() / lambda * float64(k); t < float64(k); t += rng.ExpFloat64() / lambda * float64(k) {
		if at := uint64(t) + 1; len(out) == 0 || out[len(out)-1] != at {
			out = append(out, at)
		}
	}
	return out
}

// zipf draws 0 to n−1 with probabilities in proportion to 1/(i+1)^s.
type zipf struct{ upTo []float64 }

func newZipf(s float64, n int) zipf {
	z := zipf{upTo: make([]float64, n)}
	sum := 0.0
	for i := range z.upTo {
		sum += math.Pow(float64(i+1), -s)
		z.upTo[i] = sum
	}
	return z
}

func (z zipf) draw(rng *rand.Rand) int {
	i, _ := slices.BinarySearch(z.upTo, rng.Float64()*z.upTo[len(z.upTo)-1])
	return min(i, len(z.upTo)-1)
}
