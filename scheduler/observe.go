package scheduler

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler/policy"
)

// An observation is one finished execution of a query in a slot.
type observation struct {
	slot   uint64
	at     time.Time // when it ended
	tier   string
	answer Answer
	served uint64        // refresh requests that were waiting when it started
	how    string        // see policy.Run
	whole  bool          // its limit was the whole budget, and it used that up
	budget time.Duration // of the slot that cuts it, 0 if the process is ending

	before feed.Before // the endpoint's position before it, as far as is known

	compared *difference // if nil, observe compares
}

// A difference is the delta from the last result to an answer, prepared for the
// ledger, or the ledger's error.
type difference struct {
	delta    *diff.Delta
	prepared Prepared
	err      error
}

// observe computes what follows from an execution: the new statistics and, if the
// result changed, the delta. prev fetches the last complete result. observe calls
// prev only if the hashes differ. An error is the ledger's.
func observe(p policy.Policy, old policy.Stats, x observation, prev func() (*diff.Result, error)) (Outcome, error) {
	s, a := old.Clone(), x.answer
	if a.Outcome.Complete() && a.Result == nil && (a.Outcome == registry.Changed || old.Executions == 0) {
		a.Outcome, a.Error = registry.Failed, "the answer was called complete but held no result"
	}
	if a.Outcome.Complete() {
		a.Age = s.BelievedAge(a.Age)
	}
	out := Outcome{Checked: x.at.Add(-a.Age), At: x.at}
	lag := old.Lag(out.Checked, out.At)
	if lag > ageUnit && a.Outcome.Complete() {
		a.Outcome, a.Error = registry.Outdated, fmt.Sprintf("not taken: by its Age of %s the answer is %s older than the result that is known",
			a.Age, lag.Round(ageUnit))
	}
	switch {
	case a.Outcome.Complete():
		d, prepared, err := x.step(old, a.Result, prev)
		if err != nil {
			return Outcome{}, err
		}
		a.Outcome = registry.Unchanged
		if d != nil {
			a.Outcome, out.Result, out.Delta, out.Prepared = registry.Changed, a.Result, d, prepared
			s.Hash, s.Rows, s.ChangedAt = a.Result.Hash(), a.Result.Len(), out.Checked
		}
		if r := a.Result; r != nil {
			s.Fingerprint = r.Fingerprint()
		}
		taken := policy.Sample{Slot: x.slot, Elapsed: a.Elapsed}
		if d != nil && old.Executions > 0 {
			taken.Changed, taken.Jaccard = true, d.Jaccard
		}
		s.Complete(p, taken)
		s.Remember(taken)
		s.Policy, s.Memory = p.String(), a.Memory
		s.Before = x.position(out.Checked)
		if lag == 0 {
			s.CheckedAt = out.Checked
		}
	default:
		s.Incomplete(policy.Attempt{Slot: x.slot, At: x.at, Outcome: a.Outcome, Elapsed: a.Elapsed, Whole: x.whole})
		switch o := a.Outcome; {
		case o == registry.Throttled, o == registry.Dropped, o == registry.Outdated, o == registry.Cut && !x.whole:
		default: // they may be why it failed
			s.Memory.ETag, s.Memory.LastModified = "", ""
		}
	}
	if a.Outcome == registry.Cut && (x.budget > 0 || a.Error == "") {
		a.Error = x.cutBy(a.Elapsed)
	}
	if o := a.Outcome; o != registry.Cut && o != registry.Throttled && o != registry.Dropped {
		s.Served = max(s.Served, x.served)
	}
	s.LastRun = policy.Run{Slot: x.slot, At: x.at, Elapsed: a.Elapsed, Outcome: a.Outcome, Error: a.Error, Why: x.tier, How: x.how}
	out.Stats = s
	return out, nil
}

// cutBy says what cut the execution, and the remedy.
func (x *observation) cutBy(elapsed time.Duration) string {
	share, often := "", ""
	if x.budget == 0 {
		return "cut after " + elapsed.Round(time.Millisecond).String() + " by the end of the process"
	}
	if !x.whole {
		share, often = "its share of ", ", if that is often"
	}
	return fmt.Sprintf("cut after %s by %sthe endpoint's budget of %s a slot: raise budget, or use rule debt%s",
		elapsed.Round(time.Millisecond), share, x.budget, often)
}

// ageUnit is the resolution of an answer's Age.
const ageUnit = time.Second

// step compares in three tiers, cheapest first: the bytes (the executor returns no
// result if they are equal), the fingerprint (or the hash if the fingerprint is
// unknown), and the rows. stop ends the comparison early; it may be nil.
func step(stop func() error, old policy.Stats, now *diff.Result, prev func() (*diff.Result, error)) (*diff.Delta, error) {
	switch {
	case now == nil:
		return nil, nil
	case old.Executions == 0:
		return diff.CompareUntil(stop, nil, now)
	case unchanged(old, now):
		return nil, nil
	}
	was, err := prev()
	if err != nil {
		return nil, fmt.Errorf("read the last result: %w", err)
	}
	if was != nil {
		was.KnownHash(old.Hash)
	}
	return diff.CompareUntil(stop, was, now)
}

// unchanged reports whether the answer is the last result.
func unchanged(old policy.Stats, now *diff.Result) bool {
	if old.Fingerprint != (diff.Fingerprint{}) {
		return now.Fingerprint() == old.Fingerprint
	}
	return now.Hash() == old.Hash
}

// step returns the difference that was computed in advance, or compares now.
func (x *observation) step(old policy.Stats, now *diff.Result, prev func() (*diff.Result, error)) (*diff.Delta, Prepared, error) {
	if c := x.compared; now != nil && c != nil {
		return c.delta, c.prepared, c.err
	}
	d, err := step(nil, old, now, prev)
	return d, nil, err
}
