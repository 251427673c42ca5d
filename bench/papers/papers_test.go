package papers

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/scheduler/wic"
)

// The findings of section 4: SUP is exact if its model is. Its utility falls with more
// noise and with more updates to count, and rises with wider windows. fbSUP gains more
// than SUP for X > 1, with moderately more probes, and equals it for X = 1.
func TestLongSUPFindings(t *testing.T) {
	const seeds = 2
	type gained struct {
		Probes, Utility int
		Effective       float64
	}
	mean := func(p SUPParams) map[string]gained {
		t.Helper()
		runs := &runs{seeds: seeds}
		outcomes := runs.sup(p, optimalPolicy, supPolicy, fbsupPolicy)
		if runs.err != nil {
			t.Fatal(runs.err)
		}
		r := map[string]gained{}
		for policy, o := range outcomes {
			effective, _ := figure.MeanDeviation(o.effective)
			r[policy] = gained{o.probes, o.utility, effective}
		}
		if r[optimalPolicy].Effective < 1-1e-9 {
			t.Errorf("%+v: SUP on the truth has effective utility %v", p, r[optimalPolicy].Effective)
		}
		return r
	}
	for _, data := range SUPData() {
		last := 2.0
		for _, z := range []float64{1, 0.8, 0.6, 0.4} {
			got := mean(SUPParams{Data: data, X: 1, Life: "overwrite", Model: "fpn", Z: z})[supPolicy].Effective
			if z == 1 && got < 1-1e-9 || got >= last {
				t.Errorf("%s, FPN(%g): %.3f after %.3f", data, z, got, last)
			}
			last = got
		}
		for _, x := range []int{1, 2, 3, 5} {
			p := SUPParams{Data: data, X: x, Life: "overwrite", Model: "fpn", Z: 0.6}
			r := mean(p)
			static, fed := r[supPolicy], r[fbsupPolicy]
			p.Life, p.Y = "window", 40
			wide := mean(p)[supPolicy]
			p.Y = 10
			if narrow := mean(p)[supPolicy]; narrow.Effective >= wide.Effective {
				t.Errorf("%s, X = %d: window(10) %.3f, window(40) %.3f", data, x, narrow.Effective, wide.Effective)
			}
			cost := float64(fed.Probes) / float64(static.Probes)
			t.Logf("%s, X = %d: SUP %.3f with %d probes, fbSUP %.3f with %d", data, x, static.Effective, static.Probes, fed.Effective, fed.Probes)
			if x == 1 && (fed.Utility != static.Utility || cost != 1) || x > 1 && (fed.Utility <= static.Utility || cost > 2.2) {
				t.Errorf("%s, X = %d: SUP %d of %d probes, fbSUP %d of %d", data, x, static.Utility, static.Probes, fed.Utility, fed.Probes)
			}
		}
	}
}

// With an exact model, WIC needs at least as many probes as SUP for the same utility,
// and more than twice as many if every third update is to be reported, because it does
// not know the rule. With a Poisson model, too, it needs more for X = 3.
func TestLongSUPAgainstWIC(t *testing.T) {
	for _, c := range []struct {
		model string
		x     int
	}{{"fpn", 1}, {"fpn", 3}, {"poisson", 3}} {
		runs := &runs{seeds: 1}
		e := runs.supAgainstWIC(c.model, c.x)
		if runs.err != nil {
			t.Fatal(runs.err)
		}
		sup := e.Curve(supPolicy).Points[0]
		for _, p := range e.Curve("wic, 1000 chronons").Points {
			t.Logf("%s, X = %d: WIC has %.3f with %g probes, SUP %.3f with %g", c.model, c.x, p[1], p[0], sup[1], sup[0])
			if p[0] < sup[0] && p[1] >= sup[1] || c.x == 3 && p[0] < 2*sup[0] && p[1] >= sup[1] {
				t.Errorf("%s, X = %d: WIC has %.3f with %g probes, SUP %.3f with %g", c.model, c.x, p[1], p[0], sup[1], sup[0])
			}
		}
	}
}

// Section 5.3: completeness rises with r, timeliness falls, for several seeds.
func TestLongWICTradeoff(t *testing.T) {
	type shares struct{ captured, zero float64 }
	mean := func(p WICParams) (out shares) {
		runs := &runs{seeds: 5}
		o := runs.wic(p)
		if runs.err != nil {
			t.Fatal(runs.err)
		}
		out.captured, _ = figure.MeanDeviation(o.captured)
		out.zero, _ = figure.MeanDeviation(o.zero)
		return out
	}
	for _, life := range []string{wic.Append, wic.Overwrite} {
		p := WICBaseline()
		p.Life, p.Urgency = wic.Life{Kind: life}, wic.Urgency{Kind: wic.Exp, Param: 0}
		hasty := mean(p)
		p.Urgency.Param = 1
		patient := mean(p)
		t.Logf("%s, seeds 1 to 5: captured/without delay %.2f/%.2f at r = 0, %.2f/%.2f at r = 1", life, hasty.captured, hasty.zero,
			patient.captured, patient.zero)
		if patient.captured <= hasty.captured || patient.zero >= hasty.zero {
			t.Errorf("%s: r = 0 captures %.3f, %.3f at once, r = 1 %.3f, %.3f at once", life, hasty.captured, hasty.zero, patient.captured,
				patient.zero)
		}
	}
}

// The strategies have the order of the paper's table, with about the delays of an
// independent simulation: even 720, retrieval only 618, allocation only 383, combined
// 350 minutes.
func TestLongAllocationStrategies(t *testing.T) {
	runs := &runs{seeds: 3}
	outcomes := runs.strategies(1)
	if runs.err != nil {
		t.Fatal(runs.err)
	}
	var got []*strategyOutcome
	for _, policy := range allStrategies {
		got = append(got, outcomes[policy])
	}
	last := math.Inf(1)
	for k, want := range []float64{720, 618, 383, 350} {
		average, _ := figure.MeanDeviation(got[k].averages)
		t.Logf("seeds 1 to 3: strategy %d waits %.0f minutes on average, at most %.0f", k+1, average, got[k].most)
		if average < 0.93*want || average > 1.07*want {
			t.Errorf("strategy %d waits %.0f minutes, another simulation had %.0f", k+1, average, want)
		}
		if average >= last {
			t.Errorf("strategy %d waits %.0f minutes, the one before %.0f", k+1, average, last)
		}
		last = average
	}
	if got[3].most <= got[1].most || got[3].deviation <= got[0].deviation {
		t.Errorf("dividing by rate lets rare sources wait longer: even %+v, combined %+v", *got[0], *got[3])
	}
}

// A report contains everything that it shows and loads nothing from elsewhere.
func TestLongWriteExperiments(t *testing.T) {
	dir := t.TempDir()
	e := figure.Experiment{Name: "one", Title: "One & only", X: "x", Y: "y", Source: "a paper", Note: "Noted."}
	for x := range 4 {
		e.Add("first", float64(x), float64(x*x))
		e.Add("second", float64(x), 1)
	}
	e.Add("lonely", 2, 3)
	e.AddMean("mean", 2, []float64{2, 4, 6})
	e.Quote("what is printed", "42 %", "%d %%", 41)
	if err := figure.WriteExperiments(dir, "A title", []figure.Experiment{e}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "One &amp; only", "<td>9</td>", "lonely", "After: a paper.", "<td>4 ± 2</td>",
		"<td>42 %</td><td>41 %</td>"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(string(page), "src=") || strings.Contains(string(page), "<script") {
		t.Error("the page needs something else")
	}
	for _, name := range []string{"one.svg", "figures.json"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() < 100 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The first error ends all runs, and is the error of the experiments.
func TestRunsEndAtTheFirstError(t *testing.T) {
	r := &runs{seeds: 3}
	n := 0
	over(r, AllocationParams{Sources: 2, PerDay: 1, Rate: 1, Days: 1, Patterns: 1}.seeded, []string{evenStrategy, "none", combinedStrategy},
		func(*AllocationWorkload, string, *StrategyResult) { n++ })
	over(r, AllocationBaseline().seeded, allStrategies, func(*AllocationWorkload, string, *StrategyResult) { n++ })
	if list, err := r.experiments(placing()); n != 1 || list != nil || !errors.Is(err, ErrNoPolicy) {
		t.Errorf("%d results, %d experiments, error %v", n, len(list), err)
	}
}

// Each value that is far from its paper's says why. Where the text of the paper has words
// instead of numbers, a person has compared them.
func TestLongValuesHaveReasons(t *testing.T) {
	agree := map[string]bool{
		"effective utility, FPN(1.0), X = 1": true, "gain in utility, FPN(1.0)": true,
		"sedf: preemption at C = 1 and at C = 2": true,
	}
	for name, run := range map[string]func(int) ([]figure.Experiment, error){
		"sup": SUPExperiments, "wic": WICExperiments, "allocation": AllocationExperiments,
		"cei": func(int) (list []figure.Experiment, err error) {
			r := &runs{seeds: 1}
			for _, s := range ceiSweeps()[:2] {
				e := r.sweep(s)
				quoteCEI(&e)
				list = append(list, e)
			}
			return r.experiments(list...)
		},
	} {
		list, err := run(1)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			for _, q := range e.Quotes {
				t.Logf("%s, %s: %s: there %s, here %s", name, e.Name, q.What, q.Paper, q.Ours)
				if q.Why == "" && !agree[q.What] {
					t.Errorf("%s, %s: %s: there %s, here %s, and not why", name, e.Name, q.What, q.Paper, q.Ours)
				}
			}
		}
	}
}
