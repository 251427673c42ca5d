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

var wicDecays = []float64{0, 0.3, 0.5, 0.8, 1}

// WICExperiments runs the figures of the paper on generated pages.
func WICExperiments(seeds int) ([]figure.Experiment, error) {
	r := &runs{seeds: seeds}
	return r.experiments(r.wicTradeoff(), r.wicCaptured(), r.wicDelays(), r.wicLives(), r.wicInaccuracy(true), r.wicInaccuracy(false))
}

func (r *runs) wicTradeoff() figure.Experiment {
	e := figure.Experiment{
		Name: "tradeoff", Title: "Timeliness against completeness", Source: wicPaper + ", figure 9", X: "urgency r^t: r", Y: "share of all changes",
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
		Name: "captured", Title: "Captured changes by budget and urgency", Source: wicPaper + ", figure 7", X: "pages monitored in an instant (C)", Y: "captured share of all changes",
		Note: "240 pages, unbounded append.",
	}
	for _, decay := range wicDecays {
		for _, c := range []int{1, 2, 4, 6, 8, 12} {
			p := WICBaseline()
			p.Pages, p.C, p.Urgency = 240, Capacity{c}, wic.Urgency{Kind: wic.Exp, Param: decay}
			o := r.wic(p)
			e.AddMean(fmt.Sprintf("r = %g", decay), float64(c), o.captured)
		}
	}
	more := 0.0
	for _, c := range e.Xs() {
		more = max(more, e.Value("r = 1", c)/max(1e-9, e.Value("r = 0", c))-1)
	}
	e.Quote("more changes captured with r = 1 than with r = 0, C < 12", "up to 80 %", "up to %.0f %%", 100*more)
	return e
}

func (r *runs) wicDelays() figure.Experiment {
	e := figure.Experiment{
		Name: "delays", Title: "Delays of captured changes", Source: wicPaper + ", figure 8", X: "delay in instants (10: or more)", Y: "share of the captured changes",
		Note: "240 pages, 4 monitored an instant, unbounded append.",
	}
	for _, decay := range wicDecays {
		p := WICBaseline()
		p.Pages, p.C, p.Urgency = 240, Capacity{4}, wic.Urgency{Kind: wic.Exp, Param: decay}
		o := r.wic(p)
		for d, share := range o.delays {
			e.Add(fmt.Sprintf("r = %g", decay), float64(d), share)
		}
	}
	e.Quote("captured without delay, r = 0", "over 90 %", "%.0f %%", 100*e.Value("r = 0", 0))
	e.Quote("captured ten instants late or more, r = 1", "roughly 50 %", "%.0f %%", 100*e.Value("r = 1", 10))
	return e
}

func (r *runs) wicLives() figure.Experiment {
	e := figure.Experiment{
		Name: "lives", Title: "Captured changes by life", Source: wicPaper + ", section 2.3", X: "pages monitored in an instant (C)", Y: "captured share of all changes",
		Note: "240 pages that change 60 times each, uniform urgency.",
	}
	for _, life := range []wic.Life{{Kind: wic.Append}, {Kind: wic.Changes, W: 2}, {Kind: wic.Window, W: 10}, {Kind: wic.Overwrite}} {
		for _, c := range []int{1, 2, 4, 8, 12} {
			p := WICBaseline()
			p.Pages, p.C, p.Life, p.Urgency, p.Changes = 240, Capacity{c}, life, wic.Urgency{}, 60
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
		Name: "fpn", Title: "False positives and negatives", Source: wicPaper + ", figure 6", X: "pages monitored in an instant (C)", Y: "utility per change",
		Note: "240 pages, unbounded append, r = 1 and overwrite, r = 0; no spread.",
	}
	levels, name := []float64{0, 0.2, 0.4}, "FPN"
	if spread {
		e.Name, e.Title, e.Source, levels, name = "spread", "Spread of the estimates", wicPaper+", figure 5", []float64{0, 2, 5}, "σ"
		e.Note = "240 pages, unbounded append, r = 1 and overwrite, r = 0; no false positives and negatives."
	}
	for _, extreme := range []struct {
		life string
		r    float64
	}{{wic.Append, 1}, {wic.Overwrite, 0}} {
		for _, level := range levels {
			for _, c := range []int{1, 2, 4, 8, 12} {
				p := WICBaseline()
				p.Pages, p.C, p.Life, p.Urgency = 240, Capacity{c}, wic.Life{Kind: extreme.life}, wic.Urgency{Kind: wic.Exp, Param: extreme.r}
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
