package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/registry"
)

// A naive hybrid: the rules word by word over a plain list, all keys computed
// anew in every slot. Of the policy itself it takes the worth of one query.
type naiveGuard struct{ guard }

func (p hybrid) naiveGuard(m Moment, all []*Candidate) *naiveGuard {
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

func (g *naiveGuard) load(all []*Candidate) float64 {
	var sum int64 // whole numbers, so that the order of all means nothing
	for _, c := range all {
		sum += int64(g.cost(c.Estimate)) * loadUnit / int64(g.period(c))
	}
	return margin * float64(sum) / float64(loadUnit) / float64(max(1, g.budget))
}

func (g *naiveGuard) choose(all []*Candidate, deadlines []uint64, worth []float64) []bool {
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

func (g *naiveGuard) need(all []*Candidate, deadlines []uint64) (need, lazy time.Duration, pressed bool) {
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

func (g *naiveGuard) prefix(all []*Candidate, deadlines []uint64, before func(i, j int) int) []int {
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

func (p hybrid) naivePlan(m Moment, all []*Candidate) Ranking {
	v, g := p.view(m), p.naiveGuard(m, all)
	g.spare = v.spare()
	keys, worth := make([]Key, len(all)), make([]float64, len(all))
	for i, c := range all {
		worth[i], _ = v.worth(c)
		keys[i] = Key{Class: classIndex, Value: -worth[i]}
	}
	r := Ranking{Keys: keys}
	if p.form == noGuard {
		p.naiveProbe(v, g, all, &r)
		return r
	}
	deadlines := make([]uint64, len(all))
	for i, c := range all {
		deadlines[i] = g.deadline(c)
		if m.Turned {
			keys[i].Value -= v.relief(m.Slot, c.Stats.Last, deadlines[i])
		}
	}
	for i, chosen := range g.choose(all, deadlines, worth) {
		if chosen {
			keys[i] = Key{Class: classGuard, Value: float64(deadlines[i]), Low: -worth[i]}
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

func (p hybrid) naiveProbe(v *view, g *naiveGuard, all []*Candidate, r *Ranking) {
	const enough = 4 // evidence
	if g.slot == 0 || p.form == noClock || p.form == noTurn || v.turned || !v.trusted() {
		return
	}
	r.Tells, r.Turn = map[*Candidate]Tell{}, proof-v.odds()
	var first []int
	room := g.budget / 2
	for i, c := range all {
		if r.Keys[i].Class == classGuard {
			room -= c.Estimate
		}
		if len(c.Stats.State) != beliefSize || c.Stats.Last+1 != g.slot {
			continue
		}
		b := readBelief(c.Stats.State)
		if p, tells := v.tells(b.w[:], b.mean, b.changed); tells && !b.noted() {
			r.Tells[c] = tell(p)
			if r.Keys[i].Class == classIndex {
				first = append(first, i)
			}
		}
	}
	slices.SortFunc(first, func(i, j int) int {
		return cmp.Or(cmp.Compare(r.Keys[i].Value, r.Keys[j].Value), cmp.Compare(all[i].Query.ID, all[j].Query.ID))
	})
	evidence := 0.0
	for _, i := range first {
		if room -= all[i].Estimate; room < 0 || evidence > enough {
			return
		}
		evidence += r.Tells[all[i]].Same
		r.Keys[i].Class = classProbe
	}
}

// naiveOrder is what is to run, in order.
func naiveOrder(p *planner) (ids []string) {
	var all []*candidate
	var views []*Candidate
	for _, c := range p.all {
		if c.in == &p.ranked && c.tier == TierRanked {
			all, views = append(all, c), append(views, &c.Candidate)
		}
	}
	keys := p.policy.(hybrid).naivePlan(p.moment(), views).Keys
	at := make([]int, len(all))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(i, j int) int {
		a, b := keys[i], keys[j]
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Low, b.Low),
			cmp.Compare(views[i].Stats.Last, views[j].Stats.Last), cmp.Compare(views[i].Query.ID, views[j].Query.ID))
	})
	for _, i := range at {
		ids = append(ids, views[i].Query.ID)
	}
	return ids
}

// TestBook holds the order that comes in waves, from what is remembered, against
// the naive one, through slots in which nothing changes, budgets that change, and
// queries that come and go and are asked for at other times.
func TestBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := ParsePolicy(rapid.SampledFrom([]string{"hybrid", "hybrid:d=6:h=2", "hybrid:d=40", "hybrid:no-guard", "hybrid:no-turn", "hybrid:no-clock", "hybrid:no-hazard", "hybrid:myopic"}).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		w := steady{seed: rapid.Uint64().Draw(t, "seed")}
		n := rapid.IntRange(1, 150).Draw(t, "queries")
		for range n {
			w.costs = append(w.costs, rapid.SampledFrom([]time.Duration{0, time.Millisecond, 20 * time.Millisecond, 21 * time.Millisecond, time.Second, 6 * time.Second}).Draw(t, "cost"))
			w.rates = append(w.rates, rapid.SampledFrom([]float64{0, 0, 0, 0.01, 0.2, 0.7, 1}).Draw(t, "rate"))
		}
		budget := rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 2 * time.Second, 10 * time.Second})
		r := replay(t, p, budget.Draw(t, "budget"), w)
		plan, quiet := r.p, rapid.IntRange(2, 5).Draw(t, "quiet")
		for slot := uint64(1); slot <= 60; slot++ {
			disturb(t, r, budget)
			plan.begin(slot, time.Unix(int64(slot), 0), rapid.SampledFrom([]time.Duration{0, time.Second, time.Second, 3 * time.Second}).Draw(t, "lead"))
			r.slot = slot
			want, turned := naiveOrder(plan), false
			keepsBounds(t, plan.ranked.book)
			for left := plan.budget; left > 0 && plan.ranked.len() > 0; {
				if plan.turned && !turned {
					want, turned = naiveOrder(plan), true
					keepsBounds(t, plan.ranked.book)
				}
				c := plan.ranked.first()
				if c.Query.ID != want[0] {
					t.Fatalf("slot %d: %s is next, want %s; the key is %v", slot, c.Query.ID, want[0], c.key)
				}
				want = want[1:]
				k := w.Execute(int(c.number), slot, c.Stats.Last)
				if slot > 20 && slot%uint64(quiet) == 0 {
					k.Outcome = registry.Unchanged
				}
				plan.pick(c)
				r.learn(c, k, false)
				left -= max(k.Elapsed, time.Microsecond)
			}
			var rest []string
			if rapid.IntRange(0, 5).Draw(t, "look at all") == 0 {
				for _, c := range plan.ranked.all() {
					rest = append(rest, c.Query.ID)
				}
				if plan.turned && !turned {
					want = naiveOrder(plan)
				}
				if !slices.Equal(rest, want) {
					t.Fatalf("slot %d: the rest is %v, want %v", slot, rest, want)
				}
			}
			plan.end(time.Unix(int64(slot), 1))
		}
	})
}

// keepsBounds fails where a query is worth more than its bound.
func keepsBounds(t *rapid.T, b *book) {
	for i, s := range b.state {
		if s == vacant || b.until[i] < b.view.now {
			continue
		}
		if worth, _ := b.view.worth(b.rows[i].c); !(worth <= b.bound[i]) {
			t.Fatalf("slot %d: %s is worth %g, and its bound is %g until %g, now %g", b.guard.slot, b.rows[i].c.Query.ID, worth, b.bound[i], b.until[i], b.view.now)
		}
	}
}

// disturb does now and then what happens to queries between slots.
func disturb(t *rapid.T, r *Replay, budget *rapid.Generator[time.Duration]) {
	plan := r.p
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		plan.reset(plan.policy, plan.rule, budget.Draw(t, "new budget"))
	case 1:
		c := r.all[rapid.IntRange(0, len(r.all)-1).Draw(t, "whose")]
		if plan.all[c.Query.ID] == nil {
			return
		}
		s := c.Stats
		s.Remember(Sample{Slot: s.Last, Elapsed: rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second}).Draw(t, "took")})
		q := c.Query
		q.Holders = slices.Clone(q.Holders)
		q.Holders[0].MaxStaleness = registry.Duration(rapid.SampledFrom([]time.Duration{0, 2 * time.Second, 9 * time.Second}).Draw(t, "staleness"))
		plan.put(q, s)
	case 2:
		i := rapid.IntRange(0, len(r.all)-1).Draw(t, "gone")
		c := r.all[i]
		if plan.all[c.Query.ID] == nil {
			return
		}
		plan.drop(c.Query.ID)
		if rapid.Bool().Draw(t, "back") {
			plan.put(c.Query, c.Stats)
			r.all[i] = plan.all[c.Query.ID]
			r.all[i].number = int32(i)
		}
	}
}

// BenchmarkBook is a slot of hybrid in the simulator, about 2 % of the queries
// executed, whose changes are rare. "ratio" is how many times dearer the quickest
// of several is that works out all keys by the rules and sorts them.
func BenchmarkBook(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("queries=%d", n), func(b *testing.B) {
			p, err := ParsePolicy("hybrid:d=256:h=4")
			if err != nil {
				b.Fatal(err)
			}
			w := steady{seed: 1}
			for i := range n {
				w.costs = append(w.costs, time.Duration(10+i%90)*time.Millisecond)
				w.rates = append(w.rates, []float64{0, 0.5, 0.02}[max(0, i%100-97)])
			}
			r := replay(b, p, time.Duration(n)*time.Millisecond, w)
			for range 300 {
				r.Slot(func(Played) {})
			}
			naive := time.Duration(1 << 62)
			for range 5 {
				begin := time.Now()
				naiveOrder(r.p)
				naive = min(naive, time.Since(begin))
			}
			executed := 0
			var slots []time.Duration
			for b.Loop() {
				begin := time.Now()
				r.Slot(func(Played) { executed++ })
				slots = append(slots, time.Since(begin))
			}
			slices.Sort(slots)
			b.ReportMetric(float64(naive)/float64(slots[len(slots)/2]), "ratio")
			b.ReportMetric(float64(executed)/float64(len(slots)), "executions")
		})
	}
}
