package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/merge"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// An endpoint may be asked for several queries with one request. This file finds which
// queries can share one, writes the merged request, splits its answer, and observes each
// member as if it had been asked alone.

const (
	classifyAtOnce = 256  // queries that are analysed while the plan is incomplete
	classifyMost   = 4096 // and before one slot
)

// classify finds the cohorts of queries that have none yet. The caller holds the lock
// with a complete plan.
func (l *shared) classify() {
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
func (l *shared) merges() plan.Merging {
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

// digests holds the digests of results.
type digests struct {
	mu      sync.Mutex
	byQuery map[string]digested
}

// digested is the digest of the result with a hash.
type digested struct {
	hash   string
	digest merge.Digest
	ok     bool
}

const maxDigests = 1 << 20

// drop forgets the digests of queries that were removed, and those of queries that are
// not in held if that is not nil.
func (t *digests) drop(removed []string, held map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, query := range removed {
		delete(t.byQuery, query)
	}
	if held != nil {
		maps.DeleteFunc(t.byQuery, func(query string, _ digested) bool { return !held[query] })
	}
}

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

// of computes what a probe returns if a result is still the one with the hash.
func (t *digests) of(x *merge.Template, query, hash string, result func() (*diff.Result, error)) (merge.Digest, bool, error) {
	t.mu.Lock()
	d, found := t.byQuery[query]
	t.mu.Unlock()
	if found && d.hash == hash {
		return d.digest, d.ok, nil
	}
	r, err := result()
	if err != nil || r == nil { // removed meanwhile
		return merge.Digest{}, false, err
	}
	d = digested{hash: hash}
	d.digest, d.ok = x.Digest(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byQuery == nil || len(t.byQuery) >= maxDigests {
		t.byQuery = map[string]digested{}
	}
	t.byQuery[query] = d
	return d.digest, d.ok, nil
}

// An ask is a request for several queries.
type ask struct {
	kind     cohort.Kind
	template *merge.Template
	members  []askMember
	again    bool
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
	solo   bool         // merged answers are never exact
	err    error
}

// newAsk returns the ask of an execution with riders. The caller holds the lock.
func newAsk(x *plan.Execution) *ask {
	k := &ask{kind: x.Kind(), template: x.Form().(*merge.Template), again: x.Rechecks()}
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
	start := l.clock.Now()
	spent := func() time.Duration { return max(0, l.clock.Now().Sub(start)) }
	stop := func() error {
		if took := spent(); took > 0 && (ctx.Err() != nil || a.Elapsed+took > limit) {
			return errOver
		}
		return nil
	}
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
		q.Text = k.template.Probe(k.arguments())
	case cohort.Union:
		q.Text, q.Ordered = k.template.Union(k.arguments()), k.template.Ordered
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
		return k.confirm(l, a, stop)
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
var errCapped = errors.New("the merged answer has as many rows as an endpoint may stop at, and lacks rows; set max_rows to the endpoint's cap")

// capped reports whether an endpoint that does not say so may have stopped at n rows. Such
// caps are round numbers. The single answers may all be far below a cap that did not
// matter before. An answer in which no member has fewer rows than before is whole.
func (k *ask) capped(n int) bool {
	if n < 100 || n%100 != 0 && n&(n-1) != 0 {
		return false
	}
	return slices.ContainsFunc(k.members, func(m askMember) bool {
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
		want, ok, err := l.digests.of(k.template, m.q.ID, m.was.Hash, func() (*diff.Result, error) { return l.ledger.Result(m.q.ID) })
		if err != nil {
			m.err = err
			continue
		}
		m.rows, m.digest = m.was.Rows, digests[i]
		m.differ = !ok || !known[i] || digests[i] != want
		m.answer = Answer{Outcome: registry.Unchanged, Age: a.Age, Memory: m.was.Memory}
	}
	return nil
}

// outdated reports whether the answer is older than the result, so that it says nothing.
func (m *askMember) outdated(now time.Time) bool {
	s := m.was
	return s.Lag(now.Add(-s.BelievedAge(m.answer.Age)), now) > ageUnit
}

// takeAsk handles the finished request of an ask.
func (r *runner) takeAsk(x answered) error {
	k, now := x.r.ask, r.l.clock.Now()
	r.hold()
	defer r.release()
	r.l.mu.Lock()
	dropped, stopped := r.l.nextExec != nil, r.ctx.Err() != nil
	a, _ := r.budget.Finish(x.r.Execution, x.a, stopped)
	r.l.account.executed(now)
	if dropped || !a.Outcome.Complete() {
		r.budget.Void(x.r.Execution, !dropped && !stopped && a.Outcome != registry.Throttled)
		r.l.mu.Unlock()
		r.checkHealth(now)
		r.l.log.Debug("merged request", "slot", r.slot.Number, "kind", k.kind, "members", len(k.members), "outcome", a.Outcome, "elapsed", a.Elapsed, "error", a.Error)
		return nil
	}
	outs, err := r.conclude(x.r.Execution, k, a, now)
	r.l.mu.Unlock()
	if err != nil {
		return err
	}
	r.checkHealth(now)
	for i := range outs {
		r.count(outs[i].m.q, outs[i].m.was, outs[i].out)
		r.report(outs[i].m.q, outs[i].out.Stats.LastRun)
		outs[i].out.Stats = outs[i].out.Stats.Frozen()
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

// concluded is what follows for one member.
type concluded struct {
	m     *askMember
	out   Outcome
	ended bool
}

// conclude records in the plan what a complete answer says. The caller holds the lock.
func (r *runner) conclude(x *plan.Execution, k *ask, a Answer, now time.Time) (list []concluded, err error) {
	rows, confirmed := make([]int, len(k.members)), 0
	for i := range k.members {
		m := &k.members[i]
		if m.err != nil {
			return nil, m.err
		}
		if rows[i] = m.rows; !m.differ && !m.solo {
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
		case (m.differ || audited[m.x]) && !m.outdated(now):
			if m.differ && k.kind == cohort.Probe && !k.again { // its digest says only that the result must be read
				r.budget.AskDoubted(m.x)
				continue
			}
			r.l.audits.hold(m, k)
			r.budget.AskAlone(m.x, false)
			continue
		}
		m.answer.Elapsed = shares[i]
		e := observation{slot: r.slot.Number, at: now.UTC(), tier: m.x.Tier(), answer: m.answer, served: m.x.Served()}
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
		r.l.streak.observe(m.q.ID, out.Stats.LastRun)
		ended := r.budget.Record(m.x, plan.Completion{Stats: out.Stats, Delta: out.Delta, Checked: out.Checked, At: out.At})
		list = append(list, concluded{m, out, ended})
	}
	return list, nil
}

// Asked counts the requests of an endpoint since the start.
type Asked struct {
	Requests map[cohort.Kind]uint64
	Members  map[cohort.Kind]uint64 // queries in these requests
	// Same and Different count the audits by their result.
	Same, Different uint64
}

// Asked returns the requests so far.
func (l *Loop) Asked() Asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.asked
	a.Requests, a.Members = maps.Clone(a.Requests), maps.Clone(a.Members)
	return a
}

// countAsk counts a request. The caller holds the lock.
func (l *shared) countAsk(x *plan.Execution) {
	if l.asked.Requests == nil {
		l.asked.Requests, l.asked.Members = map[cohort.Kind]uint64{}, map[cohort.Kind]uint64{}
	}
	l.asked.Requests[x.Kind()]++
	l.asked.Members[x.Kind()] += 1 + uint64(len(x.Riders()))
}

// Templates describes the templates of the endpoint's queries, and how they are asked.
func (l *Loop) Templates() []cohort.Snapshot {
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	return l.planner.Cohorts(now)
}

// A LastAsk describes the request that last answered a query, alone or with others.
type LastAsk struct {
	Kind         cohort.Kind `json:"kind"`
	Members      int         `json:"members"`
	Seconds      float64     `json:"seconds"`
	ShareSeconds float64     `json:"share_seconds"` // this query's part of it
	Rows         int         `json:"rows"`
}

func lastAsk(c *plan.Place) *LastAsk {
	k := c.LastAsk
	if k == nil {
		return nil
	}
	return &LastAsk{Kind: k.Kind, Members: k.Members, Seconds: k.Elapsed.Seconds(), ShareSeconds: c.LastRun.Elapsed.Seconds(), Rows: k.Rows}
}
