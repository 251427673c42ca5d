package scheduler

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// An execution is one finished run of a query in a slot.
type execution struct {
	slot   uint64
	at     time.Time // when it ended
	tier   string
	answer Answer
	served uint64 // refresh requests that were waiting when it started
	whole  bool   // a cut one had the whole budget as its limit and used it up

	compared *difference // nil: observe compares
}

// observe says what follows from an execution: the new statistics and, when
// the result is another one, the step to it. prev fetches the last complete
// result; it is called only when the hashes differ. An error is prev's.
func observe(p Policy, old Stats, x execution, prev func() (*diff.Result, error)) (Outcome, error) {
	s, a := old, x.answer
	if a.Outcome.Complete() && a.Result == nil && (a.Outcome == registry.Changed || old.Executions == 0) {
		a.Outcome, a.Error = registry.Failed, "the answer was called complete but held no result"
	}
	if a.Outcome.Complete() {
		a.Age = s.believed(a.Age)
	}
	out := Outcome{Checked: x.at.Add(-a.Age), At: x.at}
	lag := old.lag(out)
	if lag > ageUnit && a.Outcome.Complete() {
		a.Outcome, a.Error = registry.Outdated, fmt.Sprintf("not taken: by its Age of %s the answer is %s older than the result that is known",
			a.Age, lag.Round(ageUnit))
	}
	switch {
	case a.Outcome.Complete():
		d, err := x.step(old, a.Result, prev)
		if err != nil {
			return Outcome{}, err
		}
		a.Outcome = registry.Unchanged
		if d != nil {
			a.Outcome, out.Result, out.Delta = registry.Changed, a.Result, d
			s.Hash, s.Rows, s.ChangedAt = a.Result.Hash(), a.Result.Len(), out.Checked
		}
		s.complete(p, x, a, d)
		if lag == 0 {
			s.CheckedAt = out.Checked
		}
	case a.Outcome == registry.Cut:
		s.cut(x)
		if a.Error == "" || x.whole {
			a.Error = "the time that the budget leaves it ended after " + a.Elapsed.Round(time.Millisecond).String()
		}
	case a.Outcome == registry.Outdated:
		s.outdated(x)
	case a.Outcome != registry.Dropped:
		s.fail(x, a.Outcome)
	}
	if o := a.Outcome; o != registry.Cut && o != registry.Throttled && o != registry.Dropped {
		s.Served = max(s.Served, x.served)
	}
	s.LastRun = Run{Slot: x.slot, At: x.at, Elapsed: a.Elapsed, Outcome: a.Outcome, Error: a.Error, Why: x.tier}
	out.Stats = s
	return out, nil
}

// ageUnit is how exactly an Age tells when an answer came about.
const ageUnit = time.Second

// An Age above longestAge cannot be true of an endpoint's answer if doubts
// answers in a row have one.
const (
	longestAge = 24 * time.Hour
	doubts     = 3
)

// believed is how old a complete answer is taken to be. An Age of up to a day may
// be that of a copy in one of several caches. Such an answer is not taken while it
// is older than the result; but a day after the result was checked no Age of a day
// or less makes an answer older, so that none keeps the result for longer. An Age
// above a day is believed twice. A single copy of that age, between answers of
// other caches, thus brings no old rows back. At the third in a row the endpoint
// says it of all that it sends: from then on its Age is ignored, as if it had sent
// none, until one is credible.
func (s *Stats) believed(age time.Duration) time.Duration {
	if age <= longestAge {
		s.Absurd = 0
		return age
	}
	if s.Absurd++; s.Absurd < doubts {
		return age
	}
	s.Absurd = doubts
	return 0
}

// lag is by how much an answer is older than the last one, 0 if it is not: of
// several caches before an endpoint one may hold what another has replaced. What
// was the result before is neither a change nor a sign that nothing has changed.
// A check in the future is no measure, it is from before the clock was set back.
func (s *Stats) lag(o Outcome) time.Duration {
	if s.Executions == 0 || s.CheckedAt.After(o.At) {
		return 0
	}
	return max(0, s.CheckedAt.Sub(o.Checked))
}

// step compares in three tiers, cheapest first. Without a result the executor
// has seen that the bytes are the same. stop ends it early, nil never.
func step(stop func() error, old Stats, now *diff.Result, prev func() (*diff.Result, error)) (*diff.Delta, error) {
	if now == nil || old.Executions > 0 && now.Hash() == old.Hash {
		return nil, nil
	}
	if old.Executions == 0 {
		return diff.CompareUntil(stop, nil, now)
	}
	was, err := prev()
	if err != nil {
		return nil, fmt.Errorf("read the last result: %w", err)
	}
	return diff.CompareUntil(stop, was, now)
}

// complete learns from a complete execution. The baseline is an execution but
// no change, and no policy folds it.
func (s *Stats) complete(p Policy, x execution, a Answer, d *diff.Delta) {
	baseline := s.Executions == 0
	taken := Sample{Slot: x.slot, Elapsed: a.Elapsed}
	if d != nil && !baseline {
		taken.Changed, taken.Jaccard = true, d.Jaccard
		s.Changes++
	}
	if !baseline {
		s.State = p.Fold(s.State, s.Last, taken)
	}
	s.Remember(taken)
	s.Policy = p.String()
	s.Last, s.Memory = x.slot, a.Memory
	s.Executions++
	s.Failures, s.Cuts, s.Outdated, s.NotBefore, s.Floor = 0, 0, 0, 0, 0
	s.IncompleteSince = time.Time{}
}

// cut learns that the query costs at least what it used. A query that used up
// a whole budget, for the n-th time, is left out of the next 2^n − 1 slots.
func (s *Stats) cut(x execution) {
	s.Floor = max(s.Floor, s.Median(), x.answer.Elapsed)
	if !x.whole {
		return
	}
	s.Cuts++
	s.noteIncomplete(x.at)
	s.NotBefore = x.slot + 1<<min(s.Cuts, maxCuts)
}

// outdated learns nothing but that the query is to be asked again: at once after
// the first such answer, which another cache may give in another slot, then ever
// later, at most 8 slots.
func (s *Stats) outdated(x execution) {
	s.Outdated++
	s.noteIncomplete(x.at)
	s.NotBefore = max(s.NotBefore, x.slot+1<<min(s.Outdated-1, maxOutdated))
}

// fail backs off: the n-th failure in a row leaves the query out until 2^(n−1)
// slots later, at most 64. What the endpoint refuses to execute waits eight
// times as long: it is the same text that will be sent. When the endpoint asks
// for less, the query is not to blame; the endpoint's health keeps it waiting.
func (s *Stats) fail(x execution, why registry.Outcome) {
	s.Failures++
	s.noteIncomplete(x.at)
	if why == registry.Throttled {
		return
	}
	wait := uint64(1) << min(s.Failures-1, maxBackoff)
	if why == registry.Rejected {
		wait *= 8
	}
	s.NotBefore = max(s.NotBefore, x.slot+wait)
}

const (
	maxCuts    = 8 // doublings, so at most 255 slots are left out
	maxBackoff = 6 // doublings, so at most 64 slots

	maxOutdated = 3 // doublings, so at most 8 slots
)
