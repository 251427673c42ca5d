package bench

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/diff/growth"
	"github.com/freshet/freshet/scheduler/plan"
)

// The generated trace shows the paper's ordering of policies. The test simulates 10 million
// executions, so it does not run under the race detector.
func TestLongOrdering(t *testing.T) {
	tr, err := trace.Generate(t.Context(), trace.Knuth2016(), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := NewSimulator(tr)
	play := func(budget time.Duration, policies ...string) map[string]Row {
		var setups []Setup
		for _, p := range policies {
			setups = append(setups, Setup{Policy: p, Budget: budget, Rule: plan.RuleOverrun})
		}
		rows, err := w.RunAll(t.Context(), setups, func(Row) {})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]Row{}
		for _, r := range rows {
			out[r.Policy] = r
			t.Logf("%s at %s: %+v", r.Policy, budget, r.Metrics)
		}
		return out
	}
	more := func(rows map[string]Row, policies ...string) {
		t.Helper()
		for i := 1; i < len(policies); i++ {
			if a, b := rows[policies[i-1]], rows[policies[i]]; a.Relevant <= b.Relevant {
				t.Errorf("%s finds %d changes, %s %d: the paper has more of the former", a.Policy, a.Relevant, b.Policy, b.Relevant)
			}
		}
	}
	roomy := play(50*time.Second, "dj", "cr:lambda=0", "ttl:max=32:half", "rr")
	more(roomy, "dj", "cr:lambda=0", "ttl:max=32:half", "rr")
	scarce := play(10*time.Second, "cr:lambda=0", "ttl:max=256:half", "dj", "ttl:max=32:half", "rr")
	more(scarce, "cr:lambda=0", "dj", "ttl:max=32:half", "rr")
	more(scarce, "ttl:max=256:half", "dj")
	if d := scarce["dj"].MaxDelay; d < 2000 {
		t.Errorf("dj at 10 s: max delay %d slots, the paper has nearly all 2208: it starves queries", d)
	}
}

// Round robin without a limit executes every query in every slot.
func TestLongUnlimited(t *testing.T) {
	tr, err := trace.Generate(t.Context(), trace.Knuth2016(), 1)
	if err != nil {
		t.Fatal(err)
	}
	row, err := NewSimulator(tr).Run(t.Context(), Setup{Policy: "rr", Budget: 1000 * time.Second, Rule: plan.RuleOverrun})
	if err != nil || row.Total != 22_080_000 {
		t.Fatalf("%d executions, %v", row.Total, err)
	}
}

// Round robin without a limit takes 1.2 times as long as a bare pass over the same
// times, and preparing the trace once 3.7 times. The metrics are these ratios.
func BenchmarkUnlimited(b *testing.B) {
	tr, err := trace.Generate(b.Context(), trace.Knuth2016(), 1)
	if err != nil {
		b.Fatal(err)
	}
	best := func(f func()) float64 {
		least := time.Hour
		for range 5 {
			start := time.Now()
			f()
			least = min(least, time.Since(start))
		}
		return least.Seconds()
	}
	for b.Loop() {
		var sum int64
		bare := best(func() {
			for _, row := range tr.Times {
				for _, ms := range row {
					sum += int64(ms)
				}
			}
		})
		w := NewSimulator(tr)
		rr := best(func() {
			if _, err := w.Run(b.Context(), Setup{Policy: "rr", Budget: 1000 * time.Second, Rule: plan.RuleOverrun}); err != nil {
				b.Fatal(err)
			}
		})
		b.ReportMetric(rr/bare, "run/pass")
		b.ReportMetric(best(func() { NewSimulator(tr) })/bare, "prepare/pass")
	}
}

// The metrics are the seconds of processor time that the runs of a study over one
// generated trace take, without reading it and without the report.
func BenchmarkStudy(b *testing.B) {
	tr, err := trace.Generate(b.Context(), trace.Knuth2016(), 27)
	if err != nil {
		b.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w, spent := NewSimulator(tr), map[string]float64{}
	for b.Loop() {
		clear(spent)
		for _, s := range NewStudy(plan.RuleOverrun, PaperBudgets()).Missing("") {
			began := growth.Processor()
			if _, err := w.Run(b.Context(), s); err != nil {
				b.Fatal(err)
			}
			d := (growth.Processor() - began).Seconds()
			name, _, _ := strings.Cut(s.Policy, ":")
			spent[name] += d
			spent["all"] += d
		}
	}
	for name, s := range spent {
		b.ReportMetric(s, name+"_cpu_s")
	}
}
