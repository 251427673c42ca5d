package bench

import (
	"fmt"
	"slices"

	"github.com/freshet/freshet/scheduler/update"
	"github.com/freshet/freshet/scheduler/wic"
)

const supPaper = "Roitman, Gal, Bright, Raschid, A dual framework and algorithms for targeted data delivery"

// mean is what policies gain in the mean of some seeds.
func (p SUPParams) mean(seeds int, policies ...string) (map[string]SUPSetResult, error) {
	out := map[string]SUPSetResult{}
	for seed := 1; seed <= seeds; seed++ {
		p.Seed = uint64(seed)
		s, err := p.Generate()
		if err != nil {
			return nil, err
		}
		for _, policy := range policies {
			r, err := s.Run(policy)
			if err != nil {
				return nil, err
			}
			x, sum := r.(*SUPSetResult), out[policy]
			sum.Probes += x.Probes
			sum.Utility += x.Utility
			sum.Effective += x.Effective / float64(seeds)
			out[policy] = sum
		}
	}
	return out, nil
}

// SUPExperiments runs the figures of the paper on generated data sets.
func SUPExperiments(seeds int) ([]Experiment, error) {
	var out []Experiment
	for _, make := range []func(int, string) (Experiment, error){supProfiles, supLives, supModels} {
		for _, data := range []string{"rss", "auction", "week"} {
			e, err := make(seeds, data)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
	}
	for _, model := range []string{"fpn", "poisson"} {
		for _, x := range []int{1, 3} {
			e, err := supAgainstWIC(model, x)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
	}
	more, err := supFeedback(seeds)
	return append(out, more...), err
}

func supProfiles(seeds int, data string) (Experiment, error) {
	e := Experiment{
		Name: "profiles-" + data, Title: "SUP by profile and window, data set " + data, Source: supPaper + ", figure 1",
		X: "window in chronons (Y)", Y: "effective utility", Note: "FPN(0.6); one curve for each X, the rule telling of every X-th update.",
	}
	for x := 1; x <= 5; x++ {
		for _, y := range []int{0, 10, 20, 40, 60, 80, 100} {
			p := SUPParams{Data: data, X: x, Life: "window", Y: y, Model: "fpn", Z: 0.6}
			r, err := p.mean(seeds, supPolicy)
			if err != nil {
				return e, err
			}
			e.add(fmt.Sprintf("X = %d", x), float64(y), r[supPolicy].Effective)
		}
	}
	return e, nil
}

func supLives(seeds int, data string) (Experiment, error) {
	e := Experiment{
		Name: "lives-" + data, Title: "SUP by life, data set " + data, Source: supPaper + ", figure 2",
		X: "every X-th update", Y: "effective utility", Note: "FPN(0.6).",
	}
	for x := 1; x <= 5; x++ {
		for _, y := range []int{-1, 0, 10, 20} {
			p, name := SUPParams{Data: data, X: x, Life: "window", Y: y, Model: "fpn", Z: 0.6}, fmt.Sprintf("window(%d)", y)
			if y < 0 {
				p.Life, p.Y, name = "overwrite", 0, "overwrite"
			}
			r, err := p.mean(seeds, supPolicy)
			if err != nil {
				return e, err
			}
			e.add(name, float64(x), r[supPolicy].Effective)
		}
	}
	return e, nil
}

// supNamedModels are the models that figures compare.
var supNamedModels = []struct {
	name, model string
	z           float64
}{{"FPN(1.0)", "fpn", 1}, {"FPN(0.8)", "fpn", 0.8}, {"FPN(0.6)", "fpn", 0.6}, {"FPN(0.4)", "fpn", 0.4}, {"Poisson", "poisson", 0}, {"learned", "learned", 0}}

func supModels(seeds int, data string) (Experiment, error) {
	e := Experiment{
		Name: "models-" + data, Title: "SUP by update model, data set " + data, Source: supPaper + ", figure 3",
		X: "every X-th update", Y: "effective utility",
		Note: "Life overwrite. Poisson expects updates by the rates that made them, learned by rates by hour and weekday from four epochs before.",
	}
	for x := 1; x <= 5; x++ {
		for _, m := range supNamedModels {
			r, err := SUPParams{Data: data, X: x, Life: "overwrite", Model: m.model, Z: m.z}.mean(seeds, supPolicy)
			if err != nil {
				return e, err
			}
			e.add(m.name, float64(x), r[supPolicy].Effective)
		}
	}
	return e, nil
}

// supAgainstWIC compares utility over probes. WIC gets the same model, as
// probabilities of 0 and 1, and M probes a chronon; it does not know the rule. It
// probes what is expected to have changed, so that the probes counted are those
// made, at most as many as allowed.
func supAgainstWIC(model string, x int) (Experiment, error) {
	e := Experiment{
		Name: fmt.Sprintf("wic-%s-%d", model, x), Title: fmt.Sprintf("SUP and WIC, data set week, model %s, X = %d", model, x), Source: supPaper + ", figure 4",
		X: "probes made", Y: "effective utility", LogX: true,
		Note: "Life overwrite; WIC with M = 1 to 20 probes a chronon in epochs of 500 and 1000 chronons. The model fpn is FPN(1), which has no noise. WIC makes no probe without gain, so with M to spare it makes as many as SUP where X = 1; the paper counts all it may make.",
	}
	s, err := SUPParams{Data: "week", X: x, Life: "overwrite", Model: model, Z: 1, Seed: 1}.Generate()
	if err != nil {
		return e, err
	}
	for _, policy := range []string{supPolicy, fbsupPolicy} {
		r, err := s.Run(policy)
		if err != nil {
			return e, err
		}
		x := r.(*SUPSetResult)
		e.add(policy, float64(x.Probes), x.Effective)
	}
	for _, chronons := range []int{500, 1000} {
		name := fmt.Sprintf("wic, %d chronons", chronons)
		for _, m := range []int{1, 2, 3, 4, 5, 7, 10, 15, 20} {
			probes, effective, err := s.wic(chronons, m)
			if err != nil {
				return e, err
			}
			e.add(name, float64(probes), effective)
		}
		c := e.curve(name)
		slices.SortFunc(c.Points, func(a, b [2]float64) int { return int(a[0] - b[0]) })
		c.Points = slices.CompactFunc(c.Points, func(a, b [2]float64) bool { return a[0] == b[0] })
	}
	return e, nil
}

// wic runs WIC over the pages with m probes a chronon, of which there are so many.
func (s *SUPSet) wic(chronons, m int) (probes int, effective float64, err error) {
	l := &WICLoad{Pages: len(s.Pages), N: chronons, C: Capacity{m}, Life: wic.Life{Kind: wic.Overwrite}}
	coarse := SUPChronons / chronons
	for _, page := range s.Pages {
		pi := make([]float64, chronons)
		for _, t := range page.Model {
			pi[(t-1)/coarse] = 1
		}
		l.Pi = append(l.Pi, pi)
	}
	r, err := l.Run(wicPolicy)
	if err != nil {
		return 0, 0, err
	}
	byPage := make([][]int, len(s.Pages))
	for j, pages := range r.(*WICResult).Schedule {
		for _, i := range pages {
			byPage[i] = append(byPage[i], (j+1)*coarse)
			probes++
		}
	}
	hit, all := 0, 0
	for i, page := range s.Pages {
		spans := page.rule().Spans(page.Updates, page.N)
		hit += update.Utility(spans, byPage[i])
		all += len(spans)
	}
	return probes, float64(hit) / max(1, float64(all)), nil
}

// supFeedback compares fbSUP with SUP.
func supFeedback(seeds int) ([]Experiment, error) {
	utility := Experiment{
		Name: "feedback-utility", Title: "What feedback gains", Source: supPaper + ", figure 5(a)", X: "every X-th update", Y: "utility of fbSUP relative to SUP",
		Note: "Data set rss, life overwrite. Where X = 1 every expected update has its probe already, and feedback has nothing to add.",
	}
	probes := Experiment{
		Name: "feedback-probes", Title: "What feedback costs", Source: supPaper + ", figure 5(b)", X: "every X-th update", Y: "probes of fbSUP relative to SUP",
		Note: "As above. The more updates are counted, the more feedback costs here: more than the paper's 50 %, for more gain.",
	}
	for x := 1; x <= 5; x++ {
		for _, m := range supNamedModels {
			r, err := SUPParams{Data: "rss", X: x, Life: "overwrite", Model: m.model, Z: m.z}.mean(seeds, supPolicy, fbsupPolicy)
			if err != nil {
				return nil, err
			}
			static, fed := r[supPolicy], r[fbsupPolicy]
			utility.add(m.name, float64(x), float64(fed.Utility)/max(1, float64(static.Utility)))
			probes.add(m.name, float64(x), float64(fed.Probes)/max(1, float64(static.Probes)))
		}
	}
	return []Experiment{utility, probes}, nil
}
