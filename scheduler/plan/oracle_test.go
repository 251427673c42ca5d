package plan

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A naive planner implements the rules literally over a plain list, which it sorts for
// every slot.
type naive struct {
	budget  time.Duration
	rule    string
	timeout time.Duration
	debt    time.Duration
	ttlMax  uint64 // 0: rr
	queries map[string]*plain
	owed    []string
	led     bool

	newFirst bool // the last slot started refresh requests but no new query, though one waited
}

type plain struct {
	id        string
	created   int64
	last      uint64
	times     []time.Duration // of complete executions
	floor     time.Duration
	cuts      uint32
	failures  uint32
	notBefore uint64
	ttl       uint64
	refreshes uint64
	served    uint64
	ran       bool
	short     bool // cut in this slot with less than the whole budget
}

func (q *plain) estimate() time.Duration {
	s := policy.Stats{}
	for _, t := range q.times {
		s.Remember(policy.Sample{Elapsed: t})
	}
	return max(s.Median(), q.floor)
}

func (q *plain) wanted() bool { return q.refreshes > q.served }

// orders lists the queries that may run in a slot: those of the front tiers and the
// ranked ones.
func (n *naive) orders(slot uint64) (front, ranked []*plain) {
	share := n.budget / 2
	if n.rule == RuleDebt {
		share = n.budget / 4
	}
	for _, q := range n.queries {
		if q.ran || q.notBefore > slot && (!q.wanted() || q.cuts > 0) {
			continue
		}
		switch {
		case q.wanted() && q.estimate() <= share && q.floor < share:
			front = append(front, q)
		case q.wanted():
			ranked = append(ranked, q)
		case len(q.times) == 0 && q.floor == 0:
			front = append(front, q)
		case n.ttlMax == 0 || q.last+q.ttl <= slot:
			ranked = append(ranked, q)
		}
	}
	refreshFirst := func(a, b *plain) int {
		switch {
		case a.wanted() && !b.wanted():
			return -1
		case b.wanted() && !a.wanted():
			return 1
		}
		return 0
	}
	slices.SortFunc(front, func(a, b *plain) int {
		if c := refreshFirst(a, b); c != 0 {
			if n.newFirst {
				return -c
			}
			return c
		}
		if a.wanted() {
			return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.id, b.id))
		}
		return cmp.Or(cmp.Compare(a.notBefore, b.notBefore), cmp.Compare(a.created, b.created), cmp.Compare(a.last, b.last),
			cmp.Compare(a.id, b.id))
	})
	slices.SortFunc(ranked, func(a, b *plain) int {
		if c := refreshFirst(a, b); c != 0 {
			return c
		}
		due := 0
		if n.ttlMax > 0 && !a.wanted() {
			due = cmp.Compare(a.last+a.ttl, b.last+b.ttl)
		}
		return cmp.Or(due, cmp.Compare(a.last, b.last), cmp.Compare(a.id, b.id))
	})
	return front, ranked
}

// slot plays one slot and lists "id limit" of all starts.
func (n *naive) slot(slot uint64, play func(id string) (time.Duration, registry.Outcome)) (starts []string) {
	repaid := min(n.debt, n.budget/2)
	n.debt -= repaid
	repays := n.debt > 0 // in the slots to come, too
	lends := n.rule == RuleDebt && !repays
	budget := n.budget - repaid
	used, frontUsed, share := time.Duration(0), time.Duration(0), budget/2
	// left is what is left for tiers other than the front ones.
	left := func() time.Duration { return budget - (used - frontUsed) - min(frontUsed, share) }
	_, ranked := n.orders(slot)
	heads := heads(ranked)
	execute := func(q *plain, limit time.Duration, first, front bool) {
		if lends {
			limit = budget + n.timeout - used
		}
		starts = append(starts, fmt.Sprint(q.id, " ", min(limit, n.timeout)))
		q.ran, q.short = true, false
		took, outcome := play(q.id)
		switch {
		case n.timeout < limit && (took > n.timeout || outcome == registry.Cut && took >= n.timeout-n.timeout/10):
			took, outcome = min(took, n.timeout), registry.Timeout
		case took > limit || took == limit && !outcome.Complete():
			took, outcome = limit, registry.Cut
		case outcome == registry.Cut && !lends:
			took = limit
		}
		if outcome == registry.Cut {
			q.short = limit < n.budget
		}
		used += took
		if front {
			frontUsed += took
		}
		n.learn(q, slot, took, outcome, first && limit == n.budget && !lends)
	}
	alone := false
	if !repays {
		if d := n.opener(ranked); d != nil {
			alone = d.estimate() > budget
			execute(d, budget, true, false)
		}
	}
	front, _ := n.orders(slot)
	var asked, fresh, unserved int
	for _, q := range front {
		isAsked := q.wanted()
		left := min(share-frontUsed, left())
		if !alone && left > 0 && q.estimate() <= left {
			execute(q, left, false, true)
			if isAsked {
				asked++
			} else {
				fresh++
			}
		} else if !isAsked {
			unserved++
		}
	}
	n.newFirst = asked > 0 && fresh == 0 && unserved > 0
	_, ranked = n.orders(slot)
	for _, q := range ranked {
		left := left()
		switch {
		case alone || left <= 0:
		case len(starts) == 0 && !(repays && q.estimate() > left):
			alone = q.estimate() > left
			execute(q, left, true, false)
		case q.estimate() <= left:
			execute(q, left, false, false)
		}
	}
	n.close(heads, len(starts))
	n.debt += max(0, used-budget)
	return starts
}

// heads returns the first query of the order, the first that is not a refresh request, and the
// first that was cut before it had a result.
func heads(ranked []*plain) []string {
	out := firstTwo(ranked)
	var without *plain
	for _, q := range ranked {
		if !q.wanted() && len(q.times) == 0 && (without == nil ||
			cmp.Or(cmp.Compare(q.notBefore, without.notBefore), cmp.Compare(q.id, without.id)) < 0) {
			without = q
		}
	}
	if without != nil && !slices.Contains(out, without.id) {
		out = append(out, without.id)
	}
	return out
}

func firstTwo(ranked []*plain) []string {
	var out []string
	if len(ranked) > 0 {
		out = append(out, ranked[0].id)
		if ranked[0].wanted() {
			for _, q := range ranked {
				if !q.wanted() {
					return append(out, q.id)
				}
			}
		}
	}
	return out
}

func (n *naive) opener(ranked []*plain) *plain {
	if n.led {
		n.led = false
		return nil
	}
	for len(n.owed) > 0 {
		id := n.owed[0]
		n.owed = n.owed[1:]
		for _, q := range ranked {
			if q.id == id {
				n.led = true
				return q
			}
		}
	}
	return nil
}

func (n *naive) close(heads []string, started int) {
	n.owed = slices.DeleteFunc(n.owed, func(id string) bool { return n.queries[id].ran })
	for _, id := range heads {
		if q := n.queries[id]; started > 0 && (!q.ran || q.short) && !slices.Contains(n.owed, id) {
			n.owed = append(n.owed, id)
		}
	}
	for _, q := range n.queries {
		q.ran = false
	}
}

func (n *naive) learn(q *plain, slot uint64, took time.Duration, o registry.Outcome, whole bool) {
	switch {
	case o.Complete():
		if len(q.times) > 0 {
			q.ttl = min(n.ttlMax, 2*q.ttl)
			if o == registry.Changed {
				q.ttl = 1
			}
		}
		q.times = append(q.times, took)
		q.last, q.floor, q.cuts, q.failures, q.notBefore = slot, 0, 0, 0, 0
	case o == registry.Cut:
		q.floor = max(q.estimate(), took)
		if whole {
			q.cuts++
			q.notBefore = slot + 1<<min(q.cuts, 8)
		}
	default:
		q.failures++
		q.notBefore = max(q.notBefore, slot+1<<min(q.failures-1, 6))
	}
	if o != registry.Cut {
		q.served = q.refreshes
	}
}

func slotOf(t *rapid.T, p *Planner, slot uint64, play func(id string) (time.Duration, registry.Outcome)) (starts []string) {
	return slotWithin(t, p, slot, boundless, play)
}

// slotWithin plays one slot of the real planner in the same way as the loop, with one
// execution at a time.
func slotWithin(t *rapid.T, p *Planner, slot uint64, timeout time.Duration, play func(id string) (time.Duration,
	registry.Outcome)) (starts []string) {
	now := time.Unix(int64(slot)*1000, 0)
	p.begin(slot, now, 0)
	s := newSlotBudget(p, 1, timeout, 0)
	planned, _ := s.Preview()
	for r := s.Next(now); r != nil; r = s.Next(now) {
		id := r.c.Query.ID
		starts = append(starts, fmt.Sprint(id, " ", s.Limit(r)))
		took, outcome := play(id)
		now = now.Add(min(took, s.Limit(r)))
		if took > timeout {
			took, outcome = s.Limit(r), registry.Cut // as an executor does
		}
		a, whole := s.Finish(r, registry.Answer{Outcome: outcome, Elapsed: took}, false)
		st := r.c.Stats
		switch { // observe, without results
		case a.Outcome.Complete():
			x := policy.Sample{Slot: slot, Elapsed: a.Elapsed, Changed: a.Outcome == registry.Changed}
			if st.Executions > 0 {
				st.State = p.policy.Fold(st.State, st.Last, x)
			}
			st.Remember(x)
			st.Executions++
			st.Last, st.Floor, st.Cuts, st.Failures, st.NotBefore = slot, 0, 0, 0, 0
		default:
			st.Incomplete(policy.Attempt{Slot: slot, Outcome: a.Outcome, Elapsed: a.Elapsed, Whole: whole})
		}
		if a.Outcome != registry.Cut {
			st.Served = max(st.Served, r.served)
		}
		p.learn(r.c, &st)
		if s.used > s.budget+s.credit {
			t.Fatalf("slot %d used %s of %s, with %s of credit", slot, s.used, s.budget, s.credit)
		}
	}
	if len(starts) == 0 && planned > 0 {
		t.Fatalf("slot %d planned %d and started none", slot, planned)
	}
	p.debt = s.debt()
	p.end(now)
	return starts
}

// TestStrictRule compares the planner with the naive one over random endpoints: the
// same queries start with the same limits, in every slot and for any order in which
// the queries are added.
func TestStrictRule(t *testing.T) { testRule(t, RuleStrict) }

func TestDebtRule(t *testing.T) { testRule(t, RuleDebt) }

func testRule(t *testing.T, name string) {
	outcomes := []registry.Outcome{registry.Unchanged, registry.Unchanged, registry.Unchanged, registry.Changed, registry.Failed, registry.Cut}
	rapid.Check(t, func(t *rapid.T) {
		const budget = 10 * time.Second
		n := &naive{budget: budget, rule: name, timeout: boundless, queries: map[string]*plain{}}
		if name == RuleDebt {
			n.timeout = rapid.SampledFrom([]time.Duration{4 * time.Second, 12 * time.Second, 30 * time.Second}).Draw(t, "timeout")
		}
		spelling := "rr"
		if rapid.Bool().Draw(t, "selective") {
			n.ttlMax = rapid.Uint64Range(1, 8).Draw(t, "max")
			spelling = fmt.Sprintf("ttl:max=%d:reset", n.ttlMax)
		}
		chosen, err := parse(spelling)
		if err != nil {
			t.Fatal(err)
		}
		planners := []*Planner{New(chosen, budget), New(chosen, budget)}
		for _, p := range planners {
			p.SetBudget(Rule(name), budget)
		}
		var all []registry.Query
		register := func(count int) {
			var added []registry.Query
			for range count {
				q := query(fmt.Sprintf("q%02d", len(all)))
				q.CreatedAt = time.Unix(rapid.Int64Range(0, 2).Draw(t, "created"), 0)
				all, added = append(all, q), append(added, q)
				n.queries[q.ID] = &plain{id: q.ID, created: q.CreatedAt.Unix(), ttl: 1}
			}
			for _, p := range planners {
				for _, q := range rapid.Permutation(added).Draw(t, "order") {
					p.put(q, policy.Stats{})
				}
			}
		}
		register(rapid.IntRange(1, 12).Draw(t, "queries"))
		cost := rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, time.Second, 3 * time.Second, 5 * time.Second,
			6 * time.Second, 10 * time.Second, 11 * time.Second, 15 * time.Second, 25 * time.Second})
		for slot := uint64(1); slot <= 25; slot++ {
			if rapid.IntRange(0, 9).Draw(t, "more") == 0 {
				register(2)
			}
			for rapid.IntRange(0, 4).Draw(t, "refresh") == 0 {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				all[i].Refreshes++
				n.queries[all[i].ID].refreshes++
				for _, p := range planners {
					p.put(all[i], p.all[all[i].ID].Stats)
				}
			}
			type fate struct {
				took    time.Duration
				outcome registry.Outcome
			}
			fates := map[string]fate{}
			for _, q := range all {
				fates[q.ID] = fate{cost.Draw(t, "cost"), rapid.SampledFrom(outcomes).Draw(t, "outcome")}
			}
			play := func(id string) (time.Duration, registry.Outcome) { return fates[id].took, fates[id].outcome }
			want := n.slot(slot, play)
			for i, p := range planners {
				if got := slotWithin(t, p, slot, n.timeout, play); !slices.Equal(got, want) {
					t.Fatalf("slot %d of planner %d under %s:\n got %v\nwant %v", slot, i, spelling, got, want)
				}
				if p.debt != n.debt {
					t.Fatalf("slot %d of planner %d under %s ends with a debt of %s, want %s", slot, i, spelling, p.debt, n.debt)
				}
			}
		}
	})
}
