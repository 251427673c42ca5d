package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
)

// Kind is how the query is asked.
func (r *Execution) Kind() cohort.Kind {
	if r.kind == "" {
		return cohort.Single
	}
	return r.kind
}

// Riders are the other members of the request.
func (r *Execution) Riders() []*Execution { return r.riders }

// Members are the queries of a merged request.
func (r *Execution) Members() []*Execution { return append([]*Execution{r}, r.riders...) }

// Form is the Membership.Form of the query's cohort, and Arguments are the query's own.
func (r *Execution) Form() any           { return r.c.cohort.form }
func (r *Execution) Arguments() []string { return r.c.member.args }

// FollowsFailure reports that the query is asked alone because a merged request failed.
func (r *Execution) FollowsFailure() bool {
	return len(r.riders) == 0 && r.c.member != nil && r.c.member.failed
}

// Rechecks reports that the request repeats a merged one whose audit found a difference.
func (r *Execution) Rechecks() bool { return r.again }

// giveBack ends an execution of which nothing is recorded.
func (s *SlotBudget) giveBack(x *Execution) {
	if x.marked && x.c.planned {
		s.p.hints.marked[x.c] = struct{}{}
	}
	if m := x.c.member; m != nil {
		m.asked = false
		if x.again {
			m.check = unchecked
		}
	}
}

// Answered adds a merged request that was complete, with the rows of its members. It
// returns the members' shares of its time.
func (s *SlotBudget) Answered(r *Execution, rows []int, confirmed int, took time.Duration) []time.Duration {
	m := r.c.member
	if m == nil { // removed meanwhile
		return cohort.New("", false).Shares(cohort.Values, rows, took)
	}
	sum := 0
	for _, n := range rows {
		sum += n
	}
	r.c.cohort.Asked(r.kind, len(rows), sum, confirmed, took)
	if r.search != nil {
		r.search.ended(s, r, true)
	}
	s.p.learnt(r.c.cohort, false)
	last := &LastAsk{Kind: r.kind, Members: len(rows), Seconds: took.Seconds(), Rows: sum}
	for _, x := range r.Members() {
		x.ask = last
		if x.c.member != nil {
			x.c.member.suspected = 0
		}
	}
	return r.c.cohort.Shares(r.kind, rows, took)
}

// Audits chooses members of a complete merged request that are to be asked alone, too.
// Every query with a result may be chosen: one that is asked merged only, like one with a
// max_staleness, needs audits as much as others.
func (s *SlotBudget) Audits(r *Execution, now time.Time) []*Execution {
	if r.again {
		return []*Execution{r}
	}
	if r.c.member == nil {
		return nil
	}
	var may []*Execution
	for _, x := range r.Members() {
		if c := x.c; c.member != nil && c.member.check == unchecked {
			may = append(may, x)
		}
	}
	if len(may) == 0 {
		return nil
	}
	n := min(len(may), r.c.cohort.Audits(now, len(r.riders)+1))
	if n == 0 {
		return nil
	}
	slices.SortStableFunc(may, func(a, b *Execution) int { return cmp.Compare(a.c.member.audited, b.c.member.audited) })
	for _, x := range may[:n] { // those audited least often
		x.c.member.audited++
	}
	return may[:n]
}

// AskAlone returns a member whose merged answer is not recorded. It is asked alone
// next, and always if always is set.
func (s *SlotBudget) AskAlone(x *Execution, always bool) {
	s.giveBack(x)
	if x.c.member != nil {
		x.c.member.solo = x.c.member.solo || always
	}
	s.recheck(x.c, checkAlone)
}

// AskDoubted is AskAlone for a member that a probe did not confirm. If its result has not
// changed, probes do not confirm it until it changes: an endpoint may write a number
// in digests otherwise than in rows. cutOff says that it had no rows and that its row in
// the probe may have been cut off. Only if that holds for two probes in a row, whole answers
// probably end like that.
func (s *SlotBudget) AskDoubted(x *Execution, cutOff bool) {
	if m := x.c.member; m != nil {
		m.doubted, m.cutOff = !cutOff || m.cutOff, cutOff
	}
	s.AskAlone(x, false)
}

// AskAgain makes a later slot repeat the merged request, of a kind, of a query whose audit
// found a difference.
func (s *SlotBudget) AskAgain(x *Execution, kind cohort.Kind) {
	if m := x.c.member; m != nil {
		m.again = kind
	}
	s.recheck(x.c, checkAgain)
}

// Audited reports the result of an audit of a kind of requests to the query's cohort.
func (s *SlotBudget) Audited(x *Execution, now time.Time, kind cohort.Kind, same bool) {
	if x.c.member != nil {
		k := x.c.cohort
		k.Audited(now, kind, same)
		s.p.learnt(k, !same)
	}
}

// onRecorded updates the membership after a recorded execution.
func (r *Execution) onRecorded(outcome registry.Outcome, took time.Duration) {
	m := r.c.member
	if m == nil {
		return
	}
	m.asked, m.failed, m.check = false, false, unchecked
	if !outcome.Complete() {
		return
	}
	m.opaque = outcome == registry.Unchanged && (m.opaque || m.doubted)
	m.doubted = false
	if r.ask == nil {
		r.c.cohort.Asked(cohort.Single, 1, r.c.Stats.Rows, 1, took)
		r.ask = &LastAsk{Kind: cohort.Single, Members: 1, Seconds: took.Seconds(), Rows: r.c.Stats.Rows}
	}
	m.lastAsk, m.share = r.ask, took
	m.cutOff = m.cutOff && outcome == registry.Unchanged && r.ask.Kind != cohort.Probe
	if m.proofs--; r.ask.Kind != cohort.Probe {
		m.proofs = cohort.MaxProofs
	}
}
