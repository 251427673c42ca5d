package policy

import (
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

// An Entry is one query with what the scheduler has learnt about it.
type Entry struct {
	Query registry.Query
	Stats Stats
}

// Stats holds what is known about one query's executions. All slots are those of
// its endpoint. A Stats is a value: it is copied, never shared.
type Stats struct {
	// Hot fields come first so that a slot touches few cache lines.
	Last       uint64        `json:"last"`                 // slot of the last complete execution, 0 = none
	Executions uint64        `json:"executions"`           // complete ones
	Served     uint64        `json:"served,omitempty"`     // refresh requests answered, see registry.Query.Refreshes
	NotBefore  uint64        `json:"not_before,omitempty"` // first slot in which it may run again (back-off, cuts)
	Floor      time.Duration `json:"floor,omitempty"`      // lower bound on its cost learnt from cuts, 0 after a complete execution
	State      []float64     `json:"state,omitempty"`      // the policy's fold
	Samples    []Sample      `json:"samples"`              // the last 63 complete executions, oldest first
	Failures   uint32        `json:"failures,omitempty"`   // failed executions in a row; all that were throttled count as one
	Cuts       uint32        `json:"cuts,omitempty"`       // whole-budget cuts since the last complete execution
	Outdated   uint32        `json:"outdated,omitempty"`   // answers since then that were rejected because of their Age
	Absurd     uint32        `json:"absurd,omitempty"`     // complete answers in a row with an Age that cannot be true, at most doubts

	Changes uint64 `json:"changes"`          // without the baseline
	Policy  string `json:"policy,omitempty"` // spelling of the policy that State belongs to
	// Position is set by the ledger. Record ignores an outcome whose epoch is not the query's, because that
	// query was removed.
	Position registry.Position `json:"position"`
	Hash     string            `json:"hash"`
	// Fingerprint is the fingerprint of the result with this Hash; comparing it is
	// faster. It is not stored: it is zero after a restart until an answer is decoded.
	Fingerprint diff.Fingerprint `json:"-"`
	Rows        int              `json:"rows"`
	CheckedAt   time.Time        `json:"checked_at,omitzero"`
	ChangedAt   time.Time        `json:"changed_at,omitzero"`
	LastRun     Run              `json:"last_run"` // the last execution, whatever its outcome
	// IncompleteSince is the time of the first of the executions in a row without a
	// result, zero if the last one was complete.
	IncompleteSince time.Time             `json:"incomplete_since,omitzero"`
	Memory          registry.AnswerMemory `json:"memory"`
	// Before is the position of the endpoint before the last complete answer, if it has a feed.
	Before feed.Before `json:"before,omitzero"`
}

// A Sample is one complete execution.
type Sample struct {
	Slot    uint64        `json:"slot"`
	Elapsed time.Duration `json:"elapsed"`
	Changed bool          `json:"changed,omitempty"` // false for the baseline
	Jaccard float64       `json:"jaccard,omitempty"`
}

// A Run describes the last execution.
type Run struct {
	Slot    uint64           `json:"slot,omitempty"`
	At      time.Time        `json:"at,omitzero"`
	Elapsed time.Duration    `json:"elapsed,omitempty"`
	Outcome registry.Outcome `json:"outcome,omitempty"`
	Error   string           `json:"error,omitempty"`
	Why     string           `json:"why,omitempty"` // the tier that chose it: refresh, new, hinted, off_grid, interval, ranked
	How     string           `json:"how,omitempty"` // HowProbe, or empty if the complete answer was compared
}

// HowProbe is the Run.How of a result that a digest of its rows confirmed.
const HowProbe = "probe"

// Ring is the number of complete executions that Stats.Samples holds.
const Ring = 63

// Median is the median of the execution times in Samples, the baseline's included.
// For an even number it is the mean of the middle two. It is 0 without samples.
func (s *Stats) Median() time.Duration {
	var buf [Ring]time.Duration
	times := buf[:0]
	for _, x := range s.Samples {
		times = append(times, x.Elapsed)
	}
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	m := len(times) / 2
	if len(times)%2 == 1 {
		return times[m]
	}
	return times[m-1] + (times[m]-times[m-1])/2
}

// Remember appends x to the ring. A second execution in one slot replaces the sample of
// the first, and counts as changed if either was, so the slots of samples ascend. It
// writes into the array of Samples, which a copy shares unless it is a Clone.
func (s *Stats) Remember(x Sample) {
	if n := len(s.Samples); n > 0 && x.Slot > 0 && s.Samples[n-1].Slot == x.Slot {
		last := s.Samples[n-1]
		x.Changed, x.Jaccard = x.Changed || last.Changed, max(x.Jaccard, last.Jaccard)
		s.Samples = s.Samples[:n-1]
	} else if n >= Ring {
		s.Samples = s.Samples[:copy(s.Samples, s.Samples[n-Ring+1:])]
	}
	s.Samples = append(s.Samples, x)
}

// Clone returns a copy that shares nothing with the original.
func (s Stats) Clone() Stats {
	s.Samples = slices.Clone(s.Samples)
	s.State = slices.Clone(s.State)
	return s
}

// Refold computes the state that policy p has after the remembered samples. The
// first of them is the baseline unless the ring has dropped it.
func (s *Stats) Refold(p Policy) {
	s.Policy, s.State = p.String(), nil
	if len(s.Samples) == 0 {
		return
	}
	last, from := s.Samples[0].Slot, 1
	if s.Executions > uint64(len(s.Samples)) {
		from = 0
	}
	for _, x := range s.Samples[from:] {
		s.State = p.Fold(s.State, last, x)
		last = x.Slot
	}
}

// An Age above longestAge is ignored once doubts answers in a row have one.
const (
	longestAge = 24 * time.Hour
	doubts     = 3
)

// BelievedAge is the assumed age of a complete answer.
//
// An Age of up to a day may be that of a copy in one of several caches. Such an
// answer is rejected while it is older than the result. That lasts at most a day
// after the result was checked.
//
// An Age above a day is believed twice, so that a single old copy between answers
// of other caches does not bring old rows back. From the third in a row on, the
// endpoint evidently sends it with every answer. Its Age is then ignored until one
// is credible.
func (s *Stats) BelievedAge(age time.Duration) time.Duration {
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

// Lag is the time by which an answer is older than the last one, 0 if it is not.
// The answer was true at checked and arrived at the time at. One of several caches
// before an endpoint may hold a copy that another has replaced; an older result is
// neither a change nor a sign that nothing has changed. A check in the future is
// from before the clock was set back and is not used.
func (s *Stats) Lag(checked, at time.Time) time.Duration {
	if s.Executions == 0 || s.CheckedAt.After(at) {
		return 0
	}
	return max(0, s.CheckedAt.Sub(checked))
}

// Complete applies a complete execution. The first one is the baseline: it is not a
// change, and the policy does not fold it. A second execution in one slot is folded
// only if it finds a change, as if it came a slot after the first. Complete does not add
// x to Samples; see Remember.
func (s *Stats) Complete(p Policy, x Sample) {
	if s.Executions > 0 {
		if x.Changed {
			s.Changes++
		}
		switch {
		case x.Slot > s.Last:
			s.State = p.Fold(s.State, s.Last, x)
		case x.Changed:
			s.State = p.Fold(s.State, x.Slot-1, x)
		}
	}
	s.Last = x.Slot
	s.Executions++
	if s.Missed() > 0 { // else the fields are zero, and far away in memory
		s.Failures, s.Cuts, s.Outdated = 0, 0, 0
		s.IncompleteSince = time.Time{}
	}
	s.NotBefore, s.Floor = 0, 0
}

// An Attempt is an execution without a result.
type Attempt struct {
	Slot    uint64
	At      time.Time // when it ended
	Outcome registry.Outcome
	Elapsed time.Duration
	Whole   bool // for a cut execution: its limit was the whole budget
}

// Incomplete applies an execution without a result. An execution that was dropped
// changes nothing.
func (s *Stats) Incomplete(x Attempt) {
	switch x.Outcome {
	case registry.Cut:
		s.cut(x)
	case registry.Outdated:
		s.outdated(x)
	case registry.Dropped:
	default:
		s.fail(x)
	}
}

// cut learns that the query costs at least what it used. A query that used up a
// whole budget for the n-th time is left out of the next 2^n − 1 slots.
func (s *Stats) cut(x Attempt) {
	s.Floor = max(s.Floor, s.Median(), x.Elapsed)
	if !x.Whole {
		return
	}
	s.Cuts++
	s.noteIncomplete(x.At)
	s.NotBefore = x.Slot + 1<<min(s.Cuts, maxCuts)
}

// outdated makes the query run again after an answer that was too old: in the next
// slot after the first such answer, because another cache may answer then, and
// later after each further one, at most 8 slots.
func (s *Stats) outdated(x Attempt) {
	s.Outdated++
	s.noteIncomplete(x.At)
	s.NotBefore = max(s.NotBefore, x.Slot+1<<min(s.Outdated-1, maxOutdated))
}

// fail backs off: the n-th failure in a row leaves the query out until 2^(n−1)
// slots later, at most 64. A query that the endpoint refuses to execute waits eight
// times as long, because the same text will be sent again. If the endpoint asks for
// less load, the query does not back off, now or later; the endpoint's health delays it. Once an endpoint answers
// again after others failed with it, it backs off no longer (plan.Planner.Recovered).
func (s *Stats) fail(x Attempt) {
	s.noteIncomplete(x.At)
	if x.Outcome == registry.Throttled {
		s.Failures = max(s.Failures, 1)
		return
	}
	s.Failures++
	wait := uint64(1) << min(s.Failures-1, maxBackoff)
	if x.Outcome == registry.Rejected {
		wait *= 8
	}
	s.NotBefore = max(s.NotBefore, x.Slot+wait)
}

const (
	maxCuts     = 8 // doublings, so at most 255 slots are left out
	maxBackoff  = 6 // doublings, so at most 64 slots
	maxOutdated = 3 // doublings, so at most 8 slots
)
