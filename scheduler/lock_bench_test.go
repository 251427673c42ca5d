package scheduler

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// registered are queries as an endpoint may have them: eight constants each, of which
// all share one, a thousand share another, and few the rest.
func registered(n int) []Entry {
	list := make([]Entry, n)
	for i := range list {
		q := query(fmt.Sprintf("q%07d", i*7919%n))
		q.Constants = []string{"http://example.org/all", fmt.Sprintf("http://example.org/many/%d", i%(n/1000+1))}
		for k := range 6 {
			q.Constants = append(q.Constants, fmt.Sprintf("http://example.org/some/%d", (i+k*k*31)%n))
		}
		s := Stats{Policy: "rr", Executions: 3, Last: uint64(1 + i%900), CheckedAt: began.Add(time.Duration(i) * time.Millisecond)}
		s.Remember(Sample{Elapsed: time.Duration(1+i%1000) * time.Millisecond})
		list[i] = Entry{Query: q, Stats: s}
	}
	return list
}

func planned(tb testing.TB, policy string, list []Entry) *planner {
	x, err := ParsePolicy(policy)
	if err != nil {
		tb.Fatal(err)
	}
	p := newPlanner(x, time.Hour)
	p.slot, p.now = 1000, began.Add(time.Hour)
	for _, e := range list {
		p.put(e.Query, e.Stats)
	}
	return p
}

// BenchmarkLockHeld measures for how long the lock of a loop is held at most by
// what is done to all queries of an endpoint at once.
func BenchmarkLockHeld(b *testing.B) {
	const n = 100_000
	list := registered(n)
	reset := func(policy string, budget time.Duration) func(*planner) {
		return func(p *planner) {
			x, err := ParsePolicy(policy)
			if err != nil {
				b.Fatal(err)
			}
			p.reset(x, RuleStrict, budget)
		}
	}
	slot := func(p *planner) {
		p.begin(1001, p.now.Add(time.Minute), time.Minute)
	}
	for _, w := range []struct {
		name, policy string
		do           func(*planner)
	}{
		{"index-piece", "rr", func(p *planner) { p.index.grow(p.order) }}, // what a loop does at a time before a hint, or kin
		{"hint", "rr", func(p *planner) { p.hint(registry.Hint{Touched: []string{"http://example.org/some/1"}}) }},
		{"hint-all", "rr", func(p *planner) { p.hint(registry.Hint{All: true}); slot(p) }},
		{"kin", "hybrid", func(p *planner) { p.related(&p.order[0].Candidate) }},
		{"policy-to-sjf", "rr", reset("sjf:lambda=0.5", time.Hour)},
		{"policy-to-hybrid", "rr", reset("hybrid", time.Hour)},
		{"policy-from-hybrid", "hybrid", reset("rr", time.Hour)},
		{"budget", "rr", reset("rr", time.Minute)},
		{"keep-all", "rr", func(p *planner) { p.keep(list) }},
		{"keep-none", "rr", func(p *planner) { p.keep(nil) }},
		{"slot-rr", "rr", slot},
		{"slot-hybrid", "hybrid", slot},
		{"slot-sqrt", "sqrt", slot},
		{"explain-hybrid", "hybrid", func(p *planner) { slot(p); p.inputs(p.order[7]); p.order[7].in.place(p.order[7]) }},
		{"explain-sqrt", "sqrt", func(p *planner) { slot(p); p.inputs(p.order[7]); p.order[7].in.place(p.order[7]) }},
		{"clock-set-back", "rr", func(p *planner) { p.advance(p.now.Add(-time.Hour)) }},
		{"put-all", "rr", func(p *planner) {
			for _, e := range list {
				p.put(e.Query, e.Stats)
			}
		}},
	} {
		b.Run(w.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			least := time.Duration(0)
			for range b.N {
				p := planned(b, w.policy, list)
				runtime.GC()
				begin := processor(b)
				w.do(p)
				if took := processor(b) - begin; least == 0 || took < least {
					least = took
				}
			}
			b.ReportMetric(float64(least.Microseconds())/1000, "held-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
