package papers

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/scheduler/wic"
)

// ceiPaper is the paper whose figures this file repeats.
const ceiPaper = "Roitman, Gal, Raschid, Query scheduling in the presence of complex user profiles"

// sweep runs the policies for each x. A point is the share of the CEIs that a policy
// captures, as the mean of the seeds.
func (r *runs) sweep(s ceiSweep) figure.Experiment {
	e := s.Experiment
	for _, x := range s.xs {
		p := CEIBaseline()
		s.set(&p, x)
		shares := map[string][]float64{}
		over(r, p.seeded, s.policies, func(_ *CEIWorkload, policy string, out *CEIResult) {
			shares[policy] = append(shares[policy], out.Completeness)
		})
		for _, policy := range s.policies {
			e.AddMean(policy, x, shares[policy])
		}
	}
	return e
}

// quoteCEI adds the values in the paper's text about a figure.
func quoteCEI(e *figure.Experiment) {
	switch e.Name {
	case "preemption":
		for _, kind := range []string{"sedf", "mrsf", "medf"} {
			gain, at := 0.0, 0.0
			for _, x := range e.Xs() {
				if d := e.Value(kind+":p", x) - e.Value(kind+":np", x); math.Abs(d) > math.Abs(gain) {
					gain, at = d, x
				}
			}
			e.Quote(kind+": largest difference in completeness that preemption makes", "up to 20 %", "%+.1f points, at C = %g", 100*gain, at)
			e.Explain(ceiLoad)
		}
		e.Quote("sedf: preemption at C = 1 and at C = 2", "loses, gains", "%+.1f and %+.1f points",
			100*(e.Value("sedf:p", 1)-e.Value("sedf:np", 1)), 100*(e.Value("sedf:p", 2)-e.Value("sedf:np", 2)))
	case "rank":
		e.Quote("mrsf:p of the bound, rank 1", "100 %", "%.1f %%", 100*e.Value("mrsf:p", 1)/e.Value(singlePolicy, 1))
		e.Explain("The trace: profiles here may want the same resource at once, and the bound prefers such probes. With 15 profiles it is 100 %.")
		e.Quote("mrsf:p of the bound, rank 5", "at least 77 %", "%.1f %%", 100*e.Value("mrsf:p", 5)/e.Value(singlePolicy, 5))
		e.Explain(ceiLoad + " Here 60 profiles ask for about 4,300 EIs with 1,000 probes. " +
			"With a tenth of the updates it is 78 %, and with four probes a chronon 72 %.")
		most := 0.0
		for _, x := range e.Xs() {
			most = max(most, e.Value("mrsf:p", x)/e.Value(offlinePolicy, x)-1)
		}
		e.Quote("mrsf:p above the offline approximation", "up to 10 %", "up to %.1f %%", 100*most)
		e.Explain("The load again, and the approximation, which the paper takes from another one.")
	}
}

// ceiLoad says why shares of completeness differ from the paper's.
const ceiLoad = "The load: the paper takes 400 recorded auctions and does not print how many EIs compete for a probe."

var (
	ceiAll     = []string{"sedf:np", "sedf:p", "mrsf:np", "mrsf:p", "medf:np", "medf:p"}
	ceiUsual   = []string{"sedf:np", "sedf:p", "mrsf:p", "medf:p", wicPolicy}
	ceiOffline = []string{"sedf:np", "sedf:p", "mrsf:p", "medf:p", wicPolicy, offlinePolicy}
	ceiBounded = []string{"sedf:np", "sedf:p", "mrsf:p", "medf:p", wicPolicy, offlinePolicy, singlePolicy}
)

// A ceiSweep is an experiment that varies one parameter of the baseline.
type ceiSweep struct {
	figure.Experiment
	policies []string
	xs       []float64
	set      func(p *CEIParams, x float64)
}

func ceiSweeps() []ceiSweep {
	list := []ceiSweep{
		{figure.Experiment{Name: "preemption", Title: "With and without preemption", Source: ceiPaper + ", figure 6", X: "probes a chronon (C)",
			Note: "AuctionWatch(3), n = 400 resources, windows of W = 20 chronons."},
			ceiAll, []float64{1, 2, 3, 4, 5}, func(p *CEIParams, x float64) { p.N, p.W, p.C = 400, 20, Capacity{int(x)} }},
		{figure.Experiment{Name: "rank", Title: "Completeness against rank", Source: ceiPaper + ", figure 7", X: "rank of every profile",
			Note: "Every profile watches exactly so many resources and every update has to be probed at once (W = 0); n = 400, m = " +
				"60. offline knows all CEIs beforehand; single is the largest share of the EIs that can be captured when each counts " +
				"for itself, which bounds the share of CEIs of every policy here. S-EDF(np), which goes on with what it has begun, " +
				"comes near to MRSF(p) and M-EDF(p), which are the same here (proposition 3)."},
			ceiBounded, []float64{1, 2, 3, 4, 5}, func(p *CEIParams, x float64) { p.N, p.M, p.Rank, p.Exact, p.W = 400, 60, int(x), true, 0 }},
		{figure.Experiment{Name: "budget", Title: "Completeness against budget", Source: ceiPaper + ", figure 11", X: "probes a chronon (C)",
			Note: "Baseline of table 1. Unlike in the paper, S-EDF is ahead where the budget is nearly enough for all: there " +
				"deadlines decide, which MRSF looks at only to break ties."},
			ceiOffline, []float64{1, 2, 3, 4, 5}, func(p *CEIParams, x float64) { p.C = Capacity{int(x)} }},
		{figure.Experiment{Name: "intensity", Title: "Completeness against update intensity", Source: ceiPaper + ", figure 9",
			X: "updates of a resource on average (λ)", Note: "Baseline of table 1."},
			ceiOffline, []float64{10, 20, 30, 40, 50}, func(p *CEIParams, x float64) { p.Lambda = x }},
		{figure.Experiment{Name: "profiles", Title: "Completeness against number of profiles", Source: ceiPaper + ", section 4.5",
			X: "profiles (m)", LogX: true, Note: "Baseline of table 1."},
			ceiUsual, []float64{100, 200, 500, 1000, 2500}, func(p *CEIParams, x float64) { p.M = int(x) }},
		{figure.Experiment{Name: "alpha", Title: "Completeness against α", Source: ceiPaper + ", figure 10(1)",
			X: "preference of popular resources (α)", Note: "Baseline of table 1. Where profiles watch the same resources, one probe serves many."},
			ceiUsual, []float64{0, 0.5, 1, 1.37, 2}, func(p *CEIParams, x float64) { p.Alpha = x }},
		{figure.Experiment{Name: "beta", Title: "Completeness against β", Source: ceiPaper + ", figure 10(2)",
			X: "preference of simple profiles (β)", Note: "Baseline of table 1."},
			ceiUsual, []float64{0, 0.5, 1, 1.5, 2}, func(p *CEIParams, x float64) { p.Beta = x }},
		{figure.Experiment{Name: "window", Title: "Completeness against window", Source: ceiPaper + ", table 1",
			X: "window of an update in chronons (W)", Note: "Baseline of table 1."},
			ceiUsual, []float64{0, 5, 10, 15, 20}, func(p *CEIParams, x float64) { p.W = int(x) }},
		{figure.Experiment{Name: "varying-budget", Title: "Budgets that vary by chronon", Source: ceiPaper +
			", section 2.3 (the budget vector)", X: "probes together, once in so many chronons",
			Note: "Baseline of table 1 with two probes a chronon on average: in every chronon, or twice x of them in every x-th one " +
				"and none between. Windows of W = 10 outlast gaps of up to ten chronons."},
			ceiUsual, []float64{1, 2, 5, 10, 20, 50}, func(p *CEIParams, x float64) { p.C = bursts(int(x), 2, p.K) }},
		{figure.Experiment{Name: "overwrite", Title: "Updates that overwrite", Source: ceiPaper + ", section 4.1.2",
			X: "updates of a resource on average (λ)", Note: "Baseline of table 1 with life overwrite: an EI ends with the next update."},
			ceiUsual, []float64{10, 20, 30, 40, 50}, func(p *CEIParams, x float64) { p.Life, p.Lambda = wic.Overwrite, x }},
	}
	for i := range list {
		list[i].Y = "captured share of the CEIs"
	}
	return list
}

// bursts has mean·every probes in each chronon that is a multiple of every.
func bursts(every, mean, k int) Capacity {
	c := make(Capacity, k)
	for t := every - 1; t < k; t += every {
		c[t] = mean * every
	}
	return c
}

// CEIExperiments runs the figures of the paper on generated workloads.
func CEIExperiments(seeds int) ([]figure.Experiment, error) {
	r := &runs{seeds: seeds}
	var list []figure.Experiment
	for _, s := range ceiSweeps() {
		e := r.sweep(s)
		quoteCEI(&e)
		list = append(list, e)
	}
	return r.experiments(append(list, r.ceiRuntime([]float64{100, 500, 1000, 2500, 10_000, 30_000, 100_000}))...)
}

// ceiRuntime measures the time per EI as the minimum of up to five runs.
func (r *runs) ceiRuntime(profiles []float64) figure.Experiment {
	e := figure.Experiment{
		Name: "runtime", Title: "Runtime per execution interval", Source: ceiPaper + ", figure 8", X: "profiles (m)",
		Y: "microseconds per EI", LogX: true,
		Note: "Baseline of table 1 with ever more profiles; the time of ranking, probing and keeping the books over all chronons, " +
			"divided by the number of EIs. A level line is a total that grows linearly. It is wall-clock time, so other work of the machine shows.",
	}
	for _, m := range profiles {
		p := CEIBaseline()
		p.M = int(m)
		l, err := p.Generate()
		if err != nil {
			r.err = cmp.Or(r.err, err)
			return e
		}
		for _, policy := range []string{"sedf:p", "mrsf:p", "medf:p"} {
			best := time.Duration(1<<63 - 1)
			for range max(1, min(5, 20_000/p.M)) {
				runAll(r, l, []string{policy}, func(_ *CEIWorkload, _ string, out *CEIResult) { best = min(best, out.Elapsed) })
			}
			e.Add(policy, m, best.Seconds()*1e6/float64(l.EIs()))
		}
	}
	e.Note += fmt.Sprintf(" The largest workload has %g profiles.", profiles[len(profiles)-1])
	return e
}
