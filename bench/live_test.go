package bench

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/bench/trace/tracetest"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A ticking endpoint gives the trace's answer for the slot and takes the trace's time, by the
// clock of the bubble.
type ticking struct {
	t       testing.TB
	w       *Simulator
	slot    int
	timeout time.Duration
	ran     [][]int
	cuts    [][2]int
}

func (x *ticking) Health() registry.Health { return registry.Health{} }

func (x *ticking) result(q, slot int) *diff.Result {
	var rows []string
	if i := x.w.series[q]; i >= 0 {
		s := &x.w.t.Series[i]
		for _, r := range s.Versions[s.At(slot)].Rows {
			rows = append(rows, strconv.FormatInt(r, 10))
		}
	}
	return schedulertest.Rows(x.t, rows...)
}

func (x *ticking) Execute(_ context.Context, q *registry.Query, _ scheduler.Memory, limit time.Duration) scheduler.Answer {
	i, err := strconv.Atoi(q.ID)
	if err != nil {
		x.t.Error(err)
	}
	takes := milliseconds(x.w.t.Times[x.slot][i])
	if takes > limit {
		time.Sleep(limit)
		if limit != x.timeout {
			x.cuts = append(x.cuts, [2]int{x.slot, i})
		}
		return scheduler.Answer{Outcome: registry.Cut, Elapsed: limit}
	}
	time.Sleep(takes)
	x.ran[x.slot-1] = append(x.ran[x.slot-1], i)
	return scheduler.Answer{Outcome: registry.Changed, Result: x.result(i, x.slot), Elapsed: takes}
}

// baseline registers all queries with their first results, as of slot 0.
func (x *ticking) baseline(l *schedulertest.Memory) {
	var b scheduler.Batch
	for i, q := range x.w.queries {
		q.Endpoint, q.Form, q.Limit = "e", diff.Select, -1
		q.Holders = []registry.Holder{{Caller: registry.Anonymous}}
		if err := l.Register(q); err != nil {
			x.t.Fatal(err)
		}
		r := x.result(i, 0)
		takes := milliseconds(x.w.t.Times[0][i])
		b.Outcomes = append(b.Outcomes, scheduler.Outcome{
			Query: q.ID, Result: r, Delta: diff.Compare(nil, r), At: time.Now(), Checked: time.Now(),
			Stats: policy.Stats{Executions: 1, Samples: []policy.Sample{{Elapsed: takes}}, Hash: r.Hash(), Rows: r.Len()},
		})
	}
	if _, err := l.Record("e", b); err != nil {
		x.t.Fatal(err)
	}
}

// The daemon's own loop makes the same choices as the simulation over an endpoint that follows
// a trace, slot by slot and in the same order.
func TestLongLiveLoopAgrees(t *testing.T) {
	tr, err := trace.Generate(t.Context(), tracetest.Small(60, 60), 3)
	if err != nil {
		t.Fatal(err)
	}
	w := NewSimulator(tr)
	policies := []string{"cr:lambda=0.5", "ttl:max=8:reset", "ttl:max=16:half", "hybrid:d=8"}
	for _, d := range scheduler.Policies() { // each with its defaults
		if !d.Simulated {
			policies = append(policies, d.Name)
		}
	}
	borrowers := []string{"rr", "dj", "ttl:max=8:reset", "hybrid:d=8"}
	for i, policy := range append(policies, borrowers...) {
		rule, timeout := plan.RuleStrict, 24*time.Hour
		if i >= len(policies) {
			rule, timeout = plan.RuleDebt, 5*time.Second
		}
		for _, budget := range []time.Duration{4 * time.Second, 40 * time.Second} {
			t.Run(fmt.Sprint(policy, "/", rule, "/", budget), func(t *testing.T) {
				want, err := w.Run(t.Context(), Setup{Policy: policy, Budget: budget, Rule: rule, Timeout: timeout, Schedule: true, Ring: true})
				if err != nil {
					t.Fatal(err)
				}
				if rule == plan.RuleDebt && budget == 4*time.Second && (want.MaxDebt == 0 || want.MaxDebt > 5) {
					t.Errorf("at most %g s are owed", want.MaxDebt)
				}
				bubble.Test(t, func(t *testing.T) {
					x := &ticking{t: t, w: w, timeout: timeout, ran: make([][]int, tr.Revisions), cuts: [][2]int{}}
					for i := range x.ran {
						x.ran[i] = []int{}
					}
					x.play(t, registry.Endpoint{Policy: policy, Budget: registry.Duration(budget), Rule: rule, Timeout: registry.Duration(timeout)})
					if d := cmp.Diff(want.Slots, x.ran); d != "" {
						t.Errorf("slots -simulated +live:\n%s", d)
					}
					if d := cmp.Diff(want.Cuts, x.cuts); d != "" {
						t.Errorf("cuts -simulated +live:\n%s", d)
					}
				})
			})
		}
	}
}

func (x *ticking) play(t *testing.T, e registry.Endpoint) {
	e.Name, e.URL, e.Slot = "e", "http://127.0.0.1/sparql", scheduler.Never
	var ledger schedulertest.Memory
	x.baseline(&ledger)
	loop, err := scheduler.NewLoop(scheduler.Config{
		Endpoint: e, Ledger: &ledger, Executor: x,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- loop.Run(ctx) }()
	for slot := 1; slot <= x.w.t.Revisions; slot++ {
		x.slot = slot
		if s, err := loop.Tick(ctx); err != nil || s.Number != uint64(slot) {
			t.Fatalf("tick %d: slot %d, %v", slot, s.Number, err)
		}
	}
	cancel()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
}
