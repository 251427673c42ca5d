package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/scheduler/plan"
)

// A feed misses a tenth of the changes, and half of its reports are false. The default policy learns that.
func TestLongSignals(t *testing.T) {
	tr, err := trace.Generate(t.Context(), trace.Knuth2016(), 5)
	if err != nil {
		t.Fatal(err)
	}
	w := NewSimulator(tr)
	told, all := 0, 0
	for slot, list := range w.signals(Signals{Miss: 0.1, Lie: 0.5}) {
		for _, q := range list {
			all++
			s := tr.Series[w.series[q]]
			for _, v := range s.Versions[1:] {
				if v.Rev == slot {
					told++
				}
			}
		}
	}
	// False reports meet a change by chance, too.
	if n := 0.9 * float64(w.changes); float64(told) < 0.98*n || float64(told) > 1.7*n || float64(all) < 1.9*n || float64(all) > 2.1*n {
		t.Errorf("%d of %d reports are of %d changes", told, all, w.changes)
	}
	const short = 600
	tr.Revisions, tr.Times = short, tr.Times[:short+1]
	for i := range tr.Series {
		s := &tr.Series[i]
		s.Versions = slices.DeleteFunc(s.Versions, func(v trace.Version) bool { return v.Rev > short })
	}
	w = NewSimulator(tr)
	found := func(policy string) int {
		r, err := w.Run(t.Context(), Setup{Policy: policy, Budget: 10 * time.Second, Rule: plan.RuleStrict, Signals: &Signals{Miss: 0.1,
			Lie: 0.5}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Relevant
	}
	got, best, deaf := found("hybrid"), found("signals"), found("rates")
	if float64(got) < 0.96*float64(best) {
		t.Errorf("hybrid finds %d changes, and %d can be found by one that knows the rates and the noise", got, best)
	}
	if best <= deaf {
		t.Errorf("with the signals %d changes are found, with the rates alone %d", best, deaf)
	}
}

// Without errors, signals finds what has changed and runs nothing else, and hints let rr find
// more.
func TestTrueSignals(t *testing.T) {
	tr := readTrace(t, tiny)
	exact := &Signals{}
	got := simulate(t, tr, Setup{Policy: "signals", Budget: 20 * time.Second, Rule: plan.RuleStrict, Signals: exact})
	if got.Relevant != 4 || got.Fresh != 1 {
		t.Errorf("with exact signals %d of 4 changes are found, and results are fresh for %g of the time", got.Relevant, got.Fresh)
	}
	large := `{"queries":4,"revisions":6,"exec_ms":[[950,950,950,100],[950,950,950,100],[950,950,950,100],[950,950,950,100],` +
		`[950,950,950,100],[950,950,950,100],[950,950,950,100]],
"changes":[{"id":3,"initial":[1],"versions":[{"rev":1,"rows":[2]},{"rev":2,"rows":[3]},{"rev":3,"rows":[4]},{"rev":4,` +
		`"rows":[5]},{"rev":5,"rows":[6]}]}]}`
	run := func(s *Signals) Row {
		return simulate(t, readTrace(t, large), Setup{Policy: "rr", Budget: time.Second, Rule: plan.RuleStrict, Signals: s})
	}
	if with, without := run(exact), run(nil); with.Relevant <= without.Relevant {
		t.Errorf("with hints %d changes are found, without %d", with.Relevant, without.Relevant)
	}
}

// Signals that are all false, or more than all, are refused.
func TestSignalsCheck(t *testing.T) {
	for _, s := range []Signals{{Miss: -0.1}, {Miss: 1.1}, {Lie: 1}, {Lie: -1}} {
		if err := (Setup{Policy: "rr", Budget: time.Second, Rule: plan.RuleStrict, Signals: &s}).Check(); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}
