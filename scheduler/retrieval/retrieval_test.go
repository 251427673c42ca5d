package retrieval_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/scheduler/retrieval"
)

// √(1·4) : √(1·9) : √(4·1) = 2 : 3 : 2.
func TestAllocate(t *testing.T) {
	got := retrieval.Allocate([]float64{4, 9, 1}, []float64{1, 1, 4}, 14)
	if !slices.Equal(got, []float64{4, 6, 4}) {
		t.Errorf("%v", got)
	}
	if got := retrieval.Allocate([]float64{0, 0}, nil, 3); !slices.Equal(got, []float64{1.5, 1.5}) {
		t.Errorf("no postings: %v", got)
	}
}

// No other division of the retrievals has less expected delay, λ/(2m) per day each.
func TestLawAllocate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "sources")
		rates, weights := make([]float64, n), make([]float64, n)
		for i := range rates {
			rates[i] = rapid.Float64Range(0.01, 50).Draw(t, "rate")
			weights[i] = rapid.Float64Range(0.1, 3).Draw(t, "weight")
		}
		delay := func(m []float64) (sum float64) {
			for i := range m {
				sum += weights[i] * rates[i] / (2 * m[i])
			}
			return sum
		}
		m := retrieval.Allocate(rates, weights, 40)
		sum, best := 0.0, delay(m)
		for i := range m {
			sum += m[i]
			other := slices.Clone(m)
			j := rapid.IntRange(0, n-1).Draw(t, "to")
			by := m[i] * rapid.Float64Range(0.01, 0.9).Draw(t, "by")
			other[i] -= by
			other[j] += by
			if delay(other) < best*(1-1e-12) {
				t.Fatalf("%v is better than %v", other, m)
			}
		}
		if math.Abs(sum-40) > 1e-9 {
			t.Fatalf("sum %v", sum)
		}
	})
}

// criterion returns λ(τ_j)(τ_{j+1} − τ_j) − ∫_{τ_{j−1}}^{τ_j} λ(t)dt for each j, which
// is minus the derivative of the delay by τ_j. If λ is continuous, it is 0 at a
// minimum, but also at a maximum.
func criterion(d *retrieval.Daily, tau []float64) []float64 {
	m := len(tau)
	out := make([]float64, m)
	for j, t := range tau {
		before, after := tau[(j+m-1)%m], tau[(j+1)%m]
		if before >= t {
			before--
		}
		if after <= t {
			after++
		}
		out[j] = d.Rate(t)*(after-t) - d.Count(before, t)
	}
	return out
}

// slowly computes wait as a sum over small steps.
func slowly(rates, tau []float64) (sum float64) {
	const steps = 48000
	for i := range steps {
		t := (float64(i) + 0.5) / steps
		next := 1 + tau[0]
		for _, x := range tau {
			if x >= t {
				next = x
				break
			}
		}
		if t < tau[0] {
			next = tau[0]
		}
		sum += rates[int(t*float64(len(rates)))] * (next - t) / steps
	}
	return sum
}

func TestLawDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 12).Draw(t, "rates")
		tau := rapid.SliceOfN(rapid.Float64Range(0, 0.999), 1, 5).Draw(t, "tau")
		slices.Sort(tau)
		got, want := retrieval.NewDaily(rates).Delay(tau), slowly(rates, tau)
		if math.Abs(got-want) > 1e-3*max(1, want) {
			t.Fatalf("delay %v, by small steps %v", got, want)
		}
	})
}

// In the paper's example, λ(t) = 2 + 2 sin 2πt, the criterion holds at each retrieval,
// and moving retrievals, alone or together, saves nothing.
func TestSine(t *testing.T) {
	rates := make([]float64, 960)
	for i := range rates {
		rates[i] = 2 + 2*math.Sin(2*math.Pi*(float64(i)+0.5)/float64(len(rates)))
	}
	d := retrieval.NewDaily(rates)
	rng := rand.New(rand.NewPCG(7, 8))
	for m := 1; m <= 12; m++ {
		tau := retrieval.Schedule(d, m)
		if len(tau) != m || !slices.IsSorted(tau) || tau[0] < 0 || tau[m-1] >= 1 {
			t.Fatalf("m = %d: %v", m, tau)
		}
		best := d.Delay(tau)
		for j, c := range criterion(d, tau) { // λ changes by up to 2·2π/960 between bins
			if math.Abs(c) > 0.014 {
				t.Errorf("m = %d: criterion %v at retrieval %d of %v", m, c, j, tau)
			}
		}
		even := make([]float64, m)
		for j := range even {
			even[j] = float64(j) / float64(m)
		}
		if m < 8 && best > 0.97*d.Delay(even) {
			t.Errorf("m = %d: delay %v, evenly spaced %v", m, best, d.Delay(even))
		}
		for range 300 {
			other := slices.Clone(tau)
			for j := range other {
				other[j] = math.Mod(1+other[j]+rng.NormFloat64()*0.2*rng.Float64()*rng.Float64(), 1)
			}
			slices.Sort(other)
			if d.Delay(other) < best*(1-1e-9) {
				t.Fatalf("m = %d, seed 7, 8: %v has delay %v, %v has %v", m, other, d.Delay(other), tau, best)
			}
		}
	}
}

// The maximum satisfies the criterion as well as the minimum does. With one retrieval
// a day both are where the rate crosses its mean. The delay is least where the rate
// falls below the mean, at t = 1/2; it rises above it at 0.
func TestStationaryIsNotEnough(t *testing.T) {
	rates := make([]float64, 96)
	for i := range rates {
		rates[i] = 2 + 2*math.Sin(2*math.Pi*(float64(i)+0.5)/float64(len(rates)))
	}
	d := retrieval.NewDaily(rates)
	tau := retrieval.Schedule(d, 1)
	if math.Abs(tau[0]-0.5) > 1e-9 || d.Delay(tau) >= d.Delay([]float64{0}) {
		t.Errorf("retrieval at %v with delay %v; at 0 it is %v", tau, d.Delay(tau), d.Delay([]float64{0}))
	}
}

// No schedule on a grid is better, for any rates, including hours without postings.
// With a constant rate the spacing is even.
func TestLawSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 1, 2, 10, 100}), 1, 8).Draw(t, "rates")
		d := retrieval.NewDaily(rates)
		m := rapid.IntRange(1, 3).Draw(t, "m")
		best := d.Delay(retrieval.Schedule(d, m))
		const grid = 24
		var try func(tau []float64, from int)
		try = func(tau []float64, from int) {
			if len(tau) == m {
				if x := d.Delay(tau); x < best-1e-9*max(1, x) {
					t.Fatalf("%v for %v has %v, less than %v", tau, rates, x, best)
				}
				return
			}
			for i := from; i < grid; i++ {
				try(append(tau[:len(tau):len(tau)], float64(i)/grid), i+1)
			}
		}
		try(nil, 0)
	})
	flat := retrieval.NewDaily([]float64{3, 3, 3, 3})
	for _, m := range []int{1, 4, 7} {
		if got, want := flat.Delay(retrieval.Schedule(flat, m)), 3/(2*float64(m)); math.Abs(got-want) > 1e-6 {
			t.Errorf("m = %d: delay %v, evenly spaced %v", m, got, want)
		}
	}
}

// The extremes are many retrievals and no postings.
func TestScheduleExtremes(t *testing.T) {
	d := retrieval.NewDaily([]float64{1, 0, 5, 0.5})
	tau := retrieval.Schedule(d, 500)
	even := make([]float64, 500)
	for j := range even {
		even[j] = float64(j) / 500
	}
	if len(tau) != 500 || d.Delay(tau) > d.Delay(even) {
		t.Errorf("%d retrievals, delay %v, evenly spaced %v", len(tau), d.Delay(tau), d.Delay(even))
	}
	if got := retrieval.Schedule(retrieval.NewDaily([]float64{0, 0}), 2); len(got) != 2 {
		t.Errorf("no postings: %v", got)
	}
	if got := retrieval.Schedule(d, 0); got != nil {
		t.Errorf("no retrievals: %v", got)
	}
}
