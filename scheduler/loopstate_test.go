package scheduler

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

func TestStateOf(t *testing.T) {
	at, late := ended, ended.Add(time.Hour)
	run := func(o registry.Outcome) policy.Run { return policy.Run{Slot: 3, At: at, Outcome: o, Error: "why"} }
	holder := func(from, until *time.Time) registry.Query {
		return registry.Query{Holders: []registry.Holder{{Caller: "a", From: from, Until: until, MaxStaleness: registry.Duration(time.Minute)}}}
	}
	always := holder(nil, nil)
	paused := always
	paused.Pause = &registry.Pause{By: "ops"}
	for _, c := range []struct {
		name  string
		query registry.Query
		stats policy.Stats
		want  registry.State
	}{
		{"not tried", always, policy.Stats{}, registry.New},
		{"answered only that it is to wait", always, policy.Stats{Failures: 1, IncompleteSince: at, LastRun: run(registry.Throttled)},
			registry.Failing},
		{"cut short of the budget", always, policy.Stats{Floor: time.Second, LastRun: run(registry.Cut)}, registry.New},
		{"refused", always, policy.Stats{Failures: 1, NotBefore: 9, IncompleteSince: at, LastRun: run(registry.Rejected)}, registry.Failing},
		{"failed", always, policy.Stats{Failures: 1, IncompleteSince: at, LastRun: run(registry.Failed)}, registry.Failing},
		{"failed, then asked to wait", always, policy.Stats{Failures: 2, IncompleteSince: at, LastRun: run(registry.Throttled)},
			registry.Failing},
		{"the budget is too small", always, policy.Stats{Cuts: 1, IncompleteSince: at, LastRun: run(registry.Cut)}, registry.Failing},
		{"complete", always, policy.Stats{Executions: 1, LastRun: run(registry.Changed)}, registry.Live},
		{"complete, then failed", always, policy.Stats{Executions: 1, Failures: 1, IncompleteSince: at, LastRun: run(registry.Timeout)},
			registry.Stale},
		{"complete, then refused", always, policy.Stats{Executions: 1, Failures: 1, IncompleteSince: at,
			LastRun: run(registry.Rejected)}, registry.Failing},
		{"complete, then cut twice", always, policy.Stats{Executions: 1, Cuts: 2, LastRun: run(registry.Cut)}, registry.Live},
		{"complete, then always cut", always, policy.Stats{Executions: 1, Cuts: 3, LastRun: run(registry.Cut)}, registry.Stale},
		{"outdated twice, within max_staleness", always, policy.Stats{Executions: 1, Outdated: 2, CheckedAt: at.Add(-time.Minute),
			LastRun: run(registry.Outdated)}, registry.Live},
		{"outdated, beyond max_staleness", always, policy.Stats{Executions: 1, Outdated: 1, CheckedAt: at.Add(-time.Minute - 1),
			LastRun: run(registry.Outdated)}, registry.Stale},
		{"outdated for a few slots", always, policy.Stats{Executions: 1, Outdated: 3, CheckedAt: at, LastRun: run(registry.Outdated)},
			registry.Stale},
		{"paused", paused, policy.Stats{Failures: 1, IncompleteSince: at, LastRun: run(registry.Rejected)}, registry.Paused},
		{"until is over", holder(nil, &at), policy.Stats{Executions: 1, LastRun: run(registry.Changed)}, registry.Idle},
		{"from is to come", holder(&late, nil), policy.Stats{}, registry.Idle},
		{"within from and until", holder(&at, &late), policy.Stats{}, registry.New},
	} {
		if got := policy.StateOf(&c.query, &c.stats, at); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// The Age of an endpoint's answers is wrong from the third answer on. Each answer is
// either accepted or reported as outdated; no query is silent for longer than a day,
// and no rejected answer counts as unchanged.
func TestWrongAges(t *testing.T) {
	for _, c := range []struct {
		name string
		age  func(n int, since time.Duration) time.Duration
		most time.Duration // for which nothing is taken
	}{
		{"absurd", func(int, time.Duration) time.Duration { return 99999999 * time.Second }, time.Minute},
		{"absurd and growing", func(n int, _ time.Duration) time.Duration { return time.Duration(n) * 1000 * time.Hour }, time.Minute},
		{"an hour", func(int, time.Duration) time.Duration { return time.Hour }, time.Hour + 2*time.Minute},
		{"growing faster than time", func(_ int, d time.Duration) time.Duration { return 60 * d }, 30 * time.Minute},
		{"a day", func(int, time.Duration) time.Duration { return 24 * time.Hour }, 24*time.Hour + 2*time.Minute},
	} {
		const slot = 10 * time.Second
		var s policy.Stats
		is := rows(t, "first")
		taken := ended
		longest := time.Duration(0)
		for n := range 10000 {
			at := ended.Add(time.Duration(n) * slot)
			if uint64(n) < s.NotBefore {
				continue
			}
			answer := Answer{Outcome: registry.Changed, Result: rows(t, "first", at.String())}
			if n >= 2 {
				answer.Age = c.age(n, time.Duration(n)*slot)
			}
			x := seen(uint64(n), answer)
			x.at = at
			out, err := observe(named("rr"), s, x, func() (*diff.Result, error) { return is, nil })
			if err != nil {
				t.Fatal(err)
			}
			was := s
			s = out.Stats
			if out.Delta != nil {
				is, taken = out.Result, at
				continue
			}
			longest = max(longest, at.Sub(taken))
			if s.LastRun.Outcome != registry.Outdated || s.LastRun.Error == "" || s.Executions != was.Executions ||
				len(s.Samples) != len(was.Samples) || s.Last != was.Last {
				t.Fatalf("%s: an answer that was not taken: %+v", c.name, s)
			}
			if got := s.StateWithin(0); (s.Outdated >= 3) != (got == registry.Stale) {
				t.Fatalf("%s: after %d such answers it is %s", c.name, s.Outdated, got)
			}
		}
		if longest > c.most {
			t.Errorf("%s: nothing was taken for %s, at most %s is right", c.name, longest, c.most)
		}
		if absurd := c.age(10000, 10000*slot) > 24*time.Hour; s.AgeIgnored() != absurd {
			t.Errorf("%s: the Age is ignored: %t", c.name, s.AgeIgnored())
		}
	}
}

// Copies in several caches, some of them days old, do not bring old rows back while
// other caches answer in between.
func TestOldCopiesMakeNoChange(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var s policy.Stats
		is := rows(t, "true")
		for n := range 200 {
			at := ended.Add(time.Duration(n) * time.Minute)
			a := Answer{Outcome: registry.Changed, Result: rows(t, "true")}
			if n%3 > 0 && n > 0 { // two of three are old
				a.Result, a.Age = rows(t, "old"), time.Duration(1+random.IntN(100))*time.Hour+time.Duration(n)*time.Minute
			}
			x := seen(uint64(n+1), a)
			x.at = at
			out, err := observe(named("rr"), s, x, func() (*diff.Result, error) { return is, nil })
			if err != nil {
				t.Fatal(err)
			}
			if s = out.Stats; out.Delta != nil && n > 0 {
				t.Fatalf("seed %d: the answer %d, %s old, is a change", seed, n, a.Age)
			}
		}
		if s.StateWithin(0) != registry.Live && s.StateWithin(0) != registry.Stale {
			t.Fatal(s.StateWithin(0))
		}
	}
}
