package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/bench/trace/tracetest"
	"github.com/freshet/freshet/scheduler/plan"
)

// brute recomputes the metrics only from the trace and the schedule, revision by revision and
// literally by the definitions.
func brute(tr *trace.Trace, slots [][]int) Metrics {
	var m Metrics
	version := func(q, rev int) []int64 {
		var rows []int64
		for _, s := range tr.Series {
			if s.Query != q {
				continue
			}
			for _, v := range s.Versions {
				if v.Rev <= rev {
					rows = v.Rows
				}
			}
		}
		return rows
	}
	equal := func(a, b []int64) bool { return slices.Equal(a, b) } // bags are kept sorted
	ages, behind, changing := 0, 0, 0
	for q := range tr.Queries {
		changes := 0
		for rev := 1; rev <= tr.Revisions; rev++ {
			if !equal(version(q, rev), version(q, rev-1)) {
				changes++
			}
		}
		m.AbsMiss += changes
		if changes > 0 {
			changing++
		}
		last := 0
		for slot := 1; slot <= tr.Revisions; slot++ {
			if slices.Contains(slots[slot-1], q) {
				last = slot
			}
			ages += slot - last
			if !equal(version(q, slot), version(q, last)) {
				behind++
			}
		}
		fetched := 0 // revision of the version fetched last
		// account examines everything that happened since then, up to a revision.
		account := func(now int) (stale bool, since, pending int) {
			for rev := fetched + 1; rev <= now; rev++ {
				if equal(version(q, rev), version(q, rev-1)) {
					continue
				}
				pending++
				if equal(version(q, rev), version(q, fetched)) {
					since = 0 // equals the fetched version again
				} else if since == 0 {
					since = rev
				}
			}
			return !equal(version(q, now), version(q, fetched)), since, pending
		}
		ran := false
		for i, list := range slots {
			if !slices.Contains(list, q) {
				continue
			}
			slot := i + 1
			ran = true
			m.Total++
			m.Used += float64(tr.Times[slot][q]) / 1000
			stale, since, pending := account(slot)
			if stale {
				m.Relevant++
				m.AbsDelayDetected += slot - since
				m.MaxDelayDetected = max(m.MaxDelayDetected, slot-since)
				pending--
			}
			m.MaxMiss = max(m.MaxMiss, pending)
			fetched = slot
		}
		if ran {
			m.Distinct++
		}
		stale, since, pending := account(tr.Revisions)
		if stale {
			m.AbsDelay += tr.Revisions - since
			m.MaxDelay = max(m.MaxDelay, tr.Revisions-since)
		}
		m.MaxMiss = max(m.MaxMiss, pending)
	}
	m.Age = float64(ages) / float64(max(1, tr.Revisions*tr.Queries))
	m.Fresh = 1 - float64(behind)/float64(max(1, tr.Revisions*changing))
	m.AbsMiss -= m.Relevant
	m.AbsDelay += m.AbsDelayDetected
	m.MaxDelay = max(m.MaxDelay, m.MaxDelayDetected)
	m.Irrelevant = m.Total - m.Relevant
	if m.Total > 0 {
		m.Effectivity = float64(m.Relevant) / float64(m.Total)
	}
	return m
}

func drawSetup(t *rapid.T) Setup {
	timeout := time.Duration(0)
	if rapid.Bool().Draw(t, "times out") {
		timeout = time.Duration(rapid.IntRange(1, 90).Draw(t, "timeout")) * 100 * time.Millisecond
	}
	return Setup{
		Timeout: timeout,
		Policy: rapid.SampledFrom([]string{"rr", "sjf:lambda=0.5", "ljf:lambda=1", "cr:lambda=0", "dj", "ttl:max=4:reset",
			"ttl:max=8:half", "cv"}).Draw(t, "policy"),
		Budget: time.Duration(rapid.IntRange(1, 60).Draw(t, "budget")) * 100 * time.Millisecond,
		Rule:   rapid.SampledFrom(plan.Rules()).Draw(t, "rule"),
	}
}

// Every metric equals the one recomputed by brute force from the trace and the schedule. The
// fast mode without a schedule gives the same.
func TestMetricsByBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr, s := tracetest.Draw(t), drawSetup(t)
		w := NewSimulator(tr)
		quick, err := w.Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		s.Schedule = true
		full, err := w.Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		want := brute(tr, full.Slots)
		// These metrics cannot be derived from the complete executions.
		want.Cut, want.MaxOverrun, want.MaxDebt, want.Failed = len(full.Cuts), full.MaxOverrun, full.MaxDebt, full.Failed
		if len(full.Cuts)+full.Failed > 0 {
			want.Used = full.Used
		}
		want.Used = float64(int64(want.Used*1000+0.5)) / 1000
		if d := cmp.Diff(want, full.Metrics); d != "" {
			t.Fatalf("%+v\nslots %v\n-brute +simulated:\n%s", s, full.Slots, d)
		}
		if full.AbsMiss < 0 || s.Policy == "rr" && full.Relevant+full.AbsMiss != tr.Changes() {
			t.Fatalf("relevant %d + missed %d, of %d changes", full.Relevant, full.AbsMiss, tr.Changes())
		}
		quick.Delays, full.Delays = nil, nil
		full.Slots, full.Cuts = nil, nil
		if s.Policy == "cv" || s.Policy != "cv" && cmp.Equal(quick, full) {
			return
		}
		// Without ranking the same queries are executed. Only their order within a slot
		// is unknown, and no metric depends on it.
		t.Fatalf("%+v\n-quick +ranked:\n%s", s, cmp.Diff(quick, full))
	})
}

// Under strict no slot exceeds its budget.
func TestStrictNeverOverruns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr, s := tracetest.Draw(t), drawSetup(t)
		s.Rule = plan.RuleStrict
		row, err := NewSimulator(tr).Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if row.MaxOverrun > 0 {
			t.Fatalf("%+v overruns by %g s", s, row.MaxOverrun)
		}
	})
}

// Under debt no slot borrows more than one timeout, and all slots together use at most their
// budgets and one timeout.
func TestDebtIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr, s := tracetest.Draw(t), drawSetup(t)
		s.Rule = plan.RuleDebt
		row, err := NewSimulator(tr).Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		most := s.Timeout
		if most == 0 {
			most = time.Hour
		}
		if row.MaxOverrun > row.MaxDebt || row.MaxDebt > most.Seconds() || row.Used > float64(tr.Revisions)*s.Budget.Seconds()+row.MaxDebt+1e-9 {
			t.Fatalf("%+v: overrun by %g s, %g s owed, %g s used in %d slots", s, row.MaxOverrun, row.MaxDebt, row.Used, tr.Revisions)
		}
	})
}

// With a practically unlimited budget and a policy that is not selective, nothing runs late
// and nothing is missed.
func TestUnlimited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := tracetest.Draw(t)
		for _, p := range []string{"rr", "sjf", "ljf", "cr", "dj"} {
			row, err := NewSimulator(tr).Run(t.Context(), Setup{Policy: p, Budget: time.Hour, Rule: plan.RuleStrict})
			if err != nil {
				t.Fatal(err)
			}
			if row.Total != tr.Queries*tr.Revisions || row.Relevant != tr.Changes() || row.AbsDelay != 0 || row.AbsMiss != 0 {
				t.Fatalf("%s: %+v", p, row.Metrics)
			}
		}
	})
}
