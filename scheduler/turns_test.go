package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// TestAllAtOnce concurrently registers, edits and removes queries, edits the endpoint
// and its executor, sends hints, explains and runs slots, with more queries than one
// piece of work holds. The plan afterwards equals that of the same calls in sequence.
func TestAllAtOnce(t *testing.T) {
	const many = 300
	for seed := range uint64(1) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e := endpoint("@every 5s", 2*time.Second, "hybrid")
				w := newWorld(t, e, same(t, 5*time.Millisecond))
				for i := range many {
					w.register(fmt.Sprintf("first%03d", i), about(fmt.Sprintf("http://example.org/%d", i%50)))
				}
				w.run()
				var callers sync.WaitGroup
				calls := func(n uint64, call func(r *rand.Rand, i int)) {
					r := rand.New(rand.NewPCG(seed, n))
					callers.Go(func() {
						for i := range 40 {
							time.Sleep(time.Duration(r.IntN(4)) * time.Second)
							call(r, i)
						}
					})
				}
				any := func(r *rand.Rand) string { return fmt.Sprintf("q_first%03d", 100+r.IntN(many-100)) }
				calls(1, func(r *rand.Rand, i int) {
					e := e
					e.Policy = []string{"rr", "hybrid", "sqrt", "mrsf", "wic"}[r.IntN(5)]
					e.Budget = registry.Duration(time.Duration(1+r.IntN(3)) * time.Second)
					if err := w.loop.Reconfigure(e); err != nil {
						t.Error(err)
					}
				})
				calls(2, func(r *rand.Rand, i int) {
					if i%20 == 0 {
						for k := range many {
							w.register(fmt.Sprintf("later%d-%03d", i, k))
						}
						return
					}
					if err := w.ledger.Remove(fmt.Sprintf("q_first%03d", i)); err != nil {
						t.Error(err)
					}
				})
				calls(3, func(r *rand.Rand, i int) {
					if _, err := w.loop.Hint(touched(fmt.Sprintf("http://example.org/%d", r.IntN(50)))); err != nil {
						t.Error(err)
					}
				})
				for n := range uint64(2) {
					calls(4+n, func(r *rand.Rand, i int) {
						if x, err := w.loop.Explain(any(r)); err != nil || x.Why == "" {
							t.Errorf("explained as %+v, %v", x, err)
						}
						if _, err := w.loop.Due([]string{any(r), any(r)}); err != nil {
							t.Error(err)
						}
						w.loop.State()
					})
				}
				callers.Wait()
				time.Sleep(30 * time.Second)
				synctest.Wait()
				if err := w.loop.Reconfigure(e); err != nil {
					t.Error(err)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				news, err := w.ledger.Since(city, 0)
				if err != nil {
					t.Fatal(err)
				}
				w.loop.Explain(news.Entries[0].Query.ID) // takes in the last
				if s := w.loop.State(); s.Queries != len(news.Entries) {
					t.Errorf("the plan has %d queries, the ledger %d", s.Queries, len(news.Entries))
				}
				for _, x := range news.Entries {
					if x.Stats.Executions == 0 {
						t.Errorf("%s has never run", x.Query.ID)
					}
				}
				for _, s := range w.slots() {
					if s.Used > s.Budget+1e-9 {
						t.Errorf("slot %d uses %gs of %gs", s.Number, s.Used, s.Budget)
					}
				}
				w.stop()
			})
		})
	}
}
