package papers

import (
	"math"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/scheduler/retrieval"
)

// allocationPaper is the paper whose table and example this file repeats.
const allocationPaper = "Sia, Efficient Monitoring Algorithm for Fast News Alert"

// AllocationExperiments runs the paper's table and example on generated sources.
func AllocationExperiments(seeds int) ([]figure.Experiment, error) {
	r := &runs{seeds: seeds}
	e := figure.Experiment{
		Name: "strategies", Title: "The four strategies", Source: allocationPaper + ", performance", X: "strategy", Y: "average delay in minutes",
		Note: "1: even, 2: retrieval scheduling only, 3: resource allocation only, 4: combined. Posting rates by a power law, " +
			"daily patterns, one retrieval a day for each source on average. The paper's figures are of 9634 RSS feeds.",
	}
	more := figure.Experiment{
		Name: "retrievals", Title: "Delay against retrievals", Source: allocationPaper + ", performance",
		X: "retrievals a day for each source, on average", Y: "average delay in minutes", LogX: true,
		Note: "As above.",
	}
	for k, paper := range []float64{645, 581, 433, 395} {
		e.Add("paper", float64(k+1), paper)
	}
	for _, perDay := range []float64{1, 2, 4, 8, 16} {
		outcomes := r.strategies(perDay)
		for k, policy := range allStrategies {
			o := outcomes[policy]
			more.AddMean(policy, perDay, o.averages)
			if perDay != 1 {
				continue
			}
			e.AddMean("generated sources", float64(k+1), o.averages)
			e.Quote(policy+": average, largest and standard deviation of the delay, min", siaDelays[k], "%.0f, %.0f, %.0f",
				e.Value("generated sources", float64(k+1)), o.most, o.deviation)
			e.Explain(siaReasons[k])
		}
	}
	return r.experiments(e, more, placing())
}

// siaReasons say why they differ.
var siaReasons = [4]string{
	"The trace: a posting waits for half a day on average, 720 min, where the times of retrievals have nothing to do with the hours " +
		"at which feeds are awake. Those of the paper must have.",
	"The trace: the gain depends on how quiet nights are, which the paper shows as a plot only.",
	siaTail, siaTail,
}

const siaTail = "The trace: a source is retrieved once in (mean of √λ) / √λ days. With one power law of exponent 0.97 for all rates " +
	"that is every second day for the rarest source; the paper's 7 days belong to feeds that post far more rarely than such a law says. " +
	"A steeper law, of 1.7, leads to 6,047 min, but its average is 50 min."

// siaDelays holds the paper's average, maximum and standard deviation, in minutes.
var siaDelays = [4]string{"645, 1440, 392", "581, 1440, 405", "433, 9120, 542", "395, 10073, 560"}

// strategyOutcome holds the delays of a strategy over several seeds, in minutes.
type strategyOutcome struct {
	averages  []float64 // by seed
	deviation float64   // of the delays, in the mean of the seeds
	most      float64
}

// strategies runs all strategies over generated sources.
func (r *runs) strategies(perDay float64) map[string]*strategyOutcome {
	p := AllocationBaseline()
	p.PerDay = perDay
	list := map[string]*strategyOutcome{}
	for _, policy := range allStrategies {
		list[policy] = &strategyOutcome{}
	}
	over(r, p.seeded, allStrategies, func(_ *AllocationWorkload, policy string, s *StrategyResult) {
		o := list[policy]
		o.averages = append(o.averages, s.Average)
		o.deviation += s.Stddev / float64(r.seeds)
		o.most = max(o.most, s.Max)
	})
	return list
}

// placing runs the paper's example of one source.
func placing() figure.Experiment {
	e := figure.Experiment{
		Name: "placing", Title: "Placing retrievals in the day", Source: allocationPaper + ", multiple retrievals per period",
		X: "retrievals a day (m)", Y: "expected delay, minutes per posting",
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
