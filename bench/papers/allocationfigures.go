package papers

import (
	"math"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/scheduler/retrieval"
)

const allocationPaper = "Sia, Efficient Monitoring Algorithm for Fast News Alert"

// AllocationExperiments runs the paper's table and example on generated sources.
func AllocationExperiments(seeds int) ([]figure.Experiment, error) {
	e := figure.Experiment{
		Name: "strategies", Title: "The four strategies", Source: allocationPaper + ", performance", X: "strategy", Y: "average delay in minutes",
		Note: "1: even, 2: retrieval scheduling only, 3: resource allocation only, 4: combined. Posting rates by a power law, daily patterns, one retrieval a day for each source on average. The paper's figures are of 9634 RSS feeds.",
	}
	more := figure.Experiment{
		Name: "retrievals", Title: "Delay against retrievals", Source: allocationPaper + ", performance", X: "retrievals a day for each source, on average", Y: "average delay in minutes", LogX: true,
		Note: "As above.",
	}
	for k, paper := range []float64{645, 581, 433, 395} {
		e.Add("paper", float64(k+1), paper)
	}
	for _, perDay := range []float64{1, 2, 4, 8, 16} {
		outcomes, err := strategies(seeds, perDay)
		if err != nil {
			return nil, err
		}
		for k, policy := range (&AllocationWorkload{Sources: []Source{}}).Policies() {
			more.AddMean(policy, perDay, outcomes[k].averages)
			if perDay != 1 {
				continue
			}
			e.AddMean("generated sources", float64(k+1), outcomes[k].averages)
			e.Quote(policy+": average, largest and standard deviation of the delay, min", siaDelays[k], "%.0f, %.0f, %.0f",
				e.Value("generated sources", float64(k+1)), outcomes[k].most, outcomes[k].deviation)
		}
	}
	return []figure.Experiment{e, more, placing()}, nil
}

// siaDelays holds the paper's average, maximum and standard deviation, in minutes.
var siaDelays = [4]string{"645, 1440, 392", "581, 1440, 405", "433, 9120, 542", "395, 10073, 560"}

// strategyOutcome holds the delays of a strategy over several seeds, in minutes.
type strategyOutcome struct {
	averages  []float64 // by seed
	deviation float64   // of the delays, in the mean of the seeds
	most      float64
}

// strategies runs all strategies over several seeds.
func strategies(seeds int, perDay float64) ([4]strategyOutcome, error) {
	var out [4]strategyOutcome
	for seed := 1; seed <= seeds; seed++ {
		p := AllocationBaseline()
		p.Seed, p.PerDay = uint64(seed), perDay
		l, err := p.Generate()
		if err != nil {
			return out, err
		}
		for k, policy := range l.Policies() {
			r, err := l.Run(policy)
			if err != nil {
				return out, err
			}
			s := r.(*StrategyResult)
			out[k].averages = append(out[k].averages, s.Average)
			out[k].deviation += s.Stddev / float64(seeds)
			out[k].most = max(out[k].most, s.Max)
		}
	}
	return out, nil
}

// placing runs the paper's example of one source.
func placing() figure.Experiment {
	e := figure.Experiment{
		Name: "placing", Title: "Placing retrievals in the day", Source: allocationPaper + ", multiple retrievals per period", X: "retrievals a day (m)", Y: "expected delay, minutes per posting",
		Note: "λ(t) = 2 + 2 sin(2πt). Placed by the optimality criterion, checked to be a minimum; evenly spaced from midnight.",
	}
	rates := make([]float64, 96)
	for i := range rates {
		rates[i] = 2 + 2*math.Sin(2*math.Pi*(float64(i)+0.5)/float64(len(rates)))
	}
	d := retrieval.NewDaily(rates)
	postings := d.Count(0, 1)
	for m := 1; m <= 12; m++ {
		even := make([]float64, m)
		for j := range even {
			even[j] = float64(j) / float64(m)
		}
		e.Add("evenly spaced", float64(m), 24*60*d.Delay(even)/postings)
		e.Add("placed", float64(m), 24*60*d.Delay(retrieval.Schedule(d, m))/postings)
	}
	return e
}
