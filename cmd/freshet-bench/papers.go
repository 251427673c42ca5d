package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet/freshet/bench/papers"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/scheduler/wic"
)

// ceiCommand runs the benchmark of complex execution intervals.
func ceiCommand(w *cli.Env) *cobra.Command {
	p := papers.CEIBaseline()
	return workloadCommand(w, workloadKind{
		use: "cei", short: "Capture complex execution intervals",
		long: `Generates profiles that watch up to k resources each (AuctionWatch(k)), or reads a
workload, and compares online policies by how many complex execution intervals
they capture: sedf, mrsf and medf, each non-preemptive (np) and preemptive (p);
wic, which knows single resources alone; offline, an approximation that knows
everything beforehand; single, in which each interval counts for itself.`,
		example: `  freshet bench cei --profiles 100 --lambda 20 --rank 3 --life window,10
  freshet bench cei --workload cei.json --policy sedf:np,mrsf:p,wic --json
  freshet bench cei --figures report --seeds 10`,
		flags: func(f *pflag.FlagSet) {
			f.IntVar(&p.N, "resources", p.N, "resources (n)")
			f.IntVar(&p.M, "profiles", p.M, "profiles (m)")
			f.IntVar(&p.K, "chronons", p.K, "chronons (K)")
			f.Var(capacityFlag(&p.C), "budget", "probes a chronon (C); a list has one number for each chronon")
			f.Float64Var(&p.Lambda, "lambda", p.Lambda, "average number of updates of a resource (λ)")
			f.IntVar(&p.Rank, "rank", p.Rank, "resources a profile watches, at most (k)")
			f.BoolVar(&p.Exact, "exact", p.Exact, "every profile watches k resources")
			f.Var(lifeFlag(&p.Life, &p.W), "life", "for how long an update can be had: overwrite, or window,W chronons")
			f.Float64Var(&p.Alpha, "alpha", p.Alpha, "how much profiles prefer popular resources: Zipf(α, n)")
			f.Float64Var(&p.Beta, "beta", p.Beta, "how much profiles prefer to watch few resources: Zipf(β, k)")
			f.Uint64Var(&p.Seed, "seed", p.Seed, "seed")
		},
		generate: func() (papers.Workload, error) { return p.Generate() },
		read:     func() papers.Workload { return &papers.CEIWorkload{} },
		figures:  papers.CEIExperiments,
	})
}

// supCommand runs the benchmark of notification rules.
func supCommand(w *cli.Env) *cobra.Command {
	p := papers.SUPBaseline()
	return workloadCommand(w, workloadKind{
		use: "sup", short: "Satisfy notification rules with few probes",
		long: `Generates pages and models of their updates, or reads one page or a set of them,
and compares optimal (the true updates are known), sup (a schedule made of the
model beforehand) and fbsup (which takes feedback from its probes). The data
sets are rss, auction and week; the models fpn (the true updates, each kept
with probability Z and moved elsewhere otherwise), poisson (the rates that made
the updates) and learned (rates by hour and weekday, from four epochs before).`,
		example: `  freshet bench sup --data auction --x 3 --life window,10 --model fpn --z 0.6
  freshet bench sup --workload page.json --json
  freshet bench sup --figures report`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&p.Data, "data", p.Data, "data set: rss, auction or week")
			f.IntVar(&p.X, "x", p.X, "notify of every X-th update")
			f.Var(lifeFlag(&p.Life, &p.Y), "life", "for how long an update can be had: overwrite, or window,Y chronons")
			f.StringVar(&p.Model, "model", p.Model, "update model: fpn, poisson or learned")
			f.Float64Var(&p.Z, "z", p.Z, "probability with which fpn keeps an update (Z)")
			f.Uint64Var(&p.Seed, "seed", p.Seed, "seed")
		},
		generate: func() (papers.Workload, error) { return p.Generate() },
		read:     func() papers.Workload { return &papers.SUPFile{} },
		figures:  papers.SUPExperiments,
	})
}

// wicCommand runs the benchmark of web monitoring.
func wicCommand(w *cli.Env) *cobra.Command {
	p := papers.WICBaseline()
	return workloadCommand(w, workloadKind{
		use: "wic", short: "Monitor pages by urgency and life",
		long: `Generates pages with noisy estimates of when they change, or reads a workload, and
monitors in each instant the C pages with the largest gain. Urgency is what a
captured change is worth by its age, life the probability that it can still be
had.`,
		example: `  freshet bench wic --pages 60 --urgency exp,0.5 --life overwrite
  freshet bench wic --workload wic.json --json
  freshet bench wic --figures report`,
		flags: func(f *pflag.FlagSet) {
			f.IntVar(&p.Pages, "pages", p.Pages, "pages (n)")
			f.IntVar(&p.N, "instants", p.N, "instants (N)")
			f.Var(capacityFlag(&p.C), "budget", "pages monitored in an instant (C); a list has one number for each")
			f.Var(flagValue{"text", func() string { return p.Urgency.String() },
				func(s string) (err error) { p.Urgency, err = wic.ParseUrgency(s); return err }},
				"urgency", "uniform, exp,r or sliding,W")
			f.Var(flagValue{"text", func() string { return p.Life.String() }, func(s string) (err error) {
				p.Life, err = wic.ParseLife(s)
				return err
			}},
				"life", "append, window,W, changes,Z or overwrite")
			f.Float64Var(&p.Changes, "changes", p.Changes, "average number of changes of a page")
			f.Float64Var(&p.FPN, "fpn", p.FPN, "false positives and negatives among the estimates")
			f.Float64Var(&p.Sigma, "sigma", p.Sigma, "standard deviation by which the estimates are spread, in instants (σ)")
			f.Uint64Var(&p.Seed, "seed", p.Seed, "seed")
		},
		generate: func() (papers.Workload, error) { return p.Generate() },
		read:     func() papers.Workload { return &papers.WICWorkload{} },
		figures:  papers.WICExperiments,
	})
}

// allocationCommand runs the benchmark of the allocation of retrievals.
func allocationCommand(w *cli.Env) *cobra.Command {
	p := papers.AllocationBaseline()
	return workloadCommand(w, workloadKind{
		use: "allocation", short: "Divide retrievals among sources and over the day",
		long: `Answers one of three questions, by what the workload has. rates and N: how many
of N retrievals a day each source gets (sqrt). daily and m: when to make m
retrievals a day of a source whose rate varies (retrieval). sources, which is
what is generated: how long postings wait when all sources are retrieved as
often and evenly spaced (even), placed in the day (retrieval-only), divided by
the square root rule (allocation-only), or both (combined).`,
		example: `  freshet bench allocation
  freshet bench allocation --workload rates.json --policy sqrt --json
  freshet bench allocation --figures report`,
		flags: func(f *pflag.FlagSet) {
			f.IntVar(&p.Sources, "sources", p.Sources, "sources")
			f.Float64Var(&p.Exponent, "exponent", p.Exponent, "of the power law of posting rates")
			f.Float64Var(&p.Rate, "rate", p.Rate, "postings a day of the busiest source")
			f.Float64Var(&p.Night, "night", p.Night, "how much the rate varies over the day, 0 to 1")
			f.IntVar(&p.Patterns, "patterns", p.Patterns, "daily patterns there are, shifted against each other")
			f.Float64Var(&p.PerDay, "per-day", p.PerDay, "retrievals a day for each source, on average")
			f.IntVar(&p.Days, "days", p.Days, "days")
			f.Uint64Var(&p.Seed, "seed", p.Seed, "seed")
		},
		generate: func() (papers.Workload, error) { return p.Generate() },
		read:     func() papers.Workload { return &papers.AllocationWorkload{} },
		figures:  papers.AllocationExperiments,
	})
}
