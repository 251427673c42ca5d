package hybrid

import (
	"cmp"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/internal/selection"
	"github.com/freshet/freshet/scheduler/policy"
)

// watch chooses deadlines for the current budget. It stretches them when they
// cannot all be met.
func (t *table) watch(m policy.Moment) guard {
	g := guard{slot: m.Slot, budget: m.Budget, lead: m.Lead, stretch: 1, lack: 1, share: 1}
	g.roomy(t.policy)
	load := t.load(&g)
	if t.policy.d == 0 {
		g.share = guardShare
		if load > g.share {
			g.scarce(t.policy)
			load = t.load(&g)
		}
	}
	g.stretch = max(1, load/g.share)
	return g
}

// load is the fraction of the budget that meeting all deadlines takes in the long
// run, margin included. It sums integers, so that the order of the rows does not
// matter.
func (t *table) load(g *guard) float64 {
	var sum int64
	for i := range t.rows {
		if r := &t.rows[i]; r.c != nil {
			sum += int64(g.cost(r.cost)) * loadUnit / int64(g.period(r.staleness, r.cost))
		}
	}
	return margin * float64(sum) / float64(loadUnit) / float64(max(1, g.budget))
}

// choose finds the queries that run before those ranked by the index. It takes them
// in the order of deadlines, up to the cost that the deadlines need from this slot:
// the largest quotient of a prefix's cost and the slots left for it, times a
// margin. At most one query that needs more than half the budget is taken per slot.
func (t *table) choose() {
	g := &t.guard
	need, lazy, pressed := t.need()
	limit := max(1, time.Duration(g.share*float64(g.budget)))
	g.reserve = time.Duration(margin * float64(need))
	if g.share == 1 {
		g.lack = max(1, float64(need)/float64(g.budget))
	} else {
		g.lack = max(1, float64(g.reserve)/float64(limit))
	}
	g.reserve = min(time.Duration(margin*float64(lazy)), limit)
	var bigs []int32
	for _, i := range t.prefix() {
		if g.big(t.rows[i].cost) {
			bigs = append(bigs, i)
		} else {
			t.prefer(i, classGuard)
		}
	}
	if pressed && len(bigs) == 0 {
		for i := range t.rows {
			if r := &t.rows[i]; r.c != nil && g.big(r.cost) {
				bigs = append(bigs, int32(i))
			}
		}
	}
	if len(bigs) > 0 {
		t.prefer(slices.MinFunc(bigs, t.earlier), classGuard)
	}
}

// prefer puts a query before those ranked by the index.
func (t *table) prefer(i int32, class int8) {
	t.rows[i].class, t.rest[i] = class, chosen(i)
	t.special = append(t.special, i)
}

// earlier compares two rows by deadline.
func (t *table) earlier(i, j int32) int {
	a, b := &t.rows[i], &t.rows[j]
	return cmp.Or(cmp.Compare(a.due, b.due), -cmp.Compare(a.worth, b.worth),
		cmp.Compare(a.last, b.last), cmp.Compare(a.c.Query.ID, b.c.Query.ID))
}

// need returns the time per slot that the deadlines need from now on. lazy is the
// part of it needed in this slot, if later empty slots serve the rest. pressed
// reports that big queries need almost every slot.
func (t *table) need() (need, lazy time.Duration, pressed bool) {
	var cost time.Duration
	big := 0
	for l := 1; l < len(t.costs); l++ {
		cost += t.costs[l]
		big += t.bigs[l]
		need = max(need, (cost+time.Duration(l)-1)/time.Duration(l))
		pressed = pressed || big > 0 && margin*float64(big) >= float64(l)
	}
	credit := t.guard.credit(need)
	cost = 0
	for l := 1; l < len(t.costs); l++ {
		cost += t.costs[l]
		later := cost - credit*time.Duration(max(0, l-near))
		lazy = max(lazy, (later+time.Duration(l)-1)/time.Duration(l))
	}
	return need, lazy, pressed
}

// prefix lists, in no particular order, the first queries by deadline whose cost
// reaches the reserve.
func (t *table) prefix() (in []int32) {
	g := &t.guard
	if g.reserve <= 0 {
		return nil
	}
	var sum time.Duration
	last := int32(1)
	for far := int32(len(t.costs) - 1); last < far && sum+t.costs[last] < g.reserve; last++ {
		sum += t.costs[last]
	}
	edge := t.room[:0]
	for i, left := range t.lefts {
		switch {
		case left < last:
			in = append(in, int32(i))
		case left == last:
			r := &t.rows[i]
			edge = append(edge, choice{value: float64(r.due), low: -r.worth, last: r.last, id: r.id, cost: g.cost(r.cost), row: int32(i)})
		}
	}
	t.room = edge
	for done, n := 0, firstBatch; done < len(edge) && sum < g.reserve; done, n = done+n, 2*n {
		n = min(n, len(edge)-done)
		next := edge[done : done+n]
		selection.MoveFirst(edge[done:], n, t.before)
		slices.SortFunc(next, t.compare)
		for k := range next {
			if sum >= g.reserve {
				break
			}
			sum += next[k].cost
			in = append(in, next[k].row)
		}
	}
	return in
}
