package hybrid_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/hybrid"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// processor is the processor time that this thread has used.
func processor(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkSlot measures a slot of hybrid in the simulator with rare changes. In
// one case 2 % of the queries run in a slot and meet their deadlines; in the other
// all queries are overdue throughout.
func BenchmarkSlot(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		for _, state := range []struct {
			name   string
			policy string
			budget time.Duration
		}{
			{"met", "hybrid:d=256", time.Duration(n) * time.Millisecond},
			{"overdue", "hybrid:d=1", time.Duration(n) * time.Millisecond / 100},
		} {
			b.Run(fmt.Sprintf("deadlines=%s/queries=%d", state.name, n), func(b *testing.B) {
				runtime.LockOSThread() // for processor
				defer runtime.UnlockOSThread()
				p, err := policy.Parse([]policy.Definition{hybrid.Definition()}, state.policy)
				if err != nil {
					b.Fatal(err)
				}
				w := steady{seed: 1}
				var queries []registry.Query
				for i := range n {
					w.costs = append(w.costs, time.Duration(10+i%90)*time.Millisecond)
					w.rates = append(w.rates, []float64{0, 0.5, 0.02}[max(0, i%100-97)])
					queries = append(queries, registry.Query{ID: fmt.Sprintf("q%07d", i)})
				}
				r, err := plan.NewReplay(plan.ReplayConfig{Policy: p, Rule: plan.RuleStrict, Budget: state.budget, Queries: queries, World: w,
					Ring: true})
				if err != nil {
					b.Fatal(err)
				}
				for range 60 {
					r.Slot(func(plan.Played) {})
				}
				executed := 0
				var slots []time.Duration
				for b.Loop() {
					begin := processor(b)
					r.Slot(func(plan.Played) { executed++ })
					slots = append(slots, processor(b)-begin)
				}
				slices.Sort(slots)
				b.ReportMetric(float64(slots[len(slots)/2].Microseconds())/1000, "cpu-ms/slot")
				b.ReportMetric(float64(executed)/float64(len(slots)), "executions")
			})
		}
	}
}
