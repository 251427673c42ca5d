package scheduler

// An endpoint may be asked for several queries with one request. This file finds which
// queries can share one, writes the merged request and splits its answer.

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/merge"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// membership analyses a query. Its zero value says that the query must be asked alone.
func membership(q *registry.Query) plan.Membership {
	a, err := sparql.Analyse(q.Text)
	if err != nil {
		return plan.Membership{}
	}
	a.Ordered, a.OrderKeys = q.Ordered, q.OrderKeys
	x, args, err := merge.Parse(a)
	if err != nil {
		return plan.Membership{}
	}
	key := x.ID + "\x00" + strings.Join(q.DefaultGraphs, " ") + "\x00" + strings.Join(q.NamedGraphs, " ")
	if q.Ordered {
		key += "\x00ordered"
	}
	return plan.Membership{Key: key, Template: x.ID, Probes: x.Probes(), Arguments: args, Form: x}
}

// An ask is a request for several queries.
type ask struct {
	kind     cohort.Kind
	template *merge.Template
	members  []askMember
	again    bool
	salt     string // of a probe
	caps     bool   // it is known where the endpoint stops
}

// An askMember is one query of an ask, and what the answer says about it.
type askMember struct {
	x    *plan.Execution
	q    *registry.Query
	was  policy.Stats
	args []string

	answer Answer
	rows   int
	digest merge.Digest // in a probe
	differ bool         // from the last result, which is not confirmed
	unsure bool         // it had no rows, and those that it may have now may be cut off
	solo   bool         // merged answers are never exact
	err    error
}

// newAsk returns the ask of an execution with riders. The second look of an audit has the salt
// of the first, so that their digests compare. The caller holds the lock.
func newAsk(x *plan.Execution, held audits) *ask {
	k := &ask{kind: x.Kind(), template: x.Form().(*merge.Template), again: x.Rechecks(), salt: rand.Text()}
	if a := held[x.Query().ID]; k.again && a != nil && a.salt != "" {
		k.salt = a.salt
	}
	for _, m := range x.Members() {
		k.members = append(k.members, askMember{x: m, q: m.Query(), was: m.Stats(), args: m.Arguments()})
	}
	return k
}

// executeAsk sends an ask and divides the answer. Everything ends at the limit, as in
// compare. If the outcome is not complete, the answer says nothing about any member.
func (l *comparer) executeAsk(ctx context.Context, x Executor, k *ask, limit time.Duration) Answer {
	a := x.Execute(ctx, k.query(), Memory{}, limit)
	if !a.Outcome.Complete() {
		return a
	}
	if a.Elapsed > limit {
		return Answer{Outcome: registry.Cut, Elapsed: a.Elapsed, Error: "the time given for it ended before its answer arrived"}
	}
	spent, stop := l.work(ctx, a.Elapsed, limit)
	err := k.divide(l, a, stop)
	a.Elapsed += spent()
	switch {
	case errors.Is(err, errOver):
		a.Outcome, a.Error = registry.Cut, "the time given for it ended before its answer was compared and ready to be recorded"
	case err != nil:
		a.Outcome, a.Error = registry.Failed, err.Error()
	}
	a.Result = nil
	return a
}

// query is the merged query.
func (k *ask) query() *registry.Query {
	first := k.members[0].q
	q := &registry.Query{
		ID: first.ID, Endpoint: first.Endpoint, Form: diff.Select, Limit: -1, Merged: true,
		DefaultGraphs: first.DefaultGraphs, NamedGraphs: first.NamedGraphs,
	}
	switch k.kind {
	case cohort.Probe:
		q.Text = k.template.Probe(k.arguments(), k.salt)
	default:
		q.Text, q.Ordered = k.template.Query(k.arguments()), k.template.Ordered
	}
	return q
}

func (k *ask) arguments() [][]string {
	list := make([][]string, len(k.members))
	for i := range k.members {
		list[i] = k.members[i].args
	}
	return list
}

// errNothing reports an answer without a result.
var errNothing = errors.New("the answer was called complete but held no result")

// divide finds what the answer says about each member.
func (k *ask) divide(l *comparer, a Answer, stop func() error) error {
	if a.Result == nil {
		return errNothing
	}
	if k.kind == cohort.Probe {
		err := k.confirm(l, a, stop)
		if err == nil && k.capped(a.Result.Len()) {
			err = errCapped
		}
		return err
	}
	parts, err := k.template.Split(a.Result, k.arguments(), func(i int) diff.Options {
		return diff.Options{Vars: k.members[i].was.Memory.Vars, Stop: stop}
	})
	if err != nil {
		return err
	}
	for i := range parts {
		if err := stop(); err != nil {
			return err
		}
		if err := k.members[i].compare(a, parts[i]); err != nil {
			return err
		}
	}
	if k.capped(a.Result.Len()) {
		return errCapped
	}
	return nil
}

// errCapped reports an answer that may have been cut without a sign of it.
var errCapped = errors.New("the merged answer has as many rows as an endpoint may stop at, and lacks rows; set max_rows to " +
	"the endpoint's cap")

// mayEnd reports whether an endpoint that does not say so may have stopped at n rows. Such
// caps are round numbers. The single answers may all be far below a cap that did not
// matter before.
func (k *ask) mayEnd(n int) bool { return !k.caps && n >= 100 && (n%100 == 0 || n&(n-1) == 0) }

// capped reports whether an answer of n rows says nothing because the endpoint may have stopped there. An answer in which no
// member has fewer rows than before is whole. A probe has one row for each member with rows, so it is in doubt about members
// that had none; see askMember.unsure.
func (k *ask) capped(n int) bool {
	return k.mayEnd(n) && slices.ContainsFunc(k.members, func(m askMember) bool {
		if k.kind == cohort.Probe {
			return m.was.Rows > 0 && m.digest == merge.Digest{}
		}
		return !m.solo && m.rows < m.was.Rows
	})
}

// compare compares the part of a member with its last result.
func (m *askMember) compare(a Answer, part merge.Answer) error {
	if errors.Is(part.Err, errOver) {
		return errOver
	}
	if part.Err != nil {
		m.solo = true
		return nil
	}
	m.rows = part.Result.Len()
	m.differ = !unchanged(m.was, part.Result)
	m.answer = Answer{Outcome: registry.Unchanged, Result: part.Result, Age: a.Age, Memory: m.was.Memory}
	return nil
}

// confirm compares the digests of a probe with those of the last results.
func (k *ask) confirm(l *comparer, a Answer, stop func() error) error {
	digests, known, err := k.template.Digests(a.Result, len(k.members))
	if err != nil {
		return err
	}
	for i := range k.members {
		m := &k.members[i]
		if err := stop(); err != nil {
			return err
		}
		m.rows, m.digest = m.was.Rows, digests[i]
		want, ok, err := k.expected(l, m)
		if err != nil {
			m.err = err
			continue
		}
		m.differ = !ok || !known[i] || digests[i] != want
		m.unsure = !m.differ && m.was.Rows == 0 && k.mayEnd(a.Result.Len())
		m.answer = Answer{Outcome: registry.Unchanged, Age: a.Age, Memory: m.was.Memory}
	}
	return nil
}

// expected computes what the probe returns if the member's result has not changed.
func (k *ask) expected(l *comparer, m *askMember) (merge.Digest, bool, error) {
	if m.was.Rows == 0 {
		return merge.Digest{}, true, nil
	}
	r, err := l.ledger.Result(m.q.ID)
	if err != nil || r == nil || r.Hash() != m.was.Hash { // removed meanwhile
		return merge.Digest{}, false, err
	}
	d, ok := k.template.Digest(r, k.salt)
	return d, ok, nil
}

// outdated reports whether the answer is older than the result, so that it says nothing.
func (m *askMember) outdated(now time.Time) bool {
	s := m.was
	return s.Lag(now.Add(-s.BelievedAge(m.answer.Age)), now) > ageUnit
}
