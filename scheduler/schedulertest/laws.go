package schedulertest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// testEmpty checks what a ledger says before anything is recorded.
func testEmpty(t *testing.T, b *bench) {
	n := b.since(alpha, 0)
	if len(n.Entries) != 0 || len(n.Removed) != 0 || n.Last.Number != 0 {
		t.Errorf("an empty ledger has news: %+v", n)
	}
	q := b.register(alpha, "a")
	if r := b.result(q.ID); r != nil {
		t.Errorf("a query that never ran has a result of %d rows", r.Len())
	}
	e := b.entry(alpha, q.ID)
	if e.Stats.Position.Seq != 0 || e.Stats.Executions != 0 || e.Stats.Last != 0 {
		t.Errorf("a query that never ran has statistics: %+v", e.Stats)
	}
}

// testSince checks that news contains the queries of one endpoint that are new since
// a revision.
func testSince(t *testing.T, b *bench) {
	a1, a2, b1 := b.register(alpha, "a1"), b.register(alpha, "a2"), b.register(beta, "b1")
	n := b.since(alpha, 0)
	b.same("queries of alpha", ids(n.Entries), sortedIDs(a1, a2))
	b.same("queries of beta", ids(b.since(beta, 0).Entries), sortedIDs(b1))
	for _, e := range n.Entries {
		if e.Query.ID == a1.ID && (e.Query.Text != a1.Text || e.Query.Endpoint != alpha || len(e.Query.Holders) != 1) {
			t.Errorf("the query comes back as %+v", e.Query)
		}
	}
	later := b.since(alpha, n.Revision)
	if len(later.Entries) != 0 || len(later.Removed) != 0 {
		t.Errorf("nothing happened, yet there is news: %+v", later)
	}
	a3 := b.register(alpha, "a3")
	b.same("what came after", ids(b.since(alpha, later.Revision).Entries), sortedIDs(a3))
	// Statistics are not news: the loop knows what it has recorded itself.
	n = b.since(alpha, 0)
	b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(a1.ID, 1, nil, Rows(t, "x"))}})
	if later := b.since(alpha, n.Revision); len(later.Entries) != 0 {
		t.Errorf("recording an outcome made news of %v", ids(later.Entries))
	}
}

// testEditRemove checks that an edit brings the new settings and a removal the id.
func testEditRemove(t *testing.T, b *bench) {
	q, other := b.register(alpha, "q"), b.register(alpha, "other")
	b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, 1, nil, Rows(t, "x"))}})
	rev := b.since(alpha, 0).Revision
	q.Refreshes++
	if err := b.s.Register(q); err != nil {
		t.Fatal(err)
	}
	n := b.since(alpha, rev)
	b.same("edited", ids(n.Entries), sortedIDs(q))
	if e := n.Entries[0]; e.Query.Refreshes != 1 || e.Stats.Last != 1 || e.Stats.Position.Seq != 1 {
		t.Errorf("an edit must bring the new settings and the last recorded statistics, got %+v", e)
	}
	if err := b.s.Remove(q.ID); err != nil {
		t.Fatal(err)
	}
	after := b.since(alpha, n.Revision)
	b.same("removed", after.Removed, []string{q.ID})
	if len(after.Entries) != 0 {
		t.Errorf("a removed query is still an entry: %v", ids(after.Entries))
	}
	// A reader that missed both edits sees only the final state.
	b.same("removed, seen from before the edit", b.since(alpha, rev).Removed, []string{q.ID})
	b.same("what is left", ids(b.since(alpha, 0).Entries), sortedIDs(other))
}

// testNumbering checks that changes are numbered without gaps within one epoch.
func testNumbering(t *testing.T, b *bench) {
	q := b.register(alpha, "q")
	var was *diff.Result
	var epoch string
	for i := uint64(1); i <= 5; i++ {
		now := Rows(t, fmt.Sprint("v", i))
		c := b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, i, was, now)}})
		if len(c) != 1 {
			t.Fatalf("change %d: Record returned %d changes", i, len(c))
		}
		if i == 1 {
			epoch = c[0].Epoch
		}
		if c[0].Query != q.ID || c[0].Endpoint != alpha || c[0].Prev != i-1 || c[0].Seq != i || c[0].Epoch != epoch || epoch == "" ||
			c[0].Baseline != (i == 1) || c[0].Slot != i || c[0].Delta == nil ||
			!c[0].CheckedAt.Equal(start.Add(time.Duration(i)*time.Minute-time.Second)) {
			t.Errorf("change %d is %+v", i, c[0])
		}
		b.same("position", b.entry(alpha, q.ID).Stats.Position, registry.Position{Epoch: epoch, Seq: i})
		was = now
	}
}

// testUnchanged checks that an unchanged answer is not numbered and keeps the result.
func testUnchanged(t *testing.T, b *bench) {
	q := b.register(alpha, "q")
	first := Rows(t, "x")
	b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, 1, nil, first)}})
	if c := b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, 2, first, nil)}}); len(c) != 0 {
		t.Errorf("an unchanged outcome was numbered: %+v", c)
	}
	e := b.entry(alpha, q.ID)
	if e.Stats.Position.Seq != 1 || e.Stats.Last != 2 {
		t.Errorf("after an unchanged execution: position %v, last %d", e.Stats.Position, e.Stats.Last)
	}
	if r := b.result(q.ID); r == nil || r.Hash() != first.Hash() {
		t.Error("an unchanged execution lost the result")
	}
	c := b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, 3, first, Rows(t, "y"))}})
	if len(c) != 1 || c[0].Prev != 1 || c[0].Seq != 2 {
		t.Errorf("the next change is %+v, want 1 to 2", c)
	}
}

// testResult checks that a result is returned as it was recorded.
func testResult(t *testing.T, b *bench) {
	q := b.register(alpha, "q")
	var was *diff.Result
	for i, rows := range [][]string{{"b", "a", "a"}, {"a"}, {}, {"ü \"\\\n"}} {
		now := Rows(t, rows...)
		b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, uint64(i+1), was, now)}})
		got := b.result(q.ID)
		if got == nil || got.Hash() != now.Hash() || got.Len() != now.Len() {
			t.Fatalf("result %d does not come back as it was recorded", i)
		}
		if d := diff.Compare(got, now); d != nil {
			t.Errorf("result %d differs from what was recorded: %+v", i, d)
		}
		was = got
	}
	if r := b.result("q_missing"); r != nil {
		t.Error("an unknown query has a result")
	}
}

// testStats checks that all statistics are kept, and that the ledger sets the
// position.
func testStats(t *testing.T, b *bench) {
	q := b.register(alpha, "q")
	o := outcome(q.ID, 7, nil, Rows(t, "x"))
	at := start.Add(time.Hour)
	o.Stats = policy.Stats{
		Last: 7, Executions: 90, Changes: 11, Hash: o.Result.Hash(), Rows: 1, CheckedAt: at, ChangedAt: at.Add(-time.Minute),
		LastRun: policy.Run{Slot: 7, At: at, Elapsed: 1500 * time.Millisecond, Outcome: registry.Changed, Error: "e",
			Why: plan.TierNew, How: policy.HowProbe},
		Failures: 3, Cuts: 2, NotBefore: 12, Floor: 3 * time.Second, Policy: "ttl:max=32:reset", State: []float64{4, -0.5}, Served: 9,
		Memory: scheduler.Memory{Body: [2]uint64{1 << 63, 2}, ETag: `"abc"`, LastModified: "Fri, 20 Nov 2026 09:00:00 GMT"},
	}
	for i := range uint64(policy.Ring) {
		o.Stats.Samples = append(o.Stats.Samples, policy.Sample{
			Slot: i + 1, Elapsed: time.Duration(i) * time.Millisecond, Changed: i%2 == 1, Jaccard: float64(i) / 64})
	}
	own := b.entry(alpha, q.ID).Stats.Position.Epoch
	o.Stats.Position = registry.Position{Epoch: own, Seq: 99}
	b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{o}})
	got := b.entry(alpha, q.ID).Stats
	if got.Position.Seq != 1 || got.Position.Epoch != own {
		t.Errorf("the position is %v: it is the ledger's to give", got.Position)
	}
	got.Position = o.Stats.Position
	b.same("statistics", got, o.Stats)
}

// testBatch checks that readers see one Record call as a whole, in the order given.
func testBatch(t *testing.T, b *bench) {
	q1, q2, q3 := b.register(alpha, "q1"), b.register(alpha, "q2"), b.register(alpha, "q3")
	stop, seen := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				seen <- nil
				return
			default:
			}
			n, err := b.l.Since(alpha, 0)
			if err == nil {
				err = whole(n)
			}
			if err != nil {
				seen <- err
				return
			}
		}
	}()
	r := map[string]*diff.Result{}
	for i := uint64(1); i <= 20; i++ {
		next := map[string]*diff.Result{}
		var x scheduler.Batch
		for _, q := range []registry.Query{q2, q1, q3} {
			next[q.ID] = Rows(t, fmt.Sprint(q.ID, i))
			x.Outcomes = append(x.Outcomes, outcome(q.ID, i, r[q.ID], next[q.ID]))
		}
		x.Slot = &scheduler.Slot{Endpoint: alpha, Number: i, Started: start}
		c := b.record(alpha, x)
		if len(c) != 3 || c[0].Query != q2.ID || c[1].Query != q1.ID || c[2].Query != q3.ID {
			t.Errorf("changes are not in the order of the outcomes: %+v", c)
		} else if c[1].Offset != c[0].Offset+1 || c[2].Offset != c[1].Offset+1 {
			t.Errorf("offsets %d, %d, %d do not count up", c[0].Offset, c[1].Offset, c[2].Offset)
		}
		r = next
	}
	close(stop)
	if err := <-seen; err != nil {
		t.Error(err)
	}
}

// whole checks that news shows all of a batch or none of it.
func whole(n scheduler.News) error {
	for _, e := range n.Entries {
		if e.Stats.Last != n.Last.Number || e.Stats.Position.Seq != n.Last.Number {
			return fmt.Errorf("slot %d is seen together with %s at slot %d and %v", n.Last.Number, e.Query.ID, e.Stats.Last, e.Stats.Position)
		}
	}
	return nil
}

// testPassedOver checks that the outcome of a removed query is skipped.
func testPassedOver(t *testing.T, b *bench) {
	gone, stays := b.register(alpha, "gone"), b.register(alpha, "stays")
	if err := b.s.Remove(gone.ID); err != nil {
		t.Fatal(err)
	}
	c := b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{
		outcome(gone.ID, 1, nil, Rows(t, "x")), outcome(stays.ID, 1, nil, Rows(t, "y")),
	}})
	if len(c) != 1 || c[0].Query != stays.ID {
		t.Errorf("want the change of the query that stays only, got %+v", c)
	}
	if r := b.result(gone.ID); r != nil {
		t.Error("a removed query got a result")
	}
	b.same("queries", ids(b.since(alpha, 0).Entries), sortedIDs(stays))
}

// testAgain checks that a query that was removed and registered again starts without
// a history, and that its old positions are no longer valid.
func testAgain(t *testing.T, b *bench) {
	q := b.register(alpha, "q")
	late := outcome(q.ID, 1, nil, Rows(t, "late"))
	late.Stats.Position = b.entry(alpha, q.ID).Stats.Position
	first := b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, 1, nil, Rows(t, "x"))}})
	if err := b.s.Remove(q.ID); err != nil {
		t.Fatal(err)
	}
	b.register(alpha, "q")
	if c := b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{late}}); len(c) != 0 {
		t.Errorf("registered again it got an answer to the one before: %+v", c)
	}
	if e := b.entry(alpha, q.ID); e.Stats.Executions != 0 || e.Stats.Position.Seq != 0 {
		t.Errorf("registered again it has %+v", e.Stats)
	}
	if r := b.result(q.ID); r != nil {
		t.Error("registered again it still has its old result")
	}
	again := b.record(alpha, scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(q.ID, 2, nil, Rows(t, "x"))}})
	if len(again) != 1 || again[0].Seq != 1 || again[0].Epoch == first[0].Epoch {
		t.Errorf("registered again its first change is %+v; it needs another epoch than %q", again, first[0].Epoch)
	}
}

// testSlots checks that news contains the last slot of the endpoint.
func testSlots(t *testing.T, b *bench) {
	b.register(alpha, "q")
	for _, s := range []scheduler.Slot{
		{Endpoint: alpha, Number: 1, Started: start},
		{Endpoint: alpha, Number: 1, Started: start, Finished: start.Add(time.Second), Run: 2},
		{Endpoint: alpha, Number: 2, Started: start.Add(time.Minute), Error: "the endpoint is open"},
	} {
		b.record(alpha, scheduler.Batch{Slot: &s})
		if n := b.since(alpha, 0); n.Last.Number != s.Number || !n.Last.Started.Equal(s.Started) || !n.Last.Finished.Equal(s.Finished) ||
			n.Last.Run != s.Run || n.Last.Error != s.Error {
			t.Errorf("after %+v the last one is %+v", s, n.Last)
		}
	}
	if n := b.since(beta, 0); n.Last.Number != 0 {
		t.Errorf("beta has had no slot, but the last one is %d", n.Last.Number)
	}
}

// testDebt checks that the debt of the last slot is exact to the nanosecond. The debt
// of an unfinished slot includes everything lent to it.
func testDebt(t *testing.T, b *bench) {
	b.register(alpha, "q")
	b.same("debt before any slot", b.since(alpha, 0).Last.Owes(), time.Duration(0))
	for _, c := range []struct {
		slot scheduler.Slot
		owes time.Duration
	}{
		{scheduler.Slot{Number: 1, Debt: 3.200000001, Lent: 26.8}, 30_000_000_001},
		{scheduler.Slot{Number: 1, Debt: 86400.000000007, Used: 10}, 86400_000_000_007},
		{scheduler.Slot{Number: 2, Repaid: 5}, 0},
		{scheduler.Slot{Number: 3, Repaid: 5, Debt: 0.1}, 100 * time.Millisecond},
	} {
		b.record(alpha, scheduler.Batch{Slot: &c.slot})
		if n := b.since(alpha, 0); n.Last.Owes() != c.owes || n.Last.Number != c.slot.Number {
			t.Errorf("after %+v, slot %d owes %s, want %s", c.slot, n.Last.Number, n.Last.Owes(), c.owes)
		}
	}
	b.record(alpha, scheduler.Batch{})
	b.same("debt after a batch without a slot", b.since(alpha, 0).Last.Owes(), 100*time.Millisecond)
	b.same("debt of another endpoint", b.since(beta, 0).Last.Owes(), time.Duration(0))
}

// testTrialRuns checks that what trial runs used is kept until a batch replaces it.
func testTrialRuns(t *testing.T, b *bench) {
	b.register(alpha, "a")
	b.register(beta, "b")
	x := scheduler.Beside{Slot: 3, Seconds: 0.1}
	b.record(alpha, scheduler.Batch{Beside: &x})
	b.same("what trial runs used", b.since(alpha, 0).Beside, x)
	b.record(alpha, scheduler.Batch{Slot: &scheduler.Slot{Number: 3}})
	b.same("what trial runs used before a slot", b.since(alpha, 0).Beside, x)
	b.same("what trial runs of another endpoint used", b.since(beta, 0).Beside, scheduler.Beside{})
	x = scheduler.Beside{Slot: 4}
	b.record(alpha, scheduler.Batch{Beside: &x})
	b.same("what no trial run used", b.since(alpha, 0).Beside, x)
}

// testPolicyState checks that the state of a policy is kept until a batch replaces
// it.
func testPolicyState(t *testing.T, b *bench) {
	b.register(alpha, "a")
	b.register(beta, "b")
	s := scheduler.PolicyState{Policy: "hybrid:d=32", State: []float64{1, -0.25, 1e-300, math.Inf(1), 4e15}}
	b.record(alpha, scheduler.Batch{Policy: &s})
	b.same("policy state", b.since(alpha, 0).Policy, s)
	b.record(alpha, scheduler.Batch{})
	b.same("policy state after a batch without any", b.since(alpha, 0).Policy, s)
	b.same("policy state of another endpoint", b.since(beta, 0).Policy, scheduler.PolicyState{})
	s = scheduler.PolicyState{Policy: "sqrt"}
	b.record(alpha, scheduler.Batch{Policy: &s})
	b.same("a policy state without numbers", b.since(alpha, 0).Policy, s)
}

// testCohorts checks that the states of cohorts are kept until a batch replaces or drops
// them, and that only a first reading returns them.
func testCohorts(t *testing.T, b *bench) {
	b.register(alpha, "a")
	b.register(beta, "b")
	learn := func(key string, n int) cohort.State {
		c := cohort.New("t", true)
		for i := range n {
			c.Asked(cohort.Probe, i+2, 3*i, i, time.Duration(i)*time.Millisecond)
		}
		c.Audits(start, n)
		c.Audited(start, cohort.Probe, n%2 == 0)
		return c.State(key, start)
	}
	x, y, z := learn("x\x00<urn:graph>", 7), learn("y", 8), learn("x\x00<urn:graph>", 20)
	expect := func(what string, want ...cohort.State) {
		got := b.since(alpha, 0).Cohorts
		slices.SortFunc(got, func(a, b cohort.State) int { return strings.Compare(a.Key, b.Key) })
		b.same(what, got, want)
	}
	b.record(alpha, scheduler.Batch{Cohorts: []cohort.State{x, y}})
	expect("cohorts", x, y)
	b.record(alpha, scheduler.Batch{})
	expect("cohorts after a batch without any", x, y)
	b.record(alpha, scheduler.Batch{Cohorts: []cohort.State{z}})
	expect("a replaced cohort", z, y)
	b.record(alpha, scheduler.Batch{DroppedCohorts: []string{"y", "unknown"}})
	expect("a dropped cohort", z)
	b.same("cohorts of another endpoint", len(b.since(beta, 0).Cohorts), 0)
	b.same("cohorts of a later reading", len(b.since(alpha, b.since(alpha, 0).Revision).Cohorts), 0)
}

// testHealth checks that the health is kept until a batch replaces it.
func testHealth(t *testing.T, b *bench) {
	b.register(alpha, "q")
	h := registry.Health{State: registry.HealthThrottled, Since: start, Until: start.Add(time.Hour), Failures: 2, Error: "429", MaxRows: 20}
	b.record(alpha, scheduler.Batch{Health: &h})
	b.same("health", b.since(alpha, 0).Health, h)
	b.record(alpha, scheduler.Batch{Slot: &scheduler.Slot{Endpoint: alpha, Number: 1, Started: start}})
	b.same("health after a batch without any", b.since(alpha, 0).Health, h)
	if got := b.since(beta, 0).Health; got.Failures != 0 {
		t.Errorf("beta has alpha's health: %+v", got)
	}
}

// testConcurrent checks that endpoints record concurrently. Each query's numbering
// and the global offsets have no gap and no repetition.
func testConcurrent(t *testing.T, b *bench) {
	const rounds = 15
	var wg sync.WaitGroup
	var mu sync.Mutex
	var offsets []uint64
	for _, endpoint := range []string{alpha, beta} {
		q := b.register(endpoint, "q")
		steps := make([]scheduler.Outcome, rounds)
		var was *diff.Result
		for i := range steps {
			now := Rows(t, fmt.Sprint(i))
			steps[i] = outcome(q.ID, uint64(i+1), was, now)
			was = now
		}
		wg.Go(func() {
			for i, o := range steps {
				c, err := b.l.Record(endpoint, scheduler.Batch{Outcomes: []scheduler.Outcome{o}})
				if err != nil || len(c) != 1 || c[0].Seq != uint64(i+1) {
					t.Errorf("%s, change %d: %+v, %v", endpoint, i+1, c, err)
					return
				}
				mu.Lock()
				offsets = append(offsets, c[0].Offset)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(offsets)
	for i := 1; i < len(offsets); i++ {
		if offsets[i] != offsets[i-1]+1 {
			t.Fatalf("offsets have a hole or a repetition: %v", offsets)
		}
	}
}
