package scheduler

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

func rows(t testing.TB, values ...string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	if err := b.SetVars([]string{"s"}); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if err := b.Row(diff.Term{Kind: diff.Literal, Value: v}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var ended = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func seen(slot uint64, a Answer) observation {
	return observation{slot: slot, at: ended, tier: plan.TierRanked, answer: a}
}

func mustNotRead(t *testing.T) func() (*diff.Result, error) {
	return func() (*diff.Result, error) {
		t.Helper()
		t.Error("the last result was read where it is not needed")
		return nil, nil
	}
}

func TestObserveCompletes(t *testing.T) {
	p := named("ttl:max=32")
	ab, abc := rows(t, "a", "b"), rows(t, "a", "b", "c")
	memory := Memory{Body: [2]uint64{1, 2}, ETag: "x"}

	first, err := observe(p, policy.Stats{Failures: 2, NotBefore: 9, Floor: time.Hour, Cuts: 1},
		seen(3, Answer{Outcome: registry.Changed, Result: ab, Memory: memory, Elapsed: time.Second, Age: time.Minute}), mustNotRead(t))
	if err != nil {
		t.Fatal(err)
	}
	s := first.Stats
	if first.Delta == nil || !first.Delta.Baseline || first.Result != ab || !first.Checked.Equal(ended.Add(-time.Minute)) ||
		!first.At.Equal(ended) {
		t.Errorf("baseline: %+v", first)
	}
	want := policy.Stats{
		Last: 3, Executions: 1, Samples: []policy.Sample{{Slot: 3, Elapsed: time.Second}}, Hash: ab.Hash(),
		Fingerprint: ab.Fingerprint(), Rows: 2,
		CheckedAt: first.Checked, ChangedAt: first.Checked, Policy: "ttl:max=32:reset", Memory: memory,
		LastRun: policy.Run{Slot: 3, At: ended, Elapsed: time.Second, Outcome: registry.Changed, Why: plan.TierRanked},
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("a baseline is an execution and no change, and ends back-off and cuts (-want +got):\n%s", d)
	}

	// First tier: the executor has found the bytes equal.
	same, err := observe(p, s, seen(4, Answer{Outcome: registry.Unchanged, Memory: memory, Elapsed: 3 * time.Second}), mustNotRead(t))
	if err != nil || same.Delta != nil || same.Result != nil || same.Stats.Executions != 2 || same.Stats.Changes != 0 ||
		same.Stats.State[0] != 2 ||
		same.Stats.ChangedAt != s.ChangedAt || !same.Stats.CheckedAt.Equal(ended) || same.Stats.Median() != 2*time.Second {
		t.Errorf("unchanged: %+v, %v", same, err)
	}
	// Second tier: the bytes differ, the canonical form is equal.
	other := Memory{Body: [2]uint64{3, 4}}
	hashed, err := observe(p, same.Stats, seen(5, Answer{Outcome: registry.Changed, Result: rows(t, "b", "a"), Memory: other}), mustNotRead(t))
	if err != nil || hashed.Delta != nil || hashed.Stats.LastRun.Outcome != registry.Unchanged ||
		!reflect.DeepEqual(hashed.Stats.Memory, other) || hashed.Stats.State[0] != 4 {
		t.Errorf("the same rows in another order: %+v, %v", hashed, err)
	}
	// Third tier. Jaccard distance of {a,b} and {a,b,c}: 1 − 2/3.
	changed, err := observe(p, hashed.Stats, seen(9, Answer{Outcome: registry.Changed, Result: abc, Memory: other}),
		func() (*diff.Result, error) { return ab, nil })
	if err != nil || changed.Delta == nil || len(changed.Delta.Added) != 1 || changed.Stats.Changes != 1 ||
		changed.Stats.State[0] != 1 || changed.Stats.Hash != abc.Hash() {
		t.Fatalf("changed: %+v, %v", changed, err)
	}
	if x := changed.Stats.Samples[3]; x.Slot != 9 || !x.Changed || x.Jaccard < 0.333 || x.Jaccard > 0.334 {
		t.Errorf("its sample is %+v", x)
	}
	gone := errors.New("disk")
	if _, err := observe(p, hashed.Stats, seen(9, Answer{Outcome: registry.Changed, Result: abc}),
		func() (*diff.Result, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("the ledger's error became %v", err)
	}
}

// The fingerprint recognises the same rows in another order. If it is unknown, as after a
// restart, the hash does.
func TestObserveSameRows(t *testing.T) {
	p := named("ttl:max=32")
	first, err := observe(p, policy.Stats{}, seen(1, Answer{Outcome: registry.Changed, Result: rows(t, "a", "b")}), mustNotRead(t))
	if err != nil || first.Stats.Fingerprint == (diff.Fingerprint{}) {
		t.Fatalf("%+v, %v", first.Stats, err)
	}
	restarted := first.Stats
	restarted.Fingerprint = diff.Fingerprint{}
	unread := first.Stats
	unread.Hash = "not looked at"
	for name, was := range map[string]policy.Stats{"running": first.Stats, "restarted": restarted, "hash": unread} {
		same, err := observe(p, was, seen(2, Answer{Outcome: registry.Changed, Result: rows(t, "b", "a")}), mustNotRead(t))
		if err != nil || same.Delta != nil || same.Stats.LastRun.Outcome != registry.Unchanged ||
			same.Stats.Fingerprint != first.Stats.Fingerprint {
			t.Errorf("%s: %+v, %v", name, same, err)
		}
	}
	for name, was := range map[string]policy.Stats{"running": first.Stats, "restarted": restarted} {
		now := rows(t, "b", "c")
		moved, err := observe(p, was, seen(2, Answer{Outcome: registry.Changed, Result: now}),
			func() (*diff.Result, error) { return rows(t, "a", "b"), nil })
		if err != nil || moved.Delta == nil || moved.Delta.OldHash != was.Hash || moved.Stats.Hash != now.Hash() ||
			moved.Stats.Fingerprint != now.Fingerprint() {
			t.Errorf("%s: %+v, %v", name, moved, err)
		}
	}
}

// A cached answer that is older than the last one contains the previous result: it
// counts as no change, no sample and no check.
func TestObserveOldAnswers(t *testing.T) {
	was, is := rows(t, "a"), rows(t, "b")
	first, err := observe(named("ttl:max=32"), policy.Stats{},
		seen(1, Answer{Outcome: registry.Changed, Result: is, Memory: Memory{ETag: "b"}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		later   time.Duration // than the first
		age     time.Duration
		result  *diff.Result
		changed bool
		checked time.Duration // after the first
	}{
		{"older, another result", time.Minute, 2 * time.Minute, was, false, 0},
		{"older, the same result", time.Minute, 2 * time.Minute, is, false, 0},
		{"newer, as an age in whole seconds may be", time.Minute, time.Minute + 900*time.Millisecond, was, true, 0},
		{"newer, out of a cache", 2 * time.Minute, time.Minute, was, true, time.Minute},
		{"the clock was set back", -time.Hour, 0, was, true, -time.Hour},
		{"set back, and out of a cache", -time.Hour, time.Minute, was, true, -time.Hour - time.Minute},
	} {
		x := seen(2, Answer{Outcome: registry.Changed, Result: c.result, Memory: Memory{ETag: "x"}, Age: c.age})
		x.at = ended.Add(c.later)
		out, err := observe(named("ttl:max=32"), first.Stats, x, func() (*diff.Result, error) { return is, nil })
		if err != nil {
			t.Fatal(err)
		}
		s := out.Stats
		if (out.Delta != nil) != c.changed || !s.CheckedAt.Equal(ended.Add(c.checked)) {
			t.Errorf("%s: delta %v, checked at %s", c.name, out.Delta, s.CheckedAt)
		}
		if taken := s.Executions == 2; taken != c.changed || taken != (len(s.Samples) == 2) || taken == (s.LastRun.Outcome == registry.Outdated) {
			t.Errorf("%s: %+v", c.name, s)
		}
		if got := out.Stats.Memory.ETag; (got == "x") != c.changed {
			t.Errorf("%s: the validator %q is remembered", c.name, got)
		}
	}
}

// A query that the budget cuts reports that, and the remedy. One that the end of the process cuts does not.
func TestObserveCutHasWords(t *testing.T) {
	for _, why := range []string{"", "the time given for it ended first"} {
		x := seen(3, Answer{Outcome: registry.Cut, Elapsed: 2 * time.Second, Error: why})
		x.whole, x.budget = true, 3*time.Second
		got, err := observe(named("rr"), policy.Stats{}, x, nil)
		if err != nil || got.Stats.StateWithin(0) != registry.Failing ||
			got.Stats.LastRun.Error != "cut after 2s by the endpoint's budget of 3s a slot: raise budget, or use rule debt" {
			t.Errorf("%+v, %v", got.Stats.LastRun, err)
		}
		x.whole = false
		got, err = observe(named("rr"), policy.Stats{}, x, nil)
		if err != nil || !strings.Contains(got.Stats.LastRun.Error,
			"its share of the endpoint's budget of 3s a slot: raise budget, or use rule debt, if") {
			t.Errorf("%+v, %v", got.Stats.LastRun, err)
		}
		x.budget = 0
		if got, err = observe(named("rr"), policy.Stats{}, x, nil); err != nil || strings.Contains(got.Stats.LastRun.Error, "budget") ||
			got.Stats.LastRun.Error == "" {
			t.Errorf("the process ends: %+v, %v", got.Stats.LastRun, err)
		}
	}
}

// A request that failed may have failed because of its validators, so the next one has none. What was not answered says nothing.
func TestObserveForgetsValidators(t *testing.T) {
	kept := Memory{Body: [2]uint64{1, 2}, ETag: "x", LastModified: "y", Vars: []string{"s"}}
	first, err := observe(named("rr"), policy.Stats{}, seen(1, Answer{Outcome: registry.Changed, Result: rows(t, "a"), Memory: kept}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for outcome, forgets := range map[registry.Outcome]bool{registry.Failed: true, registry.Partial: true, registry.Rejected: true,
		registry.Timeout: true, registry.Throttled: false, registry.Dropped: false, registry.Cut: false} {
		out, err := observe(named("rr"), first.Stats, seen(2, Answer{Outcome: outcome}), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := kept
		if forgets {
			want.ETag, want.LastModified = "", ""
		}
		if got := out.Stats.Memory; !reflect.DeepEqual(got, want) {
			t.Errorf("after %s, %+v is remembered", outcome, got)
		}
	}
	hangs := seen(2, Answer{Outcome: registry.Cut})
	hangs.whole = true
	if out, err := observe(named("rr"), first.Stats, hangs, nil); err != nil || out.Stats.Memory.ETag != "" {
		t.Errorf("after a whole budget, %+v is remembered, %v", out.Stats.Memory, err)
	}
}

// Only a complete answer changes the result, Last and the policy's state.
func TestObserveIncomplete(t *testing.T) {
	p := named("ttl:max=32")
	base, err := observe(p, policy.Stats{}, seen(1, Answer{Outcome: registry.Changed, Result: rows(t, "a"), Elapsed: 4 * time.Second}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		outcome   registry.Outcome
		before    func(*policy.Stats)
		whole     bool
		elapsed   time.Duration
		failures  uint32
		cuts      uint32
		notBefore uint64
		floor     time.Duration
	}{
		// The n-th failure in slot 100: until slot 100 + 2^(n−1), at most 64.
		{"first failure", registry.Failed, nil, false, 0, 1, 0, 101, 0},
		{"fourth", registry.Partial, func(s *policy.Stats) { s.Failures = 3 }, false, 0, 4, 0, 108, 0},
		{"seventh", registry.Timeout, func(s *policy.Stats) { s.Failures = 6 }, false, 0, 7, 0, 164, 0},
		{"hundredth", registry.Failed, func(s *policy.Stats) { s.Failures = 99 }, false, 0, 100, 0, 164, 0},
		{"rejected", registry.Rejected, nil, false, 0, 1, 0, 108, 0},
		{"rejected for long", registry.Rejected, func(s *policy.Stats) { s.Failures = 20 }, false, 0, 21, 0, 612, 0},
		{"throttled", registry.Throttled, nil, false, 0, 1, 0, 0, 0},
		// A cut execution costs at least the larger of its estimate and its time.
		{"cut early", registry.Cut, nil, false, time.Second, 0, 0, 0, 4 * time.Second},
		{"cut late", registry.Cut, nil, false, 6 * time.Second, 0, 0, 0, 6 * time.Second},
		{"cut again", registry.Cut, func(s *policy.Stats) { s.Floor = 9 * time.Second }, false, 6 * time.Second, 0, 0, 0, 9 * time.Second},
		// The n-th cut with the whole budget: the query skips the next 2^n − 1 slots.
		{"whole budget", registry.Cut, nil, true, 10 * time.Second, 0, 1, 102, 10 * time.Second},
		{"whole budget, third", registry.Cut, func(s *policy.Stats) { s.Cuts = 2 }, true, 10 * time.Second, 0, 3, 108, 10 * time.Second},
		{"whole budget, twentieth", registry.Cut, func(s *policy.Stats) { s.Cuts = 19 }, true, 10 * time.Second, 0, 20, 356, 10 * time.Second},
		{"cut keeps failures", registry.Cut, func(s *policy.Stats) { s.Failures = 2 }, false, time.Second, 2, 0, 0, 4 * time.Second},
		{"nothing in it", registry.Changed, nil, false, 0, 1, 0, 101, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := base.Stats
			if c.before != nil {
				c.before(&s)
			}
			x := seen(100, Answer{Outcome: c.outcome, Elapsed: c.elapsed, Error: "why"})
			x.whole = c.whole
			got, err := observe(p, s, x, mustNotRead(t))
			if err != nil {
				t.Fatal(err)
			}
			if got.Delta != nil || got.Result != nil {
				t.Errorf("it made a change: %+v", got)
			}
			n := got.Stats
			if n.Failures != c.failures || n.Cuts != c.cuts || n.NotBefore != c.notBefore || n.Floor != c.floor {
				t.Errorf("failures %d, cuts %d, not before %d, floor %s", n.Failures, n.Cuts, n.NotBefore, n.Floor)
			}
			if n.LastRun.Slot != 100 || n.LastRun.Error == "" {
				t.Errorf("its run is recorded as %+v", n.LastRun)
			}
			if counts := c.outcome != registry.Cut || c.whole; counts == n.IncompleteSince.IsZero() {
				t.Errorf("it has brought nothing since %s", n.IncompleteSince)
			}
			n.Failures, n.Cuts, n.NotBefore, n.Floor, n.LastRun, n.IncompleteSince = 0, 0, 0, 0, base.Stats.LastRun, time.Time{}
			if d := cmp.Diff(base.Stats, n); d != "" {
				t.Errorf("it left more than that (-want +got):\n%s", d)
			}
		})
	}
}

func TestRefreshIsServed(t *testing.T) {
	for outcome, want := range map[registry.Outcome]uint64{
		registry.Changed: 3, registry.Failed: 3, registry.Timeout: 3, registry.Rejected: 3,
		registry.Cut: 1, registry.Throttled: 1,
	} {
		x := seen(5, Answer{Outcome: outcome, Result: rows(t, "a"), Error: "e"})
		x.served = 3
		got, err := observe(named("rr"), policy.Stats{Served: 1}, x, nil)
		if err != nil || got.Stats.Served != want {
			t.Errorf("%s: %d requests served, want %d (%v)", outcome, got.Stats.Served, want, err)
		}
	}
}

func TestRefoldAfterTheRing(t *testing.T) {
	// The ring has dropped the baseline, so all 63 samples are folded. Without a change
	// among them the ttl is at its maximum.
	s := policy.Stats{Executions: 200}
	for i := range uint64(policy.Ring) {
		s.Samples = append(s.Samples, policy.Sample{Slot: 100 + i})
	}
	s.Refold(named("ttl:max=1048576"))
	if s.State[0] != 1<<20 {
		t.Errorf("ttl %v", s.State)
	}
	// One sample that is the baseline leaves the initial state.
	s = policy.Stats{Executions: 1, Samples: []policy.Sample{{Slot: 9}}}
	s.Refold(named("ttl:max=32"))
	if s.State != nil || s.Policy != "ttl:max=32:reset" {
		t.Errorf("after the baseline alone: %v %q", s.State, s.Policy)
	}
}
