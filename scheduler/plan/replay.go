package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
)

// A World is an endpoint whose answers are known in advance. Queries are numbered from
// 0. The slot ReplayConfig.First is t0.
type World interface {
	// Execute returns the outcome of an execution that is not cut. last is the slot
	// of the previous complete execution; at t0 it is t0. The answer depends only on
	// the arguments.
	Execute(query int, slot, last uint64) Known
	// Total returns the cost of executing all queries in a slot, and the largest
	// single cost. ok is false if the cost is unknown or if some executions would
	// not be complete.
	Total(slot uint64) (cost, longest time.Duration, ok bool)
}

// Known is the outcome of one execution.
type Known struct {
	Outcome registry.Outcome // Unchanged, Changed or a failure
	Elapsed time.Duration
	Jaccard float64 // if the outcome is Changed
}

// A ReplayConfig says what is played.
type ReplayConfig struct {
	Policy policy.Policy
	Rule   string // one of Rules
	Budget time.Duration
	// Timeout bounds one execution, 0 = none. Under RuleDebt it bounds the debt.
	Timeout time.Duration
	// Queries need an id and what the policy reads. Their ids ascend: the index in
	// this list is the query's number. A query without holders gets one that always
	// wants executions.
	Queries []registry.Query
	World   World
	First   uint64        // the number of slot t0
	Start   time.Time     // when slot t0 begins, zero = the Unix epoch
	Lead    time.Duration // between slots, 0 = no grid, and slots begin every hour
	// Ring makes the median cover the latest samples only, as in the Loop;
	// otherwise it covers all.
	Ring bool
	// Ranked plays every slot in order, even if everything fits.
	Ranked bool
	// Hinted, if not nil, lists the queries that hints mark in a slot.
	Hinted func(slot uint64) []int
	// Merged, if not nil, plays merged requests.
	Merged *MergedWorld
}

// A MergedWorld says what merged requests cost in a World. A replay makes no audits.
type MergedWorld struct {
	Mode     string                 // registry.Endpoint.Merge
	Template func(query int) string // empty: the query is asked alone
	Rows     func(query int) int    // of its result
	// Cost is the time of a complete request for these queries in a slot.
	Cost func(slot uint64, kind cohort.Kind, queries []int) time.Duration
}

// A Played is one execution of a replay.
type Played struct {
	Query   int
	Outcome registry.Outcome // empty if a merged request did not confirm the result
	Rider   bool             // another member of the same request was played before
	Elapsed time.Duration    // charged to the budget
}

// A Replay plays the slots of one endpoint in a World, one execution at a time, as the
// Loop does, but without a ledger, a clock, goroutines and results. It is not safe for
// concurrent use.
type Replay struct {
	c     ReplayConfig
	p     *Planner
	all   []*item
	times []timeline    // nil if nothing reads estimates
	slot  uint64        // the latest
	took  time.Duration // by the executions of the latest slot
	most  time.Duration // longest execution or largest estimate so far
	done  Completion    // of the latest execution
	from  uint64        // first of the latest slots that were not played because everything fits, 0 = none
}

// NewReplay starts at t0: the first result and execution time of every query are known
// and cost nothing.
func NewReplay(c ReplayConfig) (*Replay, error) {
	if !slices.Contains(Rules(), c.Rule) {
		return nil, fmt.Errorf("rule: %q is not known, use %s", c.Rule, strings.Join(Rules(), " or "))
	}
	if c.Budget <= 0 {
		return nil, fmt.Errorf("budget: %s leaves nothing to do", c.Budget)
	}
	if c.Start.IsZero() {
		c.Start = time.Unix(0, 0).UTC()
	}
	r := &Replay{
		c: c, p: New(c.Policy, c.Budget), slot: c.First,
		all: make([]*item, len(c.Queries)),
	}
	r.p.SetBudget(Rule(c.Rule), c.Budget)
	if policy.ReadsTimes(c.Policy) || r.p.rule.fits() {
		r.times = make([]timeline, len(c.Queries))
	}
	r.p.slot, r.p.now, r.p.lead = c.First+1, c.Start, c.Lead
	always := []registry.Holder{{Caller: registry.Anonymous, Since: c.Start}}
	for i, q := range c.Queries {
		if i > 0 && q.ID <= c.Queries[i-1].ID {
			return nil, fmt.Errorf("replay: the ids of the queries must ascend, %q does not", q.ID)
		}
		if len(q.Holders) == 0 {
			q.Holders = always
		}
		k := r.p.add(q.ID)
		k.ask(q)
		r.all[i], k.number = k, int32(i)
		x := c.World.Execute(i, c.First, c.First)
		x.Outcome, r.took = registry.Unchanged, x.Elapsed
		st := policy.Stats{Policy: r.p.name, Served: q.Refreshes}
		r.learn(&st, k, x, false)
		r.p.learn(k, &st)
		r.estimate(k, x)
		r.p.settle(k)
		if m := c.Merged; m != nil && m.Template(i) != "" {
			k.Stats.Rows = m.Rows(i)
			r.p.Classify(q.ID, Membership{Key: m.Template(i), Template: m.Template(i), Probes: true})
		}
	}
	return r, nil
}

// Slot plays the next slot and calls each for its executions, in order. If everything
// fits the budget in any order, it does not call each, and all is true: every query
// completed. Such a slot needs no ranking. It is played only when a later slot needs
// what it taught.
func (r *Replay) Slot(each func(Played)) (all bool) {
	now := r.slot + 1
	if r.holdsAll(now) {
		r.slot = now
		if r.from == 0 {
			r.from = now
		}
		return true
	}
	if r.from > 0 {
		for r.slot, r.from = r.from, 0; r.slot < now; r.slot++ {
			r.play(func(Played) {})
		}
	}
	r.slot = now
	r.play(each)
	return false
}

func (r *Replay) play(each func(Played)) {
	now := r.now()
	r.took = 0
	if r.c.Hinted != nil {
		for _, q := range r.c.Hinted(r.slot) {
			r.p.ownHints().mark(r.all[q], &r.p.roster)
		}
	}
	s := r.p.Begin(now, Terms{Lead: r.c.Lead, Width: 1, Timeout: cmp.Or(r.c.Timeout, boundless)})
	if m := r.c.Merged; m != nil {
		s.merging = Merging{Mode: m.Mode}
	}
	for x := s.Next(now); x != nil; x = s.Next(now) {
		if len(x.riders) > 0 {
			r.executeMerged(s, x, each)
		} else {
			each(r.execute(s, x))
		}
	}
	r.p.Owe(s.Totals().Debt)
	r.p.End(r.clock(), "")
}

// execute plays one execution under the slot's rule.
func (r *Replay) execute(s *SlotBudget, x *Execution) Played {
	i := int(x.c.number)
	k := r.c.World.Execute(i, r.slot, x.c.Stats.Last)
	a, whole := r.finish(s, x, registry.Answer{Outcome: k.Outcome, Elapsed: k.Elapsed})
	k.Outcome, k.Elapsed = a.Outcome, a.Elapsed
	r.record(s, x, k, whole)
	s.spare = x
	return Played{Query: i, Outcome: k.Outcome, Elapsed: k.Elapsed}
}

// finish books an answer that the endpoint gives up after the timeout.
func (r *Replay) finish(s *SlotBudget, x *Execution, a registry.Answer) (registry.Answer, bool) {
	if a.Elapsed > s.timeout {
		a = registry.Answer{Outcome: registry.Cut, Elapsed: s.Limit(x)}
	}
	a, whole := s.Finish(x, a, false)
	r.took += a.Elapsed
	return a, whole
}

// executeMerged plays one merged request. If one member would fail, all fail. Members that
// have changed are asked alone.
func (r *Replay) executeMerged(s *SlotBudget, x *Execution, each func(Played)) {
	members := x.Members()
	queries, known, rows := make([]int, len(members)), make([]Known, len(members)), make([]int, len(members))
	a, confirmed := registry.Answer{Outcome: registry.Unchanged}, 0
	for i, m := range members {
		queries[i], rows[i] = int(m.c.number), r.c.Merged.Rows(int(m.c.number))
		known[i] = r.c.World.Execute(queries[i], r.slot, m.c.Stats.Last)
		if !known[i].Outcome.Complete() {
			a.Outcome = known[i].Outcome
		}
		if known[i].Outcome == registry.Unchanged {
			confirmed++
		}
	}
	a.Elapsed = r.c.Merged.Cost(r.slot, x.kind, queries)
	a, _ = r.finish(s, x, a)
	if !a.Outcome.Complete() {
		s.Void(x, true, string(a.Outcome), a.Elapsed)
		each(Played{Query: queries[0], Outcome: a.Outcome, Elapsed: a.Elapsed})
		return
	}
	shares := s.Answered(x, rows, confirmed, a.Elapsed)
	for i, m := range members {
		k := known[i]
		k.Elapsed = shares[i]
		if k.Outcome == registry.Changed {
			s.AskAlone(m, false)
			k.Outcome = ""
		} else {
			r.record(s, m, k, false)
		}
		each(Played{Query: queries[i], Outcome: k.Outcome, Rider: i > 0, Elapsed: k.Elapsed})
	}
}

// Debt is what later slots have to repay.
func (r *Replay) Debt() time.Duration { return r.p.debt }

// now is when the slot begins.
func (r *Replay) now() time.Time {
	return r.c.Start.Add(time.Duration(r.slot-r.c.First) * cmp.Or(r.c.Lead, time.Hour))
}

// clock is when the latest execution ended.
func (r *Replay) clock() time.Time { return r.now().Add(r.took) }

// record updates the plan with the outcome of an execution.
func (r *Replay) record(s *SlotBudget, x *Execution, k Known, whole bool) {
	done := &r.done
	done.Stats = &x.c.Stats // no feed and no profile asks what they were before
	r.learn(done.Stats, x.c, k, whole)
	done.Checked, done.At = done.Stats.LastRun.At, done.Stats.LastRun.At
	s.Record(x, done)
	r.estimate(x.c, k)
}

// learn updates statistics with the outcome of an execution.
func (r *Replay) learn(st *policy.Stats, c *item, k Known, whole bool) {
	at := r.clock()
	st.LastRun = policy.Run{Slot: r.slot, At: at, Elapsed: k.Elapsed, Outcome: k.Outcome}
	if !k.Outcome.Complete() {
		st.Incomplete(policy.Attempt{Slot: r.slot, At: at, Outcome: k.Outcome, Elapsed: k.Elapsed, Whole: whole})
		return
	}
	x := policy.Sample{Slot: r.slot, Elapsed: k.Elapsed, Changed: k.Outcome == registry.Changed, Jaccard: k.Jaccard}
	st.Complete(r.p.policy, x)
	if !c.plain { // else it decides nothing
		st.CheckedAt = at
	}
	if m := r.c.Merged; m != nil {
		st.Rows = m.Rows(int(c.number))
	}
	if r.c.Ring {
		st.Remember(x)
	}
}

// estimate makes the median that of all executions, if the statistics do not remember
// the latest.
func (r *Replay) estimate(c *item, k Known) {
	if r.times != nil && !r.c.Ring {
		past := &r.times[c.number]
		if k.Outcome.Complete() {
			past.add(k.Elapsed)
		}
		c.Median = past.median()
		c.Estimate = max(c.Median, c.Stats.Floor)
	}
	r.most = max(r.most, k.Elapsed, c.Estimate) // a cut raises the estimate above all elapsed times
}

// holdsAll reports whether a slot can execute everything in any order. It is false for
// policies that leave queries out.
func (r *Replay) holdsAll(slot uint64) bool {
	if r.c.Ranked || r.c.Merged != nil || len(r.all) == 0 || r.p.ranked.n < len(r.all) || r.all[0].key.Due > 0 {
		return false
	}
	_, ranks := r.c.Policy.(policy.Ranker)
	if _, whole := r.c.Policy.(policy.WholeRanker); ranks && !whole {
		return false
	}
	cost, longest, ok := r.c.World.Total(slot)
	if !ok || cost >= r.c.Budget || r.p.debt > 0 || r.c.Timeout > 0 && longest > r.c.Timeout {
		return false
	}
	// No estimate exceeds most, so each fits what the others leave.
	if r.p.rule.fits() && cost+r.most > r.c.Budget {
		return false
	}
	r.most = max(r.most, longest)
	return true
}

// Entries lists the queries with their statistics, by number.
func (r *Replay) Entries() []policy.Entry {
	out := make([]policy.Entry, len(r.all))
	for i, c := range r.all {
		out[i] = policy.Entry{Query: c.Query, Stats: c.Stats.Clone()}
	}
	return out
}
