package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// invariant are the policies whose keys do not change from slot to slot, with
// their formulas as they stand, the smallest first.
var invariant = []struct {
	policy  string
	formula func(c *plainQuery, i uint64) float64
}{
	{"rr", func(c *plainQuery, i uint64) float64 { return float64(c.last) }},
	{"sjf:lambda=0.5", func(c *plainQuery, i uint64) float64 { return math.Exp(-0.5*float64(i-c.last)) * c.median }},
	{"ljf:lambda=0.5", func(c *plainQuery, i uint64) float64 { return math.Exp(-0.5*float64(i-c.last)) / c.median }},
	{"cr:lambda=0.5", func(c *plainQuery, i uint64) float64 { return -c.sum * math.Exp(-0.5*float64(i-c.last)) }},
	{"dj", func(c *plainQuery, i uint64) float64 { return -c.sum * math.Exp(-float64(i-c.last)) }},
	{"ttl:max=32:reset", func(c *plainQuery, i uint64) float64 { return float64(c.last + 32) }},
}

type plainQuery struct {
	id          int
	last        uint64
	median, sum float64
	rank        float64
}

// throng makes a planner with many ranked queries.
func throng(p Policy, n int) *planner {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	plan := newPlanner(p, time.Hour)
	for i := range n {
		var s Stats
		s.Last, s.Executions, s.Policy = uint64(1+r.IntN(900)), 2, p.String()
		s.sample(Sample{Elapsed: time.Duration(1+r.IntN(1e9)) * time.Microsecond})
		s.State = p.Fold(nil, 0, Sample{Slot: s.Last, Changed: r.IntN(2) == 0, Jaccard: r.Float64()})
		plan.put(query(fmt.Sprintf("q%07d", i)), s)
	}
	return plan
}

// BenchmarkRank compares a slot of a thousand executions under the planner with
// one in which all ranks are computed from the formula and sorted: "ratio" is
// how many times dearer the quickest of the latter is than a typical one of the
// former, "bytes/query" what a query takes of memory in
// the planner, its text and results aside.
func BenchmarkRank(b *testing.B) {
	const executed = 1000
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		for _, x := range invariant {
			b.Run(fmt.Sprintf("policy=%s/queries=%d", x.policy, n), func(b *testing.B) {
				p, err := ParsePolicy(x.policy)
				if err != nil {
					b.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				plan := throng(p, n)
				runtime.GC()
				runtime.ReadMemStats(&after)
				naive := recompute(n, executed, x.formula)
				slot := uint64(1000)
				play(plan, slot, executed) // a ttl may have all of them due
				var slots []time.Duration
				for b.Loop() {
					slot++
					begin := time.Now()
					play(plan, slot, executed)
					slots = append(slots, time.Since(begin))
				}
				slices.Sort(slots)
				typical := slots[len(slots)/2]
				b.ReportMetric(float64(naive)/float64(typical), "ratio")
				b.ReportMetric(float64(typical)/executed, "ns/execution")
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "bytes/query")
				runtime.KeepAlive(plan)
			})
		}
	}
}

// BenchmarkRankAll is the same for policies that see all queries in each slot.
func BenchmarkRankAll(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		for _, spelling := range []string{"hybrid", "sqrt"} {
			b.Run(fmt.Sprintf("policy=%s/queries=%d", spelling, n), func(b *testing.B) {
				p, err := ParsePolicy(spelling)
				if err != nil {
					b.Fatal(err)
				}
				plan := throng(p, n)
				plan.budget = time.Duration(n) * 10 * time.Second
				slot := uint64(1000)
				for b.Loop() {
					play(plan, slot, 1000)
					slot++
				}
			})
		}
	}
}

// play is a slot in which the first so many are executed.
func play(p *planner, slot uint64, executed int) {
	p.begin(slot, time.Time{}, 0)
	for i := 0; i < executed && p.ranked.len() > 0; i++ {
		c := p.ranked.first()
		p.pick(c)
		s := &c.Stats
		c.remember(p.policy.Fold(s.State, s.Last, Sample{Slot: slot, Elapsed: c.Median}))
		s.Last = slot
		s.Executions++
	}
	p.end(time.Time{})
}

// recompute is how long one slot takes that ranks everything by the formula, the
// quickest of several.
func recompute(n, executed int, formula func(*plainQuery, uint64) float64) time.Duration {
	r := rand.New(rand.NewPCG(2, uint64(n)))
	all := make([]plainQuery, n)
	for i := range all {
		all[i] = plainQuery{id: i, last: uint64(1 + r.IntN(900)), median: 1 + r.Float64()*1e9, sum: r.Float64()*2 - 1}
	}
	var slots []time.Duration
	for slot := uint64(1000); slot < 1005; slot++ {
		start := time.Now()
		for i := range all {
			all[i].rank = formula(&all[i], slot)
		}
		ranked := slices.Clone(all) // the queries come as they are kept, not as they were ranked last
		slices.SortFunc(ranked, func(a, b plainQuery) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.last, b.last), cmp.Compare(a.id, b.id))
		})
		for i := range executed {
			all[ranked[i].id].last = slot
		}
		slots = append(slots, time.Since(start))
	}
	return slices.Min(slots)
}
