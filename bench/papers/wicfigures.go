package papers

import (
	"fmt"
	"math"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/scheduler/wic"
)

// wicPaper is the paper whose figures this file repeats.
const wicPaper = "Pandey, Dhamdhere, Olston, WIC: A general-purpose algorithm for monitoring web information sources"

// A wicOutcome measures schedules against the true changes.
type wicOutcome struct {
	captured, zero []float64   // share of all changes, by seed
	utility        []float64   // of the captured changes by their true age, per change, by seed
	delays         [11]float64 // share of the captured changes, in the mean of the seeds
}

// wic runs the workloads of p.
func (r *runs) wic(p WICParams) (out wicOutcome) {
	share := 1 / float64(r.seeds)
	over(r, p.seeded, []string{wicPolicy}, func(l *WICWorkload, _ string, res *WICResult) {
		delays, all := l.delays(res.Schedule), max(1, float64(l.changes()))
		captured, zero := fractions(delays, l.changes())
		utility := 0.0
		for _, d := range delays {
			utility += worth(p.Urgency, d) / all
			out.delays[min(d, 10)] += share / max(1, float64(len(delays)))
		}
		out.captured, out.zero, out.utility = append(out.captured, captured), append(out.zero, zero), append(out.utility, utility)
	})
	return out
}

// worth returns the value of a change that is captured with a delay.
func worth(u wic.Urgency, delay int) float64 {
	switch {
	case u.Kind == wic.Exp:
		return math.Pow(u.Param, float64(delay))
	case u.Kind == wic.Sliding && delay > int(u.Param):
		return 0
	}
	return 1
}

// wicScale is how many times as many pages the paper monitors as the figures here, with as
// many times as many probes: 7,550 auctions.
const wicScale = 4

// asInThePaper returns parameters with as many probes for each page as the paper has with c
// pages monitored in an instant.
func asInThePaper(c int) WICParams {
	p := WICBaseline()
	p.Pages, p.Changes, p.C = 7550/wicScale, 2, Capacity{c / wicScale}
	return p
}

// wicNote says what the figures share.
const wicNote = "A quarter of the paper's 7,550 pages and of its C. The paper does not say how often its auctions change; " +
	"here it is twice each."

var (
	wicBudgets = []int{4, 8, 12} // C of the paper
	wicDecays  = []float64{0, 0.3, 0.5, 0.8, 1}
)

// WICExperiments runs the figures of the paper on generated pages.
func WICExperiments(seeds int) ([]figure.Experiment, error) {
	r := &runs{seeds: seeds}
	return r.experiments(r.wicTradeoff(), r.wicCaptured(), r.wicDelays(), r.wicLives(), r.wicInaccuracy(true), r.wicInaccuracy(false))
}

func (r *runs) wicTradeoff() figure.Experiment {
	e := figure.Experiment{
		Name: "tradeoff", Title: "Timeliness against completeness", Source: wicPaper + ", figure 9", X: "urgency r^t: r",
		Y:    "share of all changes",
		Note: "60 pages, one monitored an instant. From r = 0 to r = 1 more changes are captured and fewer of them at once.",
	}
	for _, life := range []string{wic.Append, wic.Overwrite} {
		for _, decay := range wicDecays {
			p := WICBaseline()
			p.Life, p.Urgency = wic.Life{Kind: life}, wic.Urgency{Kind: wic.Exp, Param: decay}
			o := r.wic(p)
			e.AddMean("captured, "+life, decay, o.captured)
			e.AddMean("without delay, "+life, decay, o.zero)
		}
	}
	return e
}

func (r *runs) wicCaptured() figure.Experiment {
	e := figure.Experiment{
		Name: "captured", Title: "Captured changes by budget and urgency", Source: wicPaper + ", figure 7",
		X: "pages monitored in an instant (C)", Y: "captured share of all changes",
		Note: wicNote + " Unbounded append.",
	}
	for _, decay := range wicDecays {
		for _, c := range wicBudgets {
			p := asInThePaper(c)
			p.Urgency = wic.Urgency{Kind: wic.Exp, Param: decay}
			o := r.wic(p)
			e.AddMean(fmt.Sprintf("r = %g", decay), float64(c), o.captured)
		}
	}
	more := 0.0
	for _, c := range e.Xs() {
		more = max(more, e.Value("r = 1", c)/max(1e-9, e.Value("r = 0", c))-1)
	}
	e.Quote("more changes captured with r = 1 than with r = 0, C < 12", "up to 80 %", "up to %.0f %%", 100*more)
	e.Explain("The trace: the recorded bids come in bursts, so that one late probe captures several. Here changes are independent; " +
		"with 4 instead of 2 of them a page it is 76 % at C = 4.")
	return e
}

func (r *runs) wicDelays() figure.Experiment {
	e := figure.Experiment{
		Name: "delays", Title: "Delays of captured changes", Source: wicPaper + ", figure 8", X: "delay in instants (10: or more)",
		Y:    "share of the captured changes",
		Note: wicNote + " C = 8, unbounded append.",
	}
	for _, decay := range wicDecays {
		p := asInThePaper(8)
		p.Urgency = wic.Urgency{Kind: wic.Exp, Param: decay}
		o := r.wic(p)
		for d, share := range o.delays {
			e.Add(fmt.Sprintf("r = %g", decay), float64(d), share)
		}
	}
	e.Quote("captured without delay, r = 0", "over 90 %", "%.0f %%", 100*e.Value("r = 0", 0))
	e.Explain("The trace: changes that are missed wait for a later probe of their page, and the estimates miss some (FPN = 0.1, σ = 2). " +
		"With one change a page instead of two it is 89 %.")
	e.Quote("captured ten instants late or more, r = 1", "roughly 50 %", "%.0f %%", 100*e.Value("r = 1", 10))
	e.Explain("The trace: it grows with the changes for each probe, which the paper does not print: " +
		"with 1, 2 and 4 changes a page it is 7 %, 62 % and 80 %.")
	return e
}

func (r *runs) wicLives() figure.Experiment {
	e := figure.Experiment{
		Name: "lives", Title: "Captured changes by life", Source: wicPaper + ", section 2.3", X: "pages monitored in an instant (C)",
		Y:    "captured share of all changes",
		Note: "A quarter of the paper's pages and of its C, which change 15 times each, uniform urgency.",
	}
	for _, life := range []wic.Life{{Kind: wic.Append}, {Kind: wic.Changes, W: 2}, {Kind: wic.Window, W: 10}, {Kind: wic.Overwrite}} {
		for _, c := range wicBudgets {
			p := asInThePaper(c)
			p.Life, p.Urgency, p.Changes = life, wic.Urgency{}, 15
			o := r.wic(p)
			e.AddMean(life.String(), float64(c), o.captured)
		}
	}
	return e
}

// wicInaccuracy varies the spread of the estimates, or their false positives and
// negatives.
func (r *runs) wicInaccuracy(spread bool) figure.Experiment {
	e := figure.Experiment{
		Name: "fpn", Title: "False positives and negatives", Source: wicPaper + ", figure 6", X: "pages monitored in an instant (C)",
		Y:    "utility per change",
		Note: wicNote + " Unbounded append, r = 1 and overwrite, r = 0; no spread.",
	}
	levels, name := []float64{0, 0.2, 0.4}, "FPN"
	if spread {
		e.Name, e.Title, e.Source, levels, name = "spread", "Spread of the estimates", wicPaper+", figure 5", []float64{0, 2, 5}, "σ"
		e.Note = wicNote + " Unbounded append, r = 1 and overwrite, r = 0; no false positives and negatives."
	}
	for _, extreme := range []struct {
		life string
		r    float64
	}{{wic.Append, 1}, {wic.Overwrite, 0}} {
		for _, level := range levels {
			for _, c := range wicBudgets {
				p := asInThePaper(c)
				p.Life, p.Urgency = wic.Life{Kind: extreme.life}, wic.Urgency{Kind: wic.Exp, Param: extreme.r}
				if p.FPN, p.Sigma = level, 0; spread {
					p.FPN, p.Sigma = 0, level
				}
				o := r.wic(p)
				e.AddMean(fmt.Sprintf("%s, r = %g, %s = %g", extreme.life, extreme.r, name, level), float64(c), o.utility)
			}
		}
	}
	return e
}
