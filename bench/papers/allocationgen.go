package papers

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/freshet/freshet/scheduler/retrieval"
)

// strategy runs one of the paper's four strategies. Each source is retrieved at the
// same times on all days. Its postings, a Poisson process with a daily pattern, wait
// for the next retrieval.
func (l *AllocationWorkload) strategy(policy string) (Result, error) {
	if !slices.Contains(l.Policies(), policy) {
		return nil, unknownPolicy(policy, l)
	}
	rates := make([]float64, len(l.Sources))
	for i, s := range l.Sources {
		rates[i] = s.Rate
	}
	each := l.division(policy, rates)
	rng := rand.New(rand.NewPCG(l.Seed, 0xa11))
	var delays moments
	for i, s := range l.Sources {
		times, period := plan(policy, s, each[i])
		postings(rng, s, l.Days, func(t float64) { delays.add(24 * 60 * until(times, period, t)) })
	}
	return &StrategyResult{Policy: policy, Postings: delays.n, Average: delays.mean(), Max: delays.most, Stddev: delays.deviation()}, nil
}

// division returns the retrievals a day of each source. A source with less than one is
// retrieved every few days.
func (l *AllocationWorkload) division(policy string, rates []float64) []float64 {
	if policy == evenStrategy || policy == retrievalStrategy {
		return retrieval.Allocate(make([]float64, len(rates)), nil, l.N)
	}
	return retrieval.Allocate(rates, nil, l.N)
}

// plan returns the retrieval times of a source within a period of days. Evenly spaced
// retrievals reach fractional rates over a long period: 4.4 a day are 22 in 5 days.
// Retrievals placed in the day are a whole number a day, or one every few days.
func plan(policy string, s Source, m float64) (times []float64, period float64) {
	placed := policy == retrievalStrategy || policy == combinedStrategy
	if m < 1 || !placed {
		period = 1 / max(m, 1e-3)
		if !placed {
			return []float64{offset(s) * period}, period
		}
		period = math.Max(1, math.Round(period))
		return retrieval.Schedule(retrieval.NewDaily(s.Daily), 1), period
	}
	return retrieval.Schedule(retrieval.NewDaily(s.Daily), int(math.Round(m))), 1
}

// offset shifts evenly spaced retrievals within their period, so that they are
// independent of the daily pattern.
func offset(s Source) float64 {
	_, f := math.Modf(s.Rate * 7919.77)
	return math.Abs(f)
}

// until returns the time from t to the next retrieval.
func until(times []float64, period, t float64) float64 {
	at := math.Mod(t, period)
	for _, x := range times {
		if x >= at {
			return x - at
		}
	}
	return times[0] + period - at
}

// postings draws the postings of a source and calls each with their times in days.
func postings(rng *rand.Rand, s Source, days int, each func(t float64)) {
	sum := 0.0
	for _, r := range s.Daily {
		sum += r
	}
	if sum == 0 || s.Rate == 0 {
		return
	}
	bin := 1 / float64(len(s.Daily))
	for d := range days {
		for b, r := range s.Daily {
			rate := s.Rate * r / sum // expected in the bin
			for t := rng.ExpFloat64(); t < rate; t += rng.ExpFloat64() {
				each(float64(d) + (float64(b)+t/rate)*bin)
			}
		}
	}
}

// AllocationParams are the parameters of a generated set of sources.
type AllocationParams struct {
	Sources int
	// Exponent is that of the power law of posting rates: the i-th source posts
	// Rate·i^(−Exponent) times a day.
	Exponent float64
	Rate     float64
	// Night is how much less is posted at night than by day, 0 to 1, and Patterns
	// how many patterns there are: sources are awake at different hours.
	Night    float64
	Patterns int
	PerDay   float64 // retrievals a day for each source, on average
	Days     int
	Seed     uint64
}

// AllocationBaseline returns the paper's setting: rates of a power law, a daily
// pattern with quiet nights, and one retrieval a day.
func AllocationBaseline() AllocationParams {
	return AllocationParams{Sources: 1000, Exponent: 0.97, Rate: 100, Night: 0.5, Patterns: 4, PerDay: 1, Days: 28, Seed: 1}
}

// Generate makes the sources. The same parameters give the same sources.
func (p AllocationParams) Generate() (*AllocationWorkload, error) {
	l := &AllocationWorkload{N: p.PerDay * float64(p.Sources), Days: p.Days, Seed: p.Seed, Sources: make([]Source, p.Sources)}
	rng := rand.New(rand.NewPCG(p.Seed, 0xa10))
	for i := range l.Sources {
		shift := float64(rng.IntN(max(1, p.Patterns))) / float64(max(1, p.Patterns))
		l.Sources[i] = Source{Rate: p.Rate * math.Pow(float64(i+1), -p.Exponent), Daily: make([]float64, 24)}
		for b := range l.Sources[i].Daily {
			awake := (1 - math.Cos(2*math.Pi*((float64(b)+0.5)/24-shift-4.0/24))) / 2
			l.Sources[i].Daily[b] = 1 - p.Night + 2*p.Night*awake
		}
	}
	return l, l.Check()
}

// seeded is Generate with another seed.
func (p AllocationParams) seeded(seed uint64) (*AllocationWorkload, error) {
	p.Seed = seed
	return p.Generate()
}
