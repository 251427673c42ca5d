package literature

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// The rates of both rules are where the derivative of the objective is the price, by central
// differences, and the best rate is on no side of them.
func TestRules(t *testing.T) {
	objectives := map[string]struct {
		rule rule
		gain func(changes, rate float64) float64
	}{
		"harmonic":  {harmonic, func(x, rate float64) float64 { return math.Log(rate / (rate + x)) }},
		"freshness": {freshness, func(x, rate float64) float64 { return rate / (rate + x) }},
	}
	for name, o := range objectives {
		for _, x := range []float64{0.001, 0.03, 0.5, 2} {
			for _, price := range []float64{0.05, 0.3, 1.5} {
				rate := o.rule(x, price)
				value := func(rate float64) float64 { return o.gain(x, rate) - price*rate }
				for _, other := range []float64{rate*0.99 + 1e-9, rate*1.01 + 1e-9} {
					if rate > 0 && value(other) > value(rate)+1e-12 {
						t.Errorf("%s: changes %g, price %g: %g is better than %g", name, x, price, other, rate)
					}
				}
			}
		}
	}
}

// Kolobov et al., section 4: every source that changes is crawled, however often it changes. With
// freshness as the aim, Azar et al. find that the crawl of what changes too often stops.
func TestStarvation(t *testing.T) {
	changes, costs := []float64{0.01, 0.1, 1, 100}, []float64{1, 1, 1, 1}
	for _, budget := range []float64{0.05, 0.5} {
		sum := 0.0
		for i, rate := range allocate(harmonic, changes, costs, budget) {
			if sum += rate; rate <= 0 {
				t.Errorf("harmonic: %g changes a slot have rate %g", changes[i], rate)
			}
		}
		if math.Abs(sum-budget) > 1e-6 {
			t.Errorf("harmonic: the rates sum to %g, not %g", sum, budget)
		}
		if rates := allocate(freshness, changes, costs, budget); rates[3] != 0 || rates[1] == 0 {
			t.Errorf("freshness: the rates are %v", rates)
		}
	}
}

// Equal changes and costs have equal rates, and the rates take the budget.
func TestUniform(t *testing.T) {
	for _, r := range []rule{harmonic, freshness} {
		for _, rate := range allocate(r, []float64{0.2, 0.2, 0.2, 0.2}, []float64{2, 2, 2, 2}, 4) {
			if math.Abs(rate-0.5) > 1e-6 {
				t.Errorf("rate %g, want 0.5", rate)
			}
		}
	}
}

// Estimators find the rate of a Poisson process: likelihood and moment with any gaps, the
// online ones with random ones, as in their papers. Avrachenkov et al., theorems 1 and 2: both
// converge almost surely.
func TestEstimators(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	learn := map[string]func([]float64, uint64, float64, bool) []float64{
		"likelihood": learnLikelihood, "moment": learnMoment, "large numbers": learnLargeNumbers, "approximation": learnApproximation,
	}
	for name, learn := range learn {
		for _, rate := range []float64{0.02, 0.1, 0.4} {
			var short, long []float64
			for n := range 20_000 {
				gap := r.ExpFloat64() * 5 // at rate 0.2
				if name == "moment" {
					gap = 5
				}
				long = learn(long, uint64(n), gap, r.Float64() < -math.Expm1(-rate*gap))
				if n == 50 {
					short = append(short, long...)
				}
			}
			if got := long[0]; math.Abs(got/rate-1) > 0.2 {
				t.Errorf("%s: rate %g is estimated as %g", name, rate, got)
			}
			if math.Abs(long[0]-rate) > math.Abs(short[0]-rate)+0.05*rate {
				t.Errorf("%s: rate %g is estimated as %g after 50 executions and %g after 20,000", name, rate, short[0], long[0])
			}
		}
	}
}

// Avrachenkov et al., theorems 1 and 2: after k executions the error of the law of large numbers is of the order k^(−1/2),
// that of stochastic approximation with steps k^(−η) of the order k^(−η/2), here with η = 3/4.
func TestOrdersOfConvergence(t *testing.T) {
	const rate, few, many, repeats = 0.1, 1000, 16_000, 200
	r := rand.New(rand.NewPCG(5, 6))
	squares := map[string]*[2]float64{"large numbers": {}, "approximation": {}}
	for name, learn := range map[string]func([]float64, uint64, float64, bool) []float64{
		"large numbers": learnLargeNumbers, "approximation": learnApproximation,
	} {
		for range repeats {
			var state []float64
			for n := range many {
				gap := r.ExpFloat64() * 5
				state = learn(state, uint64(n), gap, r.Float64() < -math.Expm1(-rate*gap))
				if n+1 == few {
					squares[name][0] += (state[0] - rate) * (state[0] - rate)
				}
			}
			squares[name][1] += (state[0] - rate) * (state[0] - rate)
		}
	}
	// Sixteen times as many executions make the error 4 and 2.8 times as small.
	for name, want := range map[string]float64{"large numbers": 4, "approximation": math.Pow(16, 0.375)} {
		if got := math.Sqrt(squares[name][0] / squares[name][1]); got < 0.75*want || got > 1.33*want {
			t.Errorf("%s: the error becomes %.2f times as small, want %.2f", name, got, want)
		}
	}
	if numbers, steps := squares["large numbers"][1], squares["approximation"][1]; numbers >= steps {
		t.Errorf("after %d executions the law of large numbers errs by %g, stochastic approximation by %g", many, numbers, steps)
	}
}

// Upadhyay et al.: what rates that were learnt lose is of the order of the square of their errors, so of 1/n after n
// executions of each. The best rates are those of the true change rates.
func TestExploreAndCommit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var changes, costs []float64
	for range 200 {
		changes, costs = append(changes, math.Exp(-1-4*r.Float64())), append(costs, 1)
	}
	worth := func(rates []float64) (sum float64) {
		for i, rate := range rates {
			sum += rate / (rate + changes[i])
		}
		return sum
	}
	best := worth(allocate(freshness, changes, costs, 20))
	lost := func(n int) float64 {
		found := make([]float64, len(changes))
		for i, x := range changes {
			var state []float64
			for range n {
				state = learnMoment(state, 0, 10, r.Float64() < -math.Expm1(-10*x))
			}
			found[i] = max(lowest, state[0])
		}
		return best - worth(allocate(freshness, found, costs, 20))
	}
	var before float64
	for _, n := range []int{200, 2000, 20_000} {
		now := lost(n)
		if now < -1e-6 || before > 0 && (now > before/5 || now < before/20) {
			t.Errorf("%d executions each lose %g of %g, a tenth of them lose %g", n, now, best, before)
		}
		before = now
	}
}

// Queries that were executed often without a change take hardly any of the budget from the few that change.
func TestQueriesWithoutChange(t *testing.T) {
	for _, spelling := range []string{"explore:slots=128", "online:lln"} {
		p, err := policy.Parse(Definitions(), spelling)
		if err != nil {
			t.Fatal(err)
		}
		var all []*policy.Candidate
		for i := range 1000 {
			c := &policy.Candidate{Query: registry.Query{ID: "q"}, Estimate: time.Second}
			for slot := uint64(9); slot <= 126; slot += 9 {
				c.Stats.Complete(p, policy.Sample{Slot: slot, Elapsed: time.Second, Changed: i < 10 && slot%2 == 0})
			}
			all = append(all, c)
		}
		changes, costs := make([]float64, len(all)), make([]float64, len(all))
		for i, c := range all {
			changes[i], costs[i] = estimate(c), 1
		}
		few := 0.0
		for _, rate := range allocate(freshness, changes, costs, 5)[:10] {
			few += rate
		}
		if few < 2.5 {
			t.Errorf("%s: ten queries that change have %g executions of 5, the other 990 never change", spelling, few)
		}
	}
}

// All policies can be written, explained and ranked; explore takes turns at first, and learns
// nothing later.
func TestDefinitions(t *testing.T) {
	for _, d := range Definitions() {
		p, err := policy.Parse(Definitions(), d.Spelling())
		if err != nil || p.String() != d.Spelling() {
			t.Fatalf("%s is written %v: %v", d.Spelling(), p, err)
		}
		var all []*policy.Candidate
		for i, id := range []string{"a", "b"} {
			c := &policy.Candidate{Query: registry.Query{ID: id}, Estimate: time.Second}
			for slot := uint64(1); slot < 40; slot++ {
				c.Stats.Complete(p, policy.Sample{Slot: slot, Elapsed: time.Second, Changed: i == 1 && slot%4 == 0})
			}
			all = append(all, c)
		}
		rank := func(slot uint64) []policy.Key {
			return p.(policy.Ranker).Rank(policy.Moment{Slot: slot, Budget: time.Second}, all).Keys
		}
		if k := rank(50); d.Name == "explore" && k[0].Value != k[1].Value || d.Name != "explore" && k[1].Value >= k[0].Value {
			t.Errorf("%s: the keys are %v", d.Name, k)
		}
		if k := rank(500); k[1].Value >= k[0].Value {
			t.Errorf("%s: the one that changes has %v, the other %v", d.Name, k[1], k[0])
		}
		if got := p.Inputs(policy.Moment{}, policy.Ranking{}, all[1])["changes_per_slot"]; got < 0.1 || got > 0.6 {
			t.Errorf("%s: %g changes a slot, want about 0.25", d.Name, got)
		}
	}
}
