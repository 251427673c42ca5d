package bench

import (
	"math"

	"github.com/freshet/freshet/scheduler/retrieval"
)

const allocationPaper = "Sia, Efficient Monitoring Algorithm for Fast News Alert"

// AllocationExperiments runs the paper's table and example on generated sources.
func AllocationExperiments(seeds int) ([]Experiment, error) {
	e := Experiment{
		Name: "strategies", Title: "The four strategies", Source: allocationPaper + ", performance", X: "strategy", Y: "average delay in minutes",
		Note: "1: even, 2: retrieval scheduling only, 3: resource allocation only, 4: combined. Posting rates by a power law, daily patterns, one retrieval a day for each source on average. The paper's figures are of 9634 RSS feeds.",
	}
	more := Experiment{
		Name: "retrievals", Title: "Delay against retrievals", Source: allocationPaper + ", performance", X: "retrievals a day for each source, on average", Y: "average delay in minutes", LogX: true,
		Note: "As above.",
	}
	for k, paper := range []float64{645, 581, 433, 395} {
		e.add("paper", float64(k+1), paper)
	}
	for _, perDay := range []float64{1, 2, 4, 8, 16} {
		sums, err := strategies(seeds, perDay)
		if err != nil {
			return nil, err
		}
		for k, policy := range (&AllocationLoad{Sources: []Source{}}).Policies() {
			more.add(policy, perDay, sums[k].Average)
			if perDay == 1 {
				e.add("generated sources", float64(k+1), sums[k].Average)
				e.add("standard deviation", float64(k+1), sums[k].Stddev)
			}
		}
	}
	return []Experiment{e, more, placing()}, nil
}

// strategies plays all of them, in the mean of some seeds.
func strategies(seeds int, perDay float64) ([4]StrategyResult, error) {
	var out [4]StrategyResult
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
			out[k].Average += s.Average / float64(seeds)
			out[k].Stddev += s.Stddev / float64(seeds)
			out[k].Max = max(out[k].Max, s.Max)
		}
	}
	return out, nil
}

// placing is the paper's example of one source.
func placing() Experiment {
	e := Experiment{
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
		e.add("evenly spaced", float64(m), 24*60*d.Delay(even)/postings)
		e.add("placed", float64(m), 24*60*d.Delay(retrieval.Schedule(d, m))/postings)
	}
	return e
}
