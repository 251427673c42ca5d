package scheduler

// This file connects merged requests with slots: it finds cohorts before a slot, and
// observes each member of an answer as if it had been asked alone.

import (
	"cmp"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

const (
	classifyAtOnce = 256  // queries that are analysed while the plan is incomplete
	classifyMost   = 4096 // and before one slot
)

// classify finds the cohorts of queries that have none yet. The plan is complete.
func (l *loopData) classify() {
	if l.set.endpoint.Merge == registry.MergeOff {
		return
	}
	for done := 0; done < classifyMost; done += classifyAtOnce {
		list := l.planner.Unclassified(classifyAtOnce)
		if len(list) == 0 {
			return
		}
		found := make([]plan.Membership, len(list))
		l.mu.let(func() {
			for i, q := range list {
				found[i] = membership(q)
			}
		})
		for i, q := range list {
			l.planner.Classify(q.ID, found[i])
		}
	}
}

// merges says how the next slot asks for several queries at once. The expected rows of
// a request stay below half of the endpoint's cap. While the endpoint's health restricts
// requests, queries are asked alone: a failure of a merged request says nothing about the
// endpoint.
func (l *loopData) merges() plan.Merging {
	if restricted(l.executor.Health()) {
		return plan.Merging{}
	}
	m := plan.Merging{Mode: l.set.endpoint.Merge}
	for _, rows := range []int{l.set.endpoint.MaxRows, l.health.MaxRows} {
		if rows > 0 && (m.Rows == 0 || rows/2 < m.Rows) {
			m.Rows = max(1, rows/2)
		}
	}
	return m
}

// handleMergedResponse handles the finished request of an ask.
func (r *runner) handleMergedResponse(x response) error {
	k, now := x.r.ask, r.l.clock.Now()
	r.hold()
	defer r.release()
	r.l.mu.Lock()
	dropped, stopped := r.l.nextExec != nil, r.ctx.Err() != nil
	a, _ := r.budget.Finish(x.r.Execution, x.a, stopped)
	if dropped || !a.Outcome.Complete() {
		why := cmp.Or(a.Error, string(a.Outcome))
		if dropped {
			why = "the endpoint's settings were edited"
		}
		r.budget.Void(x.r.Execution, !dropped && !stopped && a.Outcome != registry.Throttled, why, a.Elapsed)
		r.l.asked.Void++
		r.l.mu.Unlock()
		r.slot.Void++
		r.slot.VoidReason = why
		r.checkHealth(now)
		r.l.log.Info("the answer to a request for several queries says nothing about them", "slot", r.slot.Number, "kind", k.kind,
			"members", len(k.members), "outcome", a.Outcome, "elapsed", a.Elapsed, "error", why)
		return r.flushIfDue()
	}
	outs, err := r.conclude(x.r.Execution, k, a, now)
	r.l.mu.Unlock()
	if err != nil {
		return err
	}
	r.checkHealth(now)
	for i := range outs {
		r.count(outs[i].m.q, outs[i].m.was, &outs[i].out)
		r.report(outs[i].m.q, outs[i].out.Stats.LastRun)
		if len(r.pending) == 0 {
			r.since = now
		}
		r.pending = append(r.pending, outs[i].out)
		if outs[i].ended {
			r.window.add(now)
		}
	}
	return r.flushIfDue()
}

// A conclusion is what follows for one member.
type conclusion struct {
	m     *askMember
	out   Outcome
	ended bool
}

// conclude records in the plan what a complete answer says. The caller holds the lock.
func (r *runner) conclude(x *plan.Execution, k *ask, a Answer, now time.Time) (list []conclusion, err error) {
	rows, confirmed := make([]int, len(k.members)), 0
	for i := range k.members {
		m := &k.members[i]
		if m.err != nil {
			return nil, m.err
		}
		if rows[i] = m.rows; !m.differ && !m.unsure && !m.solo {
			confirmed++
		}
	}
	audited := map[*plan.Execution]bool{}
	for _, y := range r.budget.Audits(x, now) {
		audited[y] = true
	}
	shares := r.budget.Answered(x, rows, confirmed, a.Elapsed)
	for i := range k.members {
		m := &k.members[i]
		switch {
		case m.solo:
			r.budget.AskAlone(m.x, true)
			continue
		case (m.differ || m.unsure || audited[m.x]) && !m.outdated(now):
			// A digest says only that the result must be read.
			if m.differ && k.kind == cohort.Probe && !k.again || m.unsure && !audited[m.x] {
				r.budget.AskDoubted(m.x, m.unsure)
				continue
			}
			r.l.audits.hold(m, k)
			r.budget.AskAlone(m.x, false)
			continue
		}
		m.answer.Elapsed = shares[i]
		e := observation{slot: r.slot.Number, at: now.UTC(), tier: m.x.Tier(), answer: m.answer, served: m.x.Served(), before: r.before,
			budget: exactly(r.slot.Budget)}
		if k.kind == cohort.Probe {
			e.how = policy.HowProbe
		}
		out, err := observe(r.policy, m.was, e, func() (*diff.Result, error) { return r.l.ledger.Result(m.q.ID) })
		if err != nil {
			return nil, err
		}
		out.Query = m.q.ID
		r.slot.Run++
		r.l.audits.drop(m.q.ID)
		r.l.observe(m.q.ID, out.Stats.LastRun)
		ended := r.budget.Record(m.x, &plan.Completion{Stats: &out.Stats, Delta: out.Delta, Checked: out.Checked, At: out.At})
		list = append(list, conclusion{m, out, ended})
	}
	return list, nil
}

// audit compares the answer of a query that was asked alone with the merged answer of
// an audit. The caller holds the lock.
func (r *runner) audit(x *request, out *Outcome, now time.Time) {
	found, a := r.l.audits.compare(out.Query, out)
	switch found {
	case same:
		r.l.asked.Same++
		r.budget.Audited(x.Execution, now, a.kind, true)
	case suspected:
		r.budget.AskAgain(x.Execution, a.kind)
	case different:
		r.l.asked.Different++
		r.budget.Audited(x.Execution, now, a.kind, false)
		r.l.log.Error("a merged answer was wrong; queries of its template are not asked like that for a day", "query", out.Query,
			"kind", a.kind, "merged", excerpt(a.document), "alone", r.excerptOf(x.Query(), out))
	}
}

// excerptOf shows the answer of a query alone.
func (r *runner) excerptOf(q *registry.Query, out *Outcome) string {
	if out.Result != nil {
		return excerpt(out.Result)
	}
	was, err := r.l.ledger.Result(q.ID)
	if err != nil {
		return err.Error()
	}
	return excerpt(was)
}

const maxExcerpt = 2000

func excerpt(r *diff.Result) string {
	if r == nil {
		return "the result that was known"
	}
	b := r.Document()
	return string(b[:min(len(b), maxExcerpt)])
}
