package hybrid

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A naive implements the rules literally over a plain list, and computes all keys in
// every plan. Of the policy it uses only the worth of one query and the price.
type naive struct {
	Policy
	price price // of the slot, also after it has turned
	m     policy.Moment
	all   []*policy.Candidate
	keys  []policy.Key
	worth []float64
	due   []uint64 // 0 = no deadline
}

func (n *naive) limit(c *policy.Candidate) uint64 {
	if c.MaxStaleness <= 0 || n.m.Lead <= 0 {
		return 0
	}
	return max(1, uint64(c.MaxStaleness/n.m.Lead))
}

func (n *naive) cost(c *policy.Candidate) time.Duration {
	return min(max(c.Estimate, quick), n.m.Budget)
}

// plan returns the ids in the order of the slot.
func (n *naive) plan(m policy.Moment, all []*policy.Candidate) []string {
	n.m, n.all = m, all
	n.keys, n.worth, n.due = make([]policy.Key, len(all)), make([]float64, len(all)), make([]uint64, len(all))
	v := newView(m)
	var l levels
	mean := n.mean()
	for i, c := range all {
		n.worth[i], _ = v.worth(c)
		p := v.prospect(c)
		gain := p.gain()
		if len(c.Stats.State) == 0 && c.Estimate <= m.Budget/2 {
			n.worth[i] = gain / (mean / 0.4)
			if seconds(c) > 4*mean {
				n.worth[i] = gain / (mean / (0.4 * math.Sqrt(seconds(c)/mean)))
			}
		}
		l.add(n.worth[i], gain, n.cost(c), n.limit(c) == 0)
		if n.due[i] = c.Overdue; c.Overdue == 0 && n.limit(c) > 0 {
			n.due[i] = c.Stats.Last + n.limit(c)
		}
	}
	if !m.Turned {
		n.price = l.price(n.wait(), m.Budget)
	}
	for i, c := range all {
		wait := n.price.of(n.waited(v, c), float64(n.limit(c)), m.Turned || n.late(c))
		if n.late(c) {
			wait *= math.Pow(float64(m.Slot-c.Stats.Last)/n.price.late, 12)
		}
		n.keys[i] = policy.Key{Class: classIndex, Value: -(n.worth[i] + wait)}
	}
	n.choose(v)
	n.probe(v)
	keys := map[*policy.Candidate]policy.Key{}
	for i, c := range all {
		keys[c] = n.keys[i]
	}
	return inOrder(all, keys)
}

// mean is the mean cost of the queries that take at most half the budget.
func (n *naive) mean() float64 {
	sum, of := time.Duration(0), 0
	for _, c := range n.all {
		if c.Estimate <= n.m.Budget/2 {
			sum, of = sum+max(c.Estimate, quick), of+1
		}
	}
	return sum.Seconds() / float64(max(1, of))
}

// waited counts live slots, or all slots if the query has a longest wait of its own.
func (n *naive) waited(v *view, c *policy.Candidate) float64 {
	if n.limit(c) > 0 {
		return float64(n.m.Slot - c.Stats.Last)
	}
	return max(0, v.now-v.calendar.clock(c.Stats.Last))
}

func (n *naive) late(c *policy.Candidate) bool { return float64(n.m.Slot-c.Stats.Last) > n.price.late }

// choose takes queries in the order of deadlines until their cost reaches what the
// deadlines need of this slot, the oldest other query if it is late and would not
// fit, and the best one that a cut holds up.
func (n *naive) choose(v *view) {
	var bound []int
	for i, d := range n.due {
		if d > 0 {
			bound = append(bound, i)
		}
	}
	slices.SortFunc(bound, func(i, j int) int {
		a, b := n.all[i], n.all[j]
		return cmp.Or(cmp.Compare(max(n.due[i], n.m.Slot), max(n.due[j], n.m.Slot)), cmp.Compare(n.due[i], n.due[j]),
			-cmp.Compare(n.worth[i], n.worth[j]), cmp.Compare(a.Stats.Last, b.Stats.Last), cmp.Compare(a.Query.ID, b.Query.ID))
	})
	var need, sum time.Duration
	for _, i := range bound {
		sum += n.cost(n.all[i])
		left := time.Duration(max(n.due[i], n.m.Slot) - n.m.Slot + 1)
		need = max(need, (sum+left-1)/left)
	}
	reserve := min(time.Duration(margin*float64(need)), n.m.Budget)
	sum = 0
	for _, i := range bound {
		if sum < reserve {
			sum += n.cost(n.all[i])
			n.keys[i] = policy.Key{Class: classDue, Value: float64(n.due[i]), Low: -n.worth[i]}
		}
	}
	oldest := -1
	for i, c := range n.all {
		if n.due[i] == 0 && (oldest < 0 || cmp.Or(cmp.Compare(c.Stats.Last, n.all[oldest].Stats.Last),
			cmp.Compare(c.Query.ID, n.all[oldest].Query.ID)) < 0) {
			oldest = i
		}
	}
	stuck := -1
	for i, c := range n.all {
		if n.due[i] > 0 || c.Estimate <= n.m.Budget/2 || c.Median > n.m.Budget/4 || -n.keys[i].Value < n.price.second {
			continue
		}
		if stuck < 0 || cmp.Or(cmp.Compare(n.keys[i].Value, n.keys[stuck].Value), cmp.Compare(c.Stats.Last, n.all[stuck].Stats.Last),
			cmp.Compare(c.Query.ID, n.all[stuck].Query.ID)) < 0 {
			stuck = i
		}
	}
	if stuck >= 0 {
		n.keys[stuck] = policy.Key{Class: classDue, Low: -n.worth[stuck]}
	}
	if oldest < 0 || len(bound) == 0 {
		return
	}
	if c := n.all[oldest]; reserve+n.cost(c) > n.m.Budget && n.late(c) {
		n.keys[oldest] = policy.Key{Class: classDue, Low: -n.worth[oldest]}
	}
}

// probe puts the queries first that show whether the slot is empty.
func (n *naive) probe(v *view) {
	const enough = 4 // executions of evidence
	if n.m.Slot == 0 || n.m.Turned || !v.trusted() {
		return
	}
	var first []int
	tells := map[int]policy.Evidence{}
	room := n.m.Budget / 2
	for i, c := range n.all {
		if n.keys[i].Class == classDue {
			room -= c.Estimate
		}
		if len(c.Stats.State) != estimateSize || c.Stats.Last+1 != n.m.Slot {
			continue
		}
		b := readEstimate(c.Stats.State)
		if p, tell := v.tells(b.w[:], b.mean, b.changed); tell && !b.isPending() {
			tells[i] = tellOf(p)
			if n.keys[i].Class == classIndex {
				first = append(first, i)
			}
		}
	}
	slices.SortFunc(first, func(i, j int) int {
		return cmp.Or(-cmp.Compare(n.worth[i], n.worth[j]), cmp.Compare(n.all[i].Query.ID, n.all[j].Query.ID))
	})
	evidence := 0.0
	for _, i := range first {
		if room -= n.all[i].Estimate; room < 0 || evidence > enough {
			return
		}
		evidence += tells[i].Same
		n.keys[i] = policy.Key{Class: classProbe, Value: -n.worth[i]}
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

// A rig plays slots and compares the keys with the naive rules.
type rig struct {
	p      Policy
	naive  naive
	in     []*policy.Candidate
	moved  []int
	memory any
	shared []float64
	cost   map[*policy.Candidate]time.Duration
	rate   map[*policy.Candidate]float64
}

// rank returns the ids in the order of the slot.
func (r *rig) rank(m policy.Moment) ([]string, policy.Ranking) {
	m.Memory, m.Moved = &r.memory, r.moved
	x := r.p.Rank(m, r.in)
	r.moved = nil
	keys := map[*policy.Candidate]policy.Key{}
	for i, c := range r.in {
		keys[c] = x.Keys[i]
	}
	return inOrder(r.in, keys), x
}

func (r *rig) put(c *policy.Candidate) {
	r.moved = append(r.moved, len(r.in))
	r.in = append(r.in, c)
}

func (r *rig) remove(c *policy.Candidate) {
	i, last := slices.Index(r.in, c), len(r.in)-1
	r.in[i], r.moved = r.in[last], append(r.moved, i)
	r.in = r.in[:last]
}

// execute removes a query, executes it and folds the result.
func (r *rig) execute(c *policy.Candidate, slot uint64, changed bool) {
	r.remove(c)
	x := policy.Sample{Slot: slot, Elapsed: r.cost[c], Changed: changed}
	c.Stats.Complete(r.p, x)
	c.Stats.Remember(x)
	c.Median = c.Stats.Median()
	c.Estimate, c.Overdue = c.Median, 0
}

// TestRank compares the order with the naive one. It plays slots in which nothing
// changes, budgets that change, and queries that are added, removed and become overdue.
func TestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spelling := rapid.SampledFrom([]string{"hybrid", "hybrid:d=6", "hybrid:d=40"}).Draw(t, "policy")
		x, err := policy.Parse([]policy.Definition{Definition()}, spelling)
		if err != nil {
			t.Fatal(err)
		}
		p := x.(Policy)
		r := &rig{p: p, naive: naive{Policy: p}, cost: map[*policy.Candidate]time.Duration{}, rate: map[*policy.Candidate]float64{}}
		var all []*policy.Candidate
		for i := range rapid.IntRange(1, 150).Draw(t, "queries") {
			c := &policy.Candidate{Query: registry.Query{ID: fmt.Sprintf("q%03d", i)}}
			r.cost[c] = rapid.SampledFrom([]time.Duration{0, time.Millisecond, 20 * time.Millisecond, 21 * time.Millisecond, time.Second,
				6 * time.Second}).Draw(t, "cost")
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
				was := slices.Contains(r.in, c)
				gone := rapid.IntRange(0, 40).Draw(t, "gone") == 0
				switch {
				case was && gone:
					r.remove(c)
				case !was && !gone:
					c.MaxStaleness = rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 2 * time.Second, 9 * time.Second}).Draw(t, "staleness")
					c.Hinted = rapid.IntRange(0, 20).Draw(t, "hinted") == 0
					if rapid.IntRange(0, 30).Draw(t, "late") == 0 {
						c.Overdue = slot
					}
					r.put(c)
				}
			}
			lead := rapid.SampledFrom([]time.Duration{0, time.Second, time.Second, 3 * time.Second}).Draw(t, "lead")
			m := policy.Moment{Slot: slot, Budget: budget, Lead: lead, Shared: r.shared}
			var ran []*policy.Candidate
			left, evidence := budget, 0.0
			for again := true; again; {
				again = false
				order, ranking := r.rank(m)
				if want := r.naive.plan(m, r.in); !slices.Equal(order, want) {
					t.Fatalf("slot %d: the order is %v, want %v", slot, order, want)
				}
				for _, id := range order {
					c := all[slices.IndexFunc(all, func(c *policy.Candidate) bool { return c.Query.ID == id })]
					if left <= 0 {
						break
					}
					left -= max(r.cost[c], time.Microsecond)
					changed := coin.Draw(t, "coin") < r.rate[c] && (slot <= 20 || slot%quiet != 0)
					r.execute(c, slot, changed)
					ran = append(ran, c)
					if x := ranking.Evidence[c]; changed {
						evidence += x.Changed
					} else {
						evidence += x.Same
					}
					if again = !m.Turned && len(ranking.Evidence) > 0 && evidence > ranking.Enough; again {
						m.Turned = true
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
		l := p.Absorb(policy.Moment{Slot: slot, Shared: shared}, []*policy.Candidate{c},
			func(c *policy.Candidate) []*policy.Candidate { return related[c] })
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

// The price of a slot of 10 s, by hand.
func TestPrice(t *testing.T) {
	var l levels
	add := func(worth float64, cost time.Duration, n int) {
		for range n {
			l.add(worth, worth*cost.Seconds(), cost, true)
		}
	}
	add(1, time.Second, 4)       // 4 changes in 4 s
	add(0.5, 2*time.Second, 5)   // the last second of the slot is in here
	add(0.001, time.Second, 500) // left out
	// 3 changes in the last 6 s; the rest costs 4 + 500 s. Executing it once takes
	// 252 changes from the others, which is 0.2 % of 7 a slot in 18,000 slots.
	if got := l.price(1<<20, 10*time.Second); got.second != 0.5 || math.Abs(got.wait-18000) > 1e-9 || got.long != 1 {
		t.Errorf("the price is %v, want 0.5 and a wait of 18000", got)
	}
	if got, want := l.price(256, 10*time.Second), (price{second: 0.5, mean: 0.7, wait: 256, long: 1,
		late: float64(late * 256.)}); got != want {
		t.Errorf("the price is %v, want %v", got, want)
	}
	// 514 s in 100 slots are more than a third of 10 s: it takes 154.2 slots.
	if got := l.price(100, 10*time.Second); math.Abs(got.wait-154.2) > 1e-9 || math.Abs(got.long-1.542) > 1e-9 {
		t.Errorf("the price is %v, want a wait of 154.2", got)
	}
	// Gains below the unit in which they are counted: a mean second is still worth as
	// much as the last one, so a query does not lose its place when it becomes late.
	l = levels{}
	add(2e-12, time.Second, 9)
	add(1e-12, time.Second, 30)
	if got := l.price(256, 10*time.Second); got.mean < got.second || got.of(got.late+1, 0, true) < got.of(got.late, 0, false) {
		t.Errorf("the price is %v: a mean second is worth less than the last one", got)
	}
	l = levels{}
	add(1, time.Second, 4)
	// A budget for everything: seconds beyond it are worth nothing, and no query waits.
	if got := l.price(256, 2000*time.Second); got.wait != 1 || got.second > 1e-20 {
		t.Errorf("the price is %v, want none", got)
	}
}

// Of the queries without an execution since their registration, the long ones go
// first, except those that take most of the budget. Afterwards the short ones do.
func TestFirstExecutions(t *testing.T) {
	p := Default()
	var all []*policy.Candidate
	for i, cost := range []time.Duration{30 * time.Millisecond, 40 * time.Millisecond, 20 * time.Millisecond, 25 * time.Millisecond,
		50 * time.Millisecond, 3 * time.Second, 9 * time.Second} {
		c := &policy.Candidate{Query: registry.Query{ID: fmt.Sprint("q", i)}, Estimate: cost, Median: cost}
		c.Stats.Complete(p, policy.Sample{Elapsed: cost})
		all = append(all, c)
	}
	order := func(m policy.Moment) (ids []string) {
		keys := map[*policy.Candidate]policy.Key{}
		for i, k := range p.Rank(m, all).Keys {
			keys[all[i]] = k
		}
		return inOrder(all, keys)
	}
	if got := order(policy.Moment{Slot: 5, Budget: 10 * time.Second}); !slices.Equal(got, []string{"q5", "q0", "q1", "q2", "q3", "q4", "q6"}) {
		t.Errorf("the first executions are in the order %v", got)
	}
	for _, c := range all {
		c.Stats.Complete(p, policy.Sample{Slot: 5, Elapsed: c.Median})
	}
	l := p.Absorb(policy.Moment{Slot: 5}, all, nil)
	for _, x := range l.States {
		x.Candidate.SetState(x.State)
	}
	if got := order(policy.Moment{Slot: 9, Budget: 10 * time.Second, Shared: l.Shared}); !slices.Equal(got,
		[]string{"q2", "q3", "q0", "q1", "q4", "q5", "q6"}) {
		t.Errorf("the next executions are in the order %v", got)
	}
}

// What it is worth in a slot to know a rate of one a slot: 1 − 1/e changes, or with a
// price of half a change an execution, in every second slot half of 1 − e^−2 − 1/2. If an
// execution takes what finds a change elsewhere, it is worth nothing.
func TestKnowing(t *testing.T) {
	for _, c := range []struct{ yield, want float64 }{{0, 1 - math.Exp(-1)}, {0.5, (0.5 - math.Exp(-2)) / 2}, {1, 0}} {
		if got := knowing(1, c.yield)[policy.RateStep]; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("a second finds %g changes: knowing is worth %g, want %g", c.yield, got, c.want)
		}
	}
}

// A query without a change teaches more the longer it was not executed. One in which a change
// was found, or whose rate is certain, teaches nothing.
func TestLesson(t *testing.T) {
	c := &policy.Candidate{Query: registry.Query{ID: "q"}, Median: 20 * time.Millisecond}
	b := prior()
	lesson := func(slot uint64) float64 {
		c.Stats.Last, c.Stats.State = 40, b.state()
		e := &endpointState{slot: slot - 1, clock: float64(slot - 1), yield: 0.5}
		x := newView(policy.Moment{Slot: slot, Budget: time.Second, Shared: e.state()}).prospect(c)
		if x.learn == nil {
			return 0
		}
		return x.lesson()
	}
	b.learn(40, 1, 1, false)
	early, later := lesson(41), lesson(60)
	if early <= 0 || later <= early {
		t.Errorf("an execution teaches %g in slot 41 and %g in slot 60", early, later)
	}
	b.learn(40, 20, 1, false)
	if again := lesson(60); again >= later {
		t.Errorf("after 20 slots without a change the next execution teaches %g, after one %g", again, later)
	}
	b.learn(40, 20, 1, true)
	if got := lesson(60); got != 0 {
		t.Errorf("after a change an execution teaches %g", got)
	}
	var one [rates]float64
	one[12] = 1
	if got := (&prospect{w: &one, learn: &one, e: 0.9, tau: 1}).lesson(); got != 0 {
		t.Errorf("a certain rate teaches %g", got)
	}
	if c.Stats.State = nil; newView(policy.Moment{Slot: 9, Budget: time.Second}).prospect(c).learn != nil {
		t.Error("the first execution has a lesson")
	}
}

// Empty slots hardly count as waiting, unless the holders state a max_staleness.
func TestWaitedCountsLiveSlots(t *testing.T) {
	e := readState(nil)
	for slot := uint64(1); slot <= 10; slot++ {
		e.close(slot, slot > 5)
	}
	m := policy.Moment{Slot: 11, Budget: time.Second, Shared: e.state()}
	table := &table{moment: m, view: newView(m)}
	if got, want := table.waited(1, 0), 4+5*emptySlot+e.next(); math.Abs(got-want) > 1e-9 {
		t.Errorf("waited for %g live slots, want %g", got, want)
	}
	if got := table.waited(1, 3); got != 10 {
		t.Errorf("waited for %g slots, want 10", got)
	}
}
