package plan

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// invariant lists the policies whose keys do not change from slot to slot, with their
// formulas; the smallest value goes first.
var invariant = []struct {
	policy  string
	formula func(c *item, i uint64) float64
}{
	{"rr", func(c *item, i uint64) float64 { return float64(c.Stats.Last) }},
	{"sjf:lambda=0.5", func(c *item, i uint64) float64 { return math.Exp(-0.5*age(c, i)) * c.Median.Seconds() }},
	{"ljf:lambda=0.5", func(c *item, i uint64) float64 { return math.Exp(-0.5*age(c, i)) / c.Median.Seconds() }},
	{"cr:lambda=0.5", func(c *item, i uint64) float64 { return -number(c) * math.Exp(-0.5*age(c, i)) }},
	{"dj", func(c *item, i uint64) float64 { return -math.Exp(number(c) - float64(i)) }}, // the state is a logarithm
	{"ttl:max=32:reset", func(c *item, i uint64) float64 { return float64(c.Stats.Last) + number(c) }},
}

func age(c *item, i uint64) float64 { return float64(i - c.Stats.Last) }

// number returns the first number of a query's policy state.
func number(c *item) float64 {
	if len(c.Stats.State) == 0 {
		return 0
	}
	return c.Stats.State[0]
}

// steadily is a world in which every query always takes the same time, and a third of
// the executions finds a change.
type steadily struct{}

func (steadily) Execute(query int, slot, _ uint64) Known {
	noise := uint64(query+1) * 0x9e3779b97f4a7c15 >> 20
	k := Known{Outcome: registry.Unchanged, Elapsed: time.Duration(1+noise%1e9) * time.Microsecond}
	if (noise+slot)%3 == 0 {
		k.Outcome, k.Jaccard = registry.Changed, 0.5
	}
	return k
}

func (steadily) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// throng returns a replay with many ranked queries that have run before.
func throng(tb testing.TB, p policy.Policy, n int) *Replay {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	queries := make([]registry.Query, n)
	for i := range n {
		queries[i] = query(fmt.Sprintf("q%07d", i))
	}
	play, err := NewReplay(ReplayConfig{Policy: p, Rule: RuleStrict, Budget: math.MaxInt64 / 4, Queries: queries, World: steadily{},
		Ring: true})
	if err != nil {
		tb.Fatal(err)
	}
	for _, c := range play.all {
		play.p.lift(c)
		last := uint64(1 + r.IntN(900))
		c.SetState(p.Fold(c.Stats.State, 0, policy.Sample{Slot: last, Elapsed: c.Median, Changed: r.IntN(2) == 0, Jaccard: r.Float64()}))
		c.Stats.Last, c.Stats.Executions = last, 2
		c.Query.Holders = slices.Clone(c.Query.Holders) // in a replay all share theirs
		play.p.settle(c)
	}
	play.c.Queries = nil // the planner has its own
	return play
}

// BenchmarkRank compares a slot of a thousand executions with one that computes all
// ranks from the formula and sorts. The former does everything that a slot does except
// the requests. The latter only ranks the same queries. Both are measured in processor
// time. "ratio" is the time of the quickest of the latter, divided by that of a
// typical one of the former. "bytes/query" is the planner's memory for a query without
// its text and results.
func BenchmarkRank(b *testing.B) {
	const executed = 1000
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		for _, x := range invariant {
			b.Run(fmt.Sprintf("policy=%s/queries=%d", x.policy, n), func(b *testing.B) {
				p, err := parse(x.policy)
				if err != nil {
					b.Fatal(err)
				}
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				plan := throng(b, p, n)
				runtime.GC()
				runtime.ReadMemStats(&after)
				naive := recompute(b, plan, x.formula)
				slot := uint64(1000)
				plan.first(slot, executed) // a ttl may have all of them due
				var slots []time.Duration
				for b.Loop() {
					slot++
					begin := processor(b)
					plan.first(slot, executed)
					slots = append(slots, processor(b)-begin)
				}
				slices.Sort(slots)
				typical := slots[len(slots)/2]
				b.ReportMetric(float64(naive)/float64(typical), "ratio")
				b.ReportMetric(float64(typical)/executed, "ns/execution")
				b.ReportMetric(float64(naive.Milliseconds()), "naive-ms")
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "bytes/query")
				runtime.KeepAlive(plan)
			})
		}
	}
}

// BenchmarkRankAll is BenchmarkRank for policies that see all queries in each slot.
func BenchmarkRankAll(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		for _, spelling := range []string{"hybrid", "sqrt"} {
			b.Run(fmt.Sprintf("policy=%s/queries=%d", spelling, n), func(b *testing.B) {
				p, err := parse(spelling)
				if err != nil {
					b.Fatal(err)
				}
				plan := throng(b, p, n)
				plan.p.budget = time.Duration(n) * 10 * time.Second
				slot := uint64(1000)
				for b.Loop() {
					plan.first(slot, 1000)
					slot++
				}
			})
		}
	}
}

// first plays a slot with at most this number of executions.
func (r *Replay) first(slot uint64, executed int) {
	r.slot = slot
	now := r.now()
	r.p.begin(slot, now, 0)
	budget := newSlotBudget(r.p, 1, boundless, 0)
	for range executed {
		x := budget.Next(now)
		if x == nil {
			break
		}
		c := x.c
		k := r.c.World.Execute(int(c.number), slot, c.Stats.Last)
		budget.Finish(x, registry.Answer{Outcome: k.Outcome, Elapsed: k.Elapsed}, false)
		r.record(budget, x, k, false)
	}
	r.p.end(now)
}

// processor returns the processor time of this thread, which other work on the machine
// affects less than wall time.
func processor(tb testing.TB) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// recompute returns the least time, over several slots, to rank all of the planner's
// queries by the formula.
func recompute(b *testing.B, r *Replay, formula func(*item, uint64) float64) time.Duration {
	type ranked struct {
		rank float64
		c    *item
	}
	var slots []time.Duration
	for slot := uint64(1000); slot < 1005; slot++ {
		start := processor(b)
		list := make([]ranked, len(r.all))
		for i, c := range r.all {
			list[i] = ranked{formula(c, slot), c}
		}
		slices.SortFunc(list, func(a, b ranked) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.c.Stats.Last, b.c.Stats.Last), cmp.Compare(a.c.Query.ID, b.c.Query.ID))
		})
		slots = append(slots, processor(b)-start)
	}
	return slices.Min(slots)
}
