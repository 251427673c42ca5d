package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/shadow"
)

// A timed executor asks the real endpoint and reports the times of a trace. It is also
// the clock of the loop and advances by these times, so that a slow machine does not
// use up budgets.
type timed struct {
	scheduler.Executor
	now   atomic.Int64
	times [][]int32
	slot  int
	ran   [][]int
}

func (x *timed) Now() time.Time { return time.Unix(0, x.now.Load()) }

// Sleep waits for ctx only, because the test starts the slots.
func (x *timed) Sleep(ctx context.Context, _ time.Time) error {
	<-ctx.Done()
	return ctx.Err()
}

func (x *timed) Execute(ctx context.Context, q *registry.Query, m scheduler.Memory, limit time.Duration) scheduler.Answer {
	i, err := strconv.Atoi(q.ID)
	if err != nil {
		return scheduler.Answer{Outcome: registry.Failed, Error: err.Error()}
	}
	takes := time.Duration(x.times[x.slot][i]) * time.Millisecond
	defer func() { x.now.Add(int64(min(takes, limit))) }()
	if takes > limit {
		return scheduler.Answer{Outcome: registry.Cut, Elapsed: limit}
	}
	a := x.Executor.Execute(ctx, q, m, time.Minute)
	a.Elapsed = takes
	if a.Outcome.Complete() && x.slot > 0 {
		x.ran[x.slot-1] = append(x.ran[x.slot-1], i)
	}
	return a
}

// The loop of the server over an embedded endpoint and the simulation on the trace
// recorded from it choose the same queries in each slot, given the same execution
// times.
func TestLongBenchLiveAgrees(t *testing.T) {
	clitest.NeedEngine(t)
	args := writeHistory(t, 16)
	path := filepath.Join(t.TempDir(), "t.trace")
	if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", path}, args...)...); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	tr := loadVersions(t, path)
	setTimes(tr, func(i, q int) int32 { return int32(100*(q+1) + 7*((i*(q+3))%5)) }) // far apart, so that budgets bind
	policies := []string{"ttl:max=4:reset", "hybrid:d=4"}
	for _, d := range scheduler.Policies() { // each as it is by default
		if !d.Simulated {
			policies = append(policies, d.Name)
		}
	}
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			const budget = 350 * time.Millisecond
			want, err := bench.NewSimulator(tr).Run(t.Context(), bench.Setup{Policy: policy, Budget: budget, Rule: plan.RuleStrict,
				Schedule: true, Ring: true})
			if err != nil {
				t.Fatal(err)
			}
			got, _ := playLive(t, args, tr, policy, budget)
			if d := cmp.Diff(want.Slots, got); d != "" {
				t.Errorf("slots -simulated +live:\n%s", d)
			}
		})
	}
}

// setTimes replaces the measured times of a trace. Revisions with equal times share a row
// of them, so it makes new rows: else what was measured would decide what the times are.
func setTimes(tr *trace.Trace, ms func(rev, query int) int32) {
	for i := range tr.Times {
		tr.Times[i] = make([]int32, tr.Queries)
		for q := range tr.Times[i] {
			tr.Times[i][q] = ms(i, q)
		}
	}
}

func playLive(t *testing.T, args []string, tr *trace.Trace, spelling string, budget time.Duration) (ran [][]int, left []policy.Entry) {
	h := recordingSource{changesets: args[1], base: args[3], queries: args[5], timeout: time.Minute}
	queries, steps, err := h.open(t.Context(), &cli.Env{Stderr: t.Output()})
	defer h.close()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := h.client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x := &timed{Executor: c, times: tr.Times, ran: make([][]int, len(steps))}
	x.now.Store(time.Now().UnixNano())
	ledger := &schedulertest.Memory{}
	var b scheduler.Batch
	for i, q := range queries {
		q.ID, q.Endpoint, q.Holders = fmt.Sprintf("%010d", i), replayEndpoint, []registry.Holder{{Caller: registry.Anonymous}}
		if err := ledger.Register(q); err != nil {
			t.Fatal(err)
		}
		a := x.Execute(t.Context(), &q, scheduler.Memory{}, time.Minute)
		if a.Result == nil {
			t.Fatalf("%s at t0: %+v", q.Text, a)
		}
		b.Outcomes = append(b.Outcomes, scheduler.Outcome{
			Query: q.ID, Result: a.Result, Delta: diff.Compare(nil, a.Result), At: time.Now(), Checked: time.Now(),
			Stats: policy.Stats{Executions: 1, Samples: []policy.Sample{{Elapsed: a.Elapsed}}, Hash: a.Result.Hash(), Rows: a.Result.Len(),
				Memory: a.Memory},
		})
	}
	if _, err := ledger.Record(replayEndpoint, b); err != nil {
		t.Fatal(err)
	}
	loop, err := scheduler.NewLoop(scheduler.Config{Ledger: ledger, Clock: x, Executor: x, Endpoint: registry.Endpoint{
		Name: replayEndpoint, URL: h.url, Slot: scheduler.Never, Budget: registry.Duration(budget), Policy: spelling,
		Timeout: registry.Duration(time.Hour),
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- loop.Run(ctx) }()
	for i, s := range steps {
		if s.Apply != nil {
			if err := s.Apply(ctx); err != nil {
				t.Fatal(err)
			}
		}
		x.slot, x.ran[i] = i+1, []int{}
		if _, err := loop.Tick(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	news, err := ledger.Since(replayEndpoint, 0)
	if err != nil {
		t.Fatal(err)
	}
	return x.ran, news.Entries
}

// If a policy has found every change at once, the estimates of others under a tight budget
// are what the loop does under them over the same data and times: executions, changes found
// and missed, and delay.
func TestLongShadowsForetellScarcity(t *testing.T) {
	clitest.NeedEngine(t)
	const tight, ample = 1200 * time.Millisecond, time.Minute
	args := clitest.NewHistory(11, 40).Write(t)
	path := filepath.Join(t.TempDir(), "t.trace")
	if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", path}, args...)...); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	tr := loadVersions(t, path)
	setTimes(tr, func(i, q int) int32 { return int32(100 + 50*q + 7*(i*(q+3)%5)) })
	w := bench.NewSimulator(tr)
	really := func(policy string, budget time.Duration) (bench.Row, []policy.Entry) {
		row, err := w.Run(t.Context(), bench.Setup{Policy: policy, Budget: budget, Rule: plan.RuleStrict, Schedule: true, Ring: true})
		if err != nil {
			t.Fatal(err)
		}
		ran, left := playLive(t, args, tr, policy, budget)
		if d := cmp.Diff(row.Slots, ran); d != "" {
			t.Fatalf("%s: what is measured is not what ran, -measured +ran:\n%s", policy, d)
		}
		return row, left
	}
	_, left := really("rr", ample)
	for _, policy := range []string{"rr", "cr:lambda=0", "dj", "ttl:max=4:reset", "hybrid:d=8"} {
		p, err := scheduler.ParsePolicy(policy)
		if err != nil {
			t.Fatal(err)
		}
		e, err := shadow.Play(t.Context(), shadow.Config{Policy: p, Budget: tight, Entries: left})
		if err != nil {
			t.Fatal(err)
		}
		row, _ := really(policy, tight)
		for _, x := range []struct {
			what string
			is   float64
			e    shadow.Range
		}{
			{"executions", float64(row.Total), e.Total}, {"found", float64(row.Relevant), e.Relevant}, {"missed", float64(row.AbsMiss), e.Missed},
			{"delay", float64(row.AbsDelayDetected) / float64(max(1, row.Relevant)), e.Delay},
		} {
			clitest.Within(t, policy+" "+x.what, x.is, x.e, 1e-9)
			if x.e.High-x.e.Low > 1e-9 {
				t.Errorf("%s %s: nothing is left open, but the estimate is %+v", policy, x.what, x.e)
			}
		}
		t.Logf("%s: %+v", policy, e)
	}
}
