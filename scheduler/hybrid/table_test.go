package hybrid

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

// A naiveGuard implements the rules literally over a plain list, and computes all
// keys in every slot. Of the policy it uses only the worth of one query.
type naiveGuard struct{ guard }

// A naiveRanking is the ranking by the literal rules.
type naiveRanking struct {
	policy.Ranking
	keys  []policy.Key
	tells map[*policy.Candidate]tell
	turn  float64
}

func (p Policy) naiveGuard(m policy.Moment, all []*policy.Candidate) *naiveGuard {
	g := &naiveGuard{guard{slot: m.Slot, budget: m.Budget, lead: m.Lead, stretch: 1, lack: 1, share: 1}}
	try := func(d, h uint64) float64 {
		g.d, g.h = cmp.Or(p.d, d), cmp.Or(p.h, h)
		return g.load(all)
	}
	load := try(roomyD, roomyH)
	if p.d == 0 {
		g.share = guardShare
		if load > g.share {
			load = try(scarceD, scarceH)
		}
	}
	g.stretch = max(1, load/g.share)
	return g
}

func (g *naiveGuard) load(all []*policy.Candidate) float64 {
	var sum int64
	for _, c := range all {
		sum += int64(g.cost(c.Estimate)) * loadUnit / int64(g.period(c.MaxStaleness, c.Estimate))
	}
	return margin * float64(sum) / float64(loadUnit) / float64(max(1, g.budget))
}

func (g *naiveGuard) choose(all []*policy.Candidate, deadlines []uint64, worth []float64) []bool {
	need, lazy, pressed := g.need(all, deadlines)
	limit := time.Duration(g.share * float64(g.budget))
	g.reserve = time.Duration(margin * float64(need))
	if g.share == 1 {
		g.lack = max(1, float64(need)/float64(g.budget))
	} else {
		g.lack = max(1, float64(g.reserve)/float64(limit))
	}
	g.reserve = min(time.Duration(margin*float64(lazy)), limit)
	before := func(i, j int) int {
		a, b := all[i], all[j]
		return cmp.Or(cmp.Compare(deadlines[i], deadlines[j]), -cmp.Compare(worth[i], worth[j]),
			cmp.Compare(a.Stats.Last, b.Stats.Last), cmp.Compare(a.Query.ID, b.Query.ID))
	}
	chosen := make([]bool, len(all))
	var bigs []int
	for _, i := range g.prefix(all, deadlines, before) {
		chosen[i] = !g.big(all[i].Estimate)
		if !chosen[i] {
			bigs = append(bigs, i)
		}
	}
	if pressed && len(bigs) == 0 {
		for i, c := range all {
			if g.big(c.Estimate) {
				bigs = append(bigs, i)
			}
		}
	}
	if len(bigs) > 0 {
		chosen[slices.MinFunc(bigs, before)] = true
	}
	return chosen
}

func (g *naiveGuard) need(all []*policy.Candidate, deadlines []uint64) (need, lazy time.Duration, pressed bool) {
	var far int
	for _, d := range deadlines {
		far = max(far, g.left(d))
	}
	costs, bigs := make([]time.Duration, far+1), make([]int, far+1)
	for i, c := range all {
		l := g.left(deadlines[i])
		costs[l] += g.cost(c.Estimate)
		if g.big(c.Estimate) {
			bigs[l]++
		}
	}
	var cost time.Duration
	big := 0
	for l := 1; l <= far; l++ {
		cost += costs[l]
		big += bigs[l]
		costs[l] = cost
		need = max(need, (cost+time.Duration(l)-1)/time.Duration(l))
		pressed = pressed || big > 0 && margin*float64(big) >= float64(l)
	}
	credit := g.credit(need)
	for l := 1; l <= far; l++ {
		cost := costs[l] - credit*time.Duration(max(0, l-near))
		lazy = max(lazy, (cost+time.Duration(l)-1)/time.Duration(l))
	}
	return need, lazy, pressed
}

func (g *naiveGuard) prefix(all []*policy.Candidate, deadlines []uint64, before func(i, j int) int) []int {
	if g.reserve <= 0 {
		return nil
	}
	far := 0
	for _, d := range deadlines {
		far = max(far, g.left(d))
	}
	costs := make([]time.Duration, far+1)
	for i, c := range all {
		costs[g.left(deadlines[i])] += g.cost(c.Estimate)
	}
	var sum time.Duration
	last := 1
	for ; last < far && sum+costs[last] < g.reserve; last++ {
		sum += costs[last]
	}
	var in, edge []int
	for i := range all {
		switch l := g.left(deadlines[i]); {
		case l < last:
			in = append(in, i)
		case l == last:
			edge = append(edge, i)
		}
	}
	slices.SortFunc(edge, before)
	for _, i := range edge {
		if sum >= g.reserve {
			break
		}
		sum += g.cost(all[i].Estimate)
		in = append(in, i)
	}
	return in
}

func (p Policy) naivePlan(m policy.Moment, all []*policy.Candidate) naiveRanking {
	v, g := p.view(m), p.naiveGuard(m, all)
	g.spare = v.spare()
	keys, worth := make([]policy.Key, len(all)), make([]float64, len(all))
	for i, c := range all {
		worth[i], _ = v.worth(c)
		keys[i] = policy.Key{Class: classIndex, Value: -worth[i]}
	}
	r := naiveRanking{keys: keys}
	if p.form == noGuard {
		p.naiveProbe(v, g, all, &r)
		return r
	}
	deadlines := make([]uint64, len(all))
	for i, c := range all {
		r := rowOf(c, &v.first)
		deadlines[i] = g.deadline(&r)
		if m.Turned {
			keys[i].Value -= v.relief(m.Slot, c.Stats.Last, deadlines[i])
		}
	}
	for i, chosen := range g.choose(all, deadlines, worth) {
		if chosen {
			keys[i] = policy.Key{Class: classGuard, Value: float64(deadlines[i]), Low: -worth[i]}
		}
	}
	p.naiveProbe(v, g, all, &r)
	r.Inputs = map[string]float64{
		"d": float64(g.d), "h": float64(g.h), "stretch": g.stretch, "reserve_seconds": g.reserve.Seconds(), "clock": v.start,
	}
	if s := g.stretch * g.lack; s > 1 {
		r.Stretch = s
	}
	return r
}

func (p Policy) naiveProbe(v *view, g *naiveGuard, all []*policy.Candidate, r *naiveRanking) {
	const enough = 4 // executions of evidence
	if g.slot == 0 || p.form == noClock || p.form == noTurn || v.turned || !v.trusted() {
		return
	}
	r.tells, r.turn = map[*policy.Candidate]tell{}, proof-v.odds()
	var first []int
	room := g.budget / 2
	for i, c := range all {
		if r.keys[i].Class == classGuard {
			room -= c.Estimate
		}
		if len(c.Stats.State) != estimateSize || c.Stats.Last+1 != g.slot {
			continue
		}
		b := readEstimate(c.Stats.State)
		if p, tells := v.tells(b.w[:], b.mean, b.changed); tells && !b.isPending() {
			r.tells[c] = tellOf(p)
			if r.keys[i].Class == classIndex {
				first = append(first, i)
			}
		}
	}
	slices.SortFunc(first, func(i, j int) int {
		return cmp.Or(cmp.Compare(r.keys[i].Value, r.keys[j].Value), cmp.Compare(all[i].Query.ID, all[j].Query.ID))
	})
	evidence := 0.0
	for _, i := range first {
		if room -= all[i].Estimate; room < 0 || evidence > enough {
			return
		}
		evidence += r.tells[all[i]].same
		r.keys[i].Class = classProbe
	}
}

// inOrder lists the ids in the order of their keys.
func inOrder(all []*policy.Candidate, keys map[*policy.Candidate]policy.Key) (ids []string) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *policy.Candidate) int {
		k, l := keys[a], keys[b]
		return cmp.Or(cmp.Compare(k.Class, l.Class), cmp.Compare(k.Value, l.Value), cmp.Compare(k.Low, l.Low),
			cmp.Compare(a.Stats.Last, b.Stats.Last), cmp.Compare(a.Query.ID, b.Query.ID))
	})
	for _, c := range all {
		ids = append(ids, c.Query.ID)
	}
	return ids
}

// A rig plays slots with a table and compares it with the naive rules.
type rig struct {
	p      Policy
	t      policy.Table
	in     []*policy.Candidate
	shared []float64
	cost   map[*policy.Candidate]time.Duration
	rate   map[*policy.Candidate]float64
}

func (r *rig) naive(m policy.Moment) []string {
	keys := map[*policy.Candidate]policy.Key{}
	for i, k := range r.p.naivePlan(m, r.in).keys {
		keys[r.in[i]] = k
	}
	return inOrder(r.in, keys)
}

// next returns the queries that the table returns next, in order.
func (r *rig) next() (ids []string) {
	keys := map[*policy.Candidate]policy.Key{}
	var list []*policy.Candidate
	for _, x := range r.t.Next() {
		keys[x.Candidate] = x.Key
		list = append(list, x.Candidate)
	}
	return inOrder(list, keys)
}

// execute removes a query, executes it and folds the result.
func (r *rig) execute(c *policy.Candidate, slot uint64, changed bool) {
	r.t.Remove(c)
	r.in = slices.DeleteFunc(r.in, func(x *policy.Candidate) bool { return x == c })
	x := policy.Sample{Slot: slot, Elapsed: r.cost[c], Changed: changed}
	c.Stats.Complete(r.p, x)
	c.Stats.Remember(x)
	c.Median = c.Stats.Median()
	c.Estimate, c.Overdue = c.Median, 0
}

// TestTable compares the order that comes in batches with the naive one. It plays
// slots in which nothing changes, budgets that change, and queries that are added,
// removed and become overdue.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spelling := rapid.SampledFrom([]string{"hybrid", "hybrid:d=6:h=2", "hybrid:d=40", "hybrid:no-guard", "hybrid:no-turn", "hybrid:no-clock", "hybrid:no-hazard", "hybrid:myopic"}).Draw(t, "policy")
		x, err := policy.Parse([]policy.Definition{Definition()}, spelling)
		if err != nil {
			t.Fatal(err)
		}
		p := x.(Policy)
		r := &rig{p: p, t: p.NewTable(), cost: map[*policy.Candidate]time.Duration{}, rate: map[*policy.Candidate]float64{}}
		var all []*policy.Candidate
		for i := range rapid.IntRange(1, 150).Draw(t, "queries") {
			c := &policy.Candidate{Query: registry.Query{ID: fmt.Sprintf("q%03d", i)}}
			r.cost[c] = rapid.SampledFrom([]time.Duration{0, time.Millisecond, 20 * time.Millisecond, 21 * time.Millisecond, time.Second, 6 * time.Second}).Draw(t, "cost")
			r.rate[c] = rapid.SampledFrom([]float64{0, 0, 0, 0.01, 0.2, 0.7, 1}).Draw(t, "rate")
			c.Stats.Complete(p, policy.Sample{Elapsed: r.cost[c]})
			c.Median, c.Estimate = r.cost[c], r.cost[c]
			all = append(all, c)
		}
		budgets := rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 2 * time.Second, 10 * time.Second})
		budget, quiet := budgets.Draw(t, "budget"), uint64(rapid.IntRange(2, 5).Draw(t, "quiet"))
		coin := rapid.Float64Range(0, 1)
		for slot := uint64(1); slot <= 40; slot++ {
			if rapid.IntRange(0, 9).Draw(t, "event") == 0 {
				budget = budgets.Draw(t, "new budget")
			}
			for _, c := range all {
				was := c.Row > 0
				gone := rapid.IntRange(0, 40).Draw(t, "gone") == 0
				switch {
				case was && gone:
					r.t.Remove(c)
					r.in = slices.DeleteFunc(r.in, func(x *policy.Candidate) bool { return x == c })
				case !was && !gone:
					c.MaxStaleness = rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 2 * time.Second, 9 * time.Second}).Draw(t, "staleness")
					if rapid.IntRange(0, 30).Draw(t, "late") == 0 {
						c.Overdue = slot
					}
					r.t.Put(c)
					r.in = append(r.in, c)
				}
			}
			lead := rapid.SampledFrom([]time.Duration{0, time.Second, time.Second, 3 * time.Second}).Draw(t, "lead")
			m := policy.Moment{Slot: slot, Budget: budget, Lead: lead, Shared: r.shared}
			r.t.Plan(m)
			want := r.naive(m)
			var ran []*policy.Candidate
			for left := budget; left > 0 && len(want) > 0; {
				batch := r.next()
				if len(batch) == 0 || !slices.Equal(batch, want[:len(batch)]) {
					t.Fatalf("slot %d: the next are %v, want %v", slot, batch, want)
				}
				want = want[len(batch):]
				for _, id := range batch {
					c := all[slices.IndexFunc(all, func(c *policy.Candidate) bool { return c.Query.ID == id })]
					if left <= 0 {
						break
					}
					left -= max(r.cost[c], time.Microsecond)
					changed := coin.Draw(t, "coin") < r.rate[c] && (slot <= 20 || slot%quiet != 0)
					r.execute(c, slot, changed)
					ran = append(ran, c)
					if !m.Turned && r.t.Observe(c, changed) {
						m.Turned = true
						r.t.Plan(m)
						want = r.naive(m)
						break
					}
				}
			}
			m.Turned = false
			l := p.Absorb(m, ran, func(*policy.Candidate) []*policy.Candidate { return nil })
			r.shared = l.Shared
			for _, x := range l.States {
				x.Candidate.SetState(x.State)
			}
		}
	})
}

// Least never exceeds the smallest estimate of the queries that are left.
func TestTableLeast(t *testing.T) {
	p := Default()
	table := p.NewTable()
	var all []*policy.Candidate
	for i := range 1000 {
		c := &policy.Candidate{Query: registry.Query{ID: fmt.Sprintf("q%04d", i)}, Estimate: time.Duration(1+i) * time.Millisecond}
		c.Median = c.Estimate
		table.Put(c)
		all = append(all, c)
	}
	table.Plan(policy.Moment{Slot: 9, Budget: time.Second})
	left := map[*policy.Candidate]bool{}
	for _, c := range all {
		left[c] = true
	}
	for len(left) > 0 {
		for c := range left {
			if table.Least() > c.Estimate {
				t.Fatalf("the least is %s, and %s of %s is left", table.Least(), c.Query.ID, c.Estimate)
			}
		}
		next := table.Next()
		if len(next) == 0 {
			t.Fatalf("%d are never returned", len(left))
		}
		for _, x := range next {
			delete(left, x.Candidate)
		}
	}
}

// Queries that share a constant with one that changed unexpectedly are boosted, and
// the policy learns whether they changed.
func TestRelatedAreBoosted(t *testing.T) {
	p := Default()
	q := make([]*policy.Candidate, 4)
	for i := range q {
		q[i] = &policy.Candidate{Query: registry.Query{ID: fmt.Sprint("q", i)}}
		q[i].Stats.Complete(p, policy.Sample{Slot: 1, Elapsed: time.Second})
		q[i].Stats.Complete(p, policy.Sample{Slot: 2, Elapsed: time.Second})
		l := p.Absorb(policy.Moment{Slot: 2}, q[i:i+1], nil)
		q[i].SetState(l.States[0].State)
	}
	related := map[*policy.Candidate][]*policy.Candidate{q[0]: {q[1], q[3]}, q[1]: {q[0]}}
	var shared []float64
	var kept []string
	run := func(slot uint64, c *policy.Candidate) {
		c.Stats.Complete(p, policy.Sample{Slot: slot, Elapsed: time.Second, Changed: true})
		l := p.Absorb(policy.Moment{Slot: slot, Shared: shared}, []*policy.Candidate{c}, func(c *policy.Candidate) []*policy.Candidate { return related[c] })
		shared, kept = l.Shared, nil
		for _, x := range l.States {
			x.Candidate.SetState(x.State)
			if x.Keep {
				kept = append(kept, x.Candidate.Query.ID)
			}
		}
	}
	run(3, q[0])
	x := func(i int) float64 { return readEstimate(q[i].Stats.State).x }
	if got, want := x(1), 0.08/20; got != want || x(3) != want || x(0) != 0 || x(2) != 0 {
		t.Errorf("excitations %g %g %g %g, want only those of q1 and q3 to be %g", x(0), x(1), x(2), x(3), want)
	}
	if slices.Sort(kept); !slices.Equal(kept, []string{"q1", "q3"}) {
		t.Errorf("recorded on their own: %v", kept)
	}
	run(4, q[1])
	var hits, tries float64
	e := readState(shared)
	for k := range e.tries {
		hits, tries = hits+e.hits[k], tries+e.tries[k]
	}
	// The query may have changed independently, so only part of the change counts
	// for the excitation.
	if tries != 1 || hits <= 0 || hits >= 1 || x(1) != 0 {
		t.Errorf("%g hits of %g, excitation %g", hits, tries, x(1))
	}
}
