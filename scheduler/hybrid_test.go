package scheduler

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/registry"
)

// A steady world has the same costs in every slot, and changes that follow from
// a number.
type steady struct {
	costs []time.Duration
	rates []float64 // changes per slot
	seed  uint64
}

func (w steady) Execute(query int, slot, last uint64) Known {
	k := Known{Outcome: registry.Unchanged, Elapsed: w.costs[query]}
	for s := last + 1; s <= slot && slot > 0; s++ {
		x := (uint64(query)<<32 + s + w.seed) * 0x9e3779b97f4a7c15
		x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
		if float64(x>>11)/(1<<53) < w.rates[query] {
			k.Outcome, k.Jaccard = registry.Changed, 0.5
		}
	}
	return k
}

func (steady) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

func replay(t rapid.TB, p Policy, budget time.Duration, w steady) *Replay {
	t.Helper()
	queries := make([]registry.Query, len(w.costs))
	for i := range queries {
		queries[i] = registry.Query{ID: fmt.Sprintf("q%06d", i), Constants: []string{fmt.Sprint("urn:", i%3)}}
	}
	r, err := NewReplay(ReplayConfig{Policy: p, Rule: RuleStrict, Budget: budget, Queries: queries, World: w, Ring: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The law of the guard: with exact estimates, and unless the slot reports that
// its deadlines cannot all be met, no query waits longer than d slots, h·d when
// it is dear.
func TestGuardLaw(t *testing.T) {
	const budget = 10 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		d, h := rapid.Uint64Range(1, 24).Draw(t, "d"), rapid.Uint64Range(1, 4).Draw(t, "h")
		p, err := ParsePolicy(fmt.Sprintf("hybrid:d=%d:h=%d", d, h))
		if err != nil {
			t.Fatal(err)
		}
		w := steady{seed: rapid.Uint64().Draw(t, "seed")}
		cost := rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, 300 * time.Millisecond, time.Second, 2400 * time.Millisecond,
			2500 * time.Millisecond, 5 * time.Second, 5100 * time.Millisecond, 9 * time.Second, 10 * time.Second})
		for range rapid.IntRange(1, 60).Draw(t, "queries") {
			w.costs = append(w.costs, cost.Draw(t, "cost"))
			w.rates = append(w.rates, rapid.SampledFrom([]float64{0, 0, 0.01, 0.5, 1}).Draw(t, "rate"))
		}
		var total, most time.Duration
		for _, c := range w.costs {
			total, most = total+c, max(most, c)
		}
		// Where all fit half of the slots that there are, nothing is stretched.
		easy := most <= budget/5 && float64(total) < 0.4*float64(budget)*float64(min(d, firstD))
		keepsDeadlines(t, p, budget, w, easy)
	})
}

// keepsDeadlines plays 80 slots and fails where the guard's law is broken. Where it is
// easy nothing may be stretched.
func keepsDeadlines(t rapid.TB, p Policy, budget time.Duration, w steady, easy bool) {
	t.Helper()
	d, h := p.(hybrid).d, p.(hybrid).h
	r := replay(t, p, budget, w)
	last := make([]uint64, len(w.costs))
	for slot := uint64(1); slot <= 80; slot++ {
		var used time.Duration
		r.Slot(func(x Played) {
			used += x.Elapsed
			if x.Outcome.Complete() {
				last[x.Query] = slot
			}
		})
		if used > budget {
			t.Fatalf("slot %d used %s", slot, used)
		}
		if s := r.p.ranking.Stretch; s > 0 {
			if easy {
				t.Fatalf("slot %d: deadlines are stretched by %g where there is room", slot, s)
			}
			continue
		}
		for i, l := range last {
			wait := d
			if float64(w.costs[i]) > dear*float64(budget) {
				wait *= h
			}
			if slot-l >= wait && slot > l {
				t.Fatalf("slot %d: query %d of %s, last run in %d, is past its deadline of %d slots, and nothing is reported", slot, i, w.costs[i], l, wait)
			}
		}
	}
}

// A query that takes no time still has to start before the budget is used up.
func TestGuardLawOfFreeQueries(t *testing.T) {
	p, err := ParsePolicy("hybrid:d=1:h=2")
	if err != nil {
		t.Fatal(err)
	}
	w := steady{costs: []time.Duration{0, 10 * time.Second, 2500 * time.Millisecond}, rates: []float64{0, 0.5, 0}}
	keepsDeadlines(t, p, 10*time.Second, w, false)
}

// What deadlines cannot be met are stretched, but nobody starves.
func TestGuardStretches(t *testing.T) {
	p, err := ParsePolicy("hybrid:d=4:h=2")
	if err != nil {
		t.Fatal(err)
	}
	w := steady{}
	for i := range 200 {
		w.costs = append(w.costs, time.Duration(100+i)*time.Millisecond)
		w.rates = append(w.rates, []float64{0, 1}[i%2])
	}
	r := replay(t, p, time.Second, w)
	last, longest := make([]uint64, 200), uint64(0)
	for slot := uint64(1); slot <= 600; slot++ {
		r.Slot(func(x Played) {
			longest = max(longest, slot-last[x.Query])
			last[x.Query] = slot
		})
		if r.p.ranking.Stretch <= 1 {
			t.Fatalf("slot %d: 200 queries of 0.2 s every 4 slots of a second need 10 times the budget, but the stretch is %g", slot, r.p.ranking.Stretch)
		}
	}
	for i, l := range last {
		longest = max(longest, 600-l)
		if l == 0 {
			t.Errorf("query %d never ran", i)
		}
	}
	// All take 40 s, so 40 slots at least; a slot holds at least 0.7 s.
	if longest > 100 {
		t.Errorf("one waited %d slots", longest)
	}
}

// An observation moves the belief the way that Bayes says.
func TestBelief(t *testing.T) {
	b := prior()
	// Σ w_k·2^(k−14): 0.24125·(1+2+4+8)/2^14 + 0.0026923·(2^4+…+2^16)/2^14
	if want := (0.965/4*15 + 0.035/13*(131072-16)) / 16384; math.Abs(b.mean-want) > 1e-15 {
		t.Errorf("the prior's mean is %g, want %g", b.mean, want)
	}
	quiet, found := b, b
	quiet.learn(5, 1, 1, false)
	found.learn(5, 1, 1, true)
	// A change is worth a lot: P(change) = 0.0103 or so, and of that nearly all
	// comes from high rates.
	if quiet.mean >= b.mean || found.mean < 20*b.mean {
		t.Errorf("mean %g, %g without a change, %g with one", b.mean, quiet.mean, found.mean)
	}
	if found.changed != 5 || quiet.changed != 0 {
		t.Errorf("changed in %d and %d", found.changed, quiet.changed)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := prior()
		for range rapid.IntRange(0, 300).Draw(t, "n") {
			tau := rapid.Float64Range(0.02, 5000).Draw(t, "tau")
			b.learn(1, tau, rapid.Float64Range(0.01, 30).Draw(t, "r"), rapid.Bool().Draw(t, "changed"))
			sum := 0.0
			for _, w := range b.w {
				if !(w > 0) {
					t.Fatalf("a weight is %g", w)
				}
				sum += w
			}
			if math.Abs(sum-1) > 1e-9 || !(b.mean > 0 && b.mean <= 4) {
				t.Fatalf("weights sum to %g, mean rate %g", sum, b.mean)
			}
		}
		if again := readBelief(b.state()); again != b {
			t.Fatalf("%v reads back as %v", b, again)
		}
	})
	// e^(−τλ) by squaring is that by the exponential function.
	for _, tau := range []float64{0.02, 1, 7.5, 300, 5000} {
		want := 0.0
		for k, w := range b.w {
			want += w * math.Exp(-1.3*tau*math.Ldexp(1, k-14))
		}
		if got := survival(b.w[:], 1.3, tau); math.Abs(got-want) > 1e-9*want+1e-15 {
			t.Errorf("survival over %g slots is %g, want %g", tau, got, want)
		}
	}
}

// The clock stands nearly still in empty slots.
func TestEpochClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := readEpoch(nil)
		want := []float64{0} // by slot
		for range rapid.IntRange(1, 300).Draw(t, "slots") {
			empty := rapid.Bool().Draw(t, "empty")
			slot := e.slot + 1
			if rapid.IntRange(0, 9).Draw(t, "gap") == 0 { // slots nobody told of are live
				want = append(want, want[len(want)-1]+1)
				slot++
			}
			e.close(slot, empty)
			step := 1.0
			if empty {
				step = 0.02
			}
			want = append(want, want[len(want)-1]+step)
			if rapid.IntRange(0, 20).Draw(t, "restart") == 0 {
				e = readEpoch(e.state())
			}
		}
		c := e.calendar()
		for slot, w := range want {
			if got := c.clock(uint64(slot)); math.Abs(got-w) > 1e-9 {
				t.Fatalf("the clock at the end of slot %d is %g, want %g", slot, got, w)
			}
		}
	})
	e := readEpoch(nil)
	for s := uint64(1); s < 12_000; s++ {
		e.close(s, s%3 == 0)
	}
	c := e.calendar()
	if got, want := c.clock(11_999)-c.clock(11_999-3000), 2000+1000*0.02; math.Abs(got-want) > 1 {
		t.Errorf("3000 slots took %g, want %g", got, want)
	}
	if c.clock(1) >= c.clock(2) || c.clock(11_999) >= c.clock(20_000) {
		t.Error("the clock goes backwards where it is not known")
	}
}

// Queries that share a constant with one that changed unexpectedly are excited,
// and what comes of it is learnt.
func TestKinAreExcited(t *testing.T) {
	p, _ := ParsePolicy("hybrid")
	plan := newPlanner(p, time.Hour)
	for i, constants := range [][]string{{"urn:a", "urn:b"}, {"urn:b"}, {"urn:c"}, {"urn:a"}} {
		q, s := known(p, fmt.Sprint("q", i), "1", "2")
		q.Constants = constants
		plan.put(q, s)
	}
	run := func(slot uint64, id string, changed bool) {
		plan.begin(slot, time.Unix(0, 0), 0)
		c := plan.all[id]
		plan.pick(c)
		s := c.Stats
		x := Sample{Slot: slot, Elapsed: time.Second, Changed: changed}
		s.State = p.Fold(s.State, s.Last, x)
		s.Remember(x)
		s.Executions++
		s.Last = slot
		plan.learn(c, s)
		plan.end(time.Unix(0, 0))
	}
	run(3, "q0", true)
	x := func(id string) float64 { return readBelief(plan.all[id].Stats.State).x }
	if got, want := x("q1"), 0.08/20; got != want || x("q3") != want || x("q0") != 0 || x("q2") != 0 {
		t.Errorf("excitations %g %g %g %g, want only those of q1 and q3 to be %g", x("q0"), x("q1"), x("q2"), x("q3"), want)
	}
	var kept []string
	for _, o := range plan.lessons(time.Unix(0, 0)) {
		kept = append(kept, o.Query)
	}
	slices.Sort(kept)
	if !slices.Equal(kept, []string{"q1", "q3"}) {
		t.Errorf("recorded on their own: %v", kept)
	}
	run(4, "q1", true)
	var hits, tries float64
	e := readEpoch(plan.shared)
	for k := range e.tries {
		hits, tries = hits+e.hits[k], tries+e.tries[k]
	}
	// It may have changed on its own: the excitation gets no more than its part.
	if tries != 1 || hits <= 0 || hits >= 1 || x("q1") != 0 {
		t.Errorf("%g hits of %g, excitation %g", hits, tries, x("q1"))
	}
}

// A pulse is a world in which a few queries change in every slot but each fourth,
// and no others ever do.
type pulse struct{ hot, queries int }

func (w pulse) Execute(query int, slot, last uint64) Known {
	k := Known{Outcome: registry.Unchanged, Elapsed: 100 * time.Millisecond}
	if query < w.hot && slot > 0 && slot-slot/4 > last-last/4 {
		k.Outcome, k.Jaccard = registry.Changed, 0.5
	}
	return k
}

func (pulse) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// When the first executions of a slot say that nothing has changed, the others
// that change often are not asked, but queries that have waited long.
func TestTurn(t *testing.T) {
	w := pulse{hot: 6, queries: 200}
	var queries []registry.Query
	for i := range w.queries {
		queries = append(queries, registry.Query{ID: fmt.Sprintf("q%04d", i)})
	}
	play := func(spelling string) (live, empty int) {
		p, err := ParsePolicy(spelling)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReplay(ReplayConfig{Policy: p, Rule: RuleStrict, Budget: time.Second, Queries: queries, World: w, Ring: true})
		if err != nil {
			t.Fatal(err)
		}
		for slot := uint64(1); slot <= 400; slot++ {
			hot, all := 0, 0
			r.Slot(func(x Played) {
				all++
				if x.Query < w.hot {
					hot++
				}
			})
			if all != 10 {
				t.Fatalf("%s, slot %d: %d executions, the budget holds 10", spelling, slot, all)
			}
			switch {
			case slot <= 200: // to learn
			case slot%4 == 0:
				empty += hot
			default:
				live += hot
			}
		}
		return live, empty
	}
	live, empty := play("hybrid:d=64:h=4")
	if live < 150*6-10 || empty > 50*3 {
		t.Errorf("queries that change: %d executions in 150 live slots, %d in 50 empty ones, want nearly all 6 and at most 3 a slot", live, empty)
	}
	if _, without := play("hybrid:d=64:h=4:no-turn"); without < 2*empty {
		t.Errorf("%d executions in empty slots with turns, %d without", empty, without)
	}
}

// A waning world's queries change a twentieth as often from some slot on, each
// from another, but for the first.
type waning struct{ steady }

func (w waning) Execute(query int, slot, last uint64) Known {
	wane := uint64(60 + 40*query)
	if query == 0 {
		return w.steady.Execute(query, slot, last)
	}
	k := Known{Outcome: registry.Unchanged, Elapsed: w.costs[query]}
	if last < wane {
		k = w.steady.Execute(query, min(slot, wane), last)
	}
	if later := (steady{costs: w.costs, rates: make([]float64, len(w.rates)), seed: w.seed}); slot > wane {
		later.rates[query] = w.rates[query] / 20
		if l := later.Execute(query, slot, max(last, wane)); l.Outcome == registry.Changed {
			k = l
		}
	}
	return k
}

// Queries that do not change together say nothing of each other, however many
// they are: no slot is taken for an empty one because they have not changed, and
// the clock costs nothing. Where they do change together, that is found out.
func TestTrust(t *testing.T) {
	play := func(spelling string, w World, queries int) (found int, e *epoch) {
		p, err := ParsePolicy(spelling)
		if err != nil {
			t.Fatal(err)
		}
		list := make([]registry.Query, queries)
		for i := range list {
			list[i] = registry.Query{ID: fmt.Sprintf("q%04d", i)}
		}
		r, err := NewReplay(ReplayConfig{Policy: p, Rule: RuleStrict, Budget: time.Second, Queries: list, World: w, Ring: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 600 {
			r.Slot(func(x Played) {
				if x.Outcome == registry.Changed {
					found++
				}
			})
		}
		return found, readEpoch(r.p.shared)
	}
	for seed := range uint64(8) {
		w := waning{steady{seed: seed}}
		for i := range 60 {
			w.costs = append(w.costs, 50*time.Millisecond)
			w.rates = append(w.rates, 0.002)
			if i < 12 {
				w.rates[i] = 0.35
			}
		}
		w.costs[0] = 300 * time.Millisecond
		found, e := play("hybrid:d=32:h=8", w, len(w.rates))
		without, _ := play("hybrid:d=32:h=8:no-clock", w, len(w.rates))
		if empty := e.fell + e.stayed; empty > 0 || float64(found) < 0.97*float64(without) {
			t.Errorf("seed %d: %g of 600 slots count as empty; %d changes found, %d without the clock", seed, empty, found, without)
		}
	}
	if _, e := play("hybrid:d=64:h=4", pulse{hot: 6, queries: 200}, 200); !e.trusted() || e.fell < 100 {
		t.Errorf("every fourth slot is an empty one: trust %g, %g of 600 count as empty", e.trust, e.fell)
	}
}

// Two witnesses that did not change, by hand: odds of 1:9 for an empty slot, and
// queries that change in half of the live ones.
func TestHeed(t *testing.T) {
	e := &epoch{trust: 1, came: 3, meant: 7}
	e.heed(math.Log(1.0/9), []witness{{p: 0.5}, {p: 0.5}})
	// To each the other says 0.98 to 0.5 for an empty slot, so 0.98:4.5 in all.
	empty := 0.98 / (0.98 + 4.5)
	by, itself := 1-(empty*0.02+(1-empty)*0.5), 1-4.0/8*0.5
	if want := 0.999 + 2*math.Log(by/itself); math.Abs(e.trust-want) > 1e-12 || math.Abs(e.came-2.94) > 1e-12 || math.Abs(e.meant-7.86) > 1e-12 {
		t.Errorf("trust %g, want %g; %g of %g came", e.trust, want, e.came, e.meant)
	}
	e = &epoch{}
	if e.heed(0, []witness{{p: 0.9}}); e.trust != 0 {
		t.Errorf("one witness alone proves %g", e.trust)
	}
}

// In whatever order queries are told, every policy makes the same choices; and
// strict never spends more than there is.
func TestEveryPolicyIsFair(t *testing.T) {
	outcomes := []registry.Outcome{registry.Unchanged, registry.Unchanged, registry.Changed, registry.Failed, registry.Cut}
	rapid.Check(t, func(t *rapid.T) {
		var spellings []string
		for _, d := range Policies() {
			if !d.Simulated {
				spellings = append(spellings, d.Name)
			}
		}
		p, err := ParsePolicy(rapid.SampledFrom(spellings).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		planners := []*planner{newPlanner(p, 10*time.Second), newPlanner(p, 10*time.Second)}
		var all []registry.Query
		for i := range rapid.IntRange(1, 14).Draw(t, "queries") {
			q := query(fmt.Sprintf("q%02d", i))
			q.Constants = []string{fmt.Sprint("urn:", i%4)}
			all = append(all, q)
		}
		for _, p := range planners {
			for _, q := range rapid.Permutation(all).Draw(t, "order") {
				p.put(q, Stats{})
			}
		}
		cost := rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, time.Second, 3 * time.Second, 6 * time.Second, 11 * time.Second})
		for slot := uint64(1); slot <= 20; slot++ {
			type fate struct {
				took    time.Duration
				outcome registry.Outcome
			}
			fates := map[string]fate{}
			for _, q := range all {
				fates[q.ID] = fate{cost.Draw(t, "cost"), rapid.SampledFrom(outcomes).Draw(t, "outcome")}
			}
			play := func(id string) (time.Duration, registry.Outcome) { return fates[id].took, fates[id].outcome }
			want, got := slotOf(t, planners[0], slot, play), slotOf(t, planners[1], slot, play)
			if !slices.Equal(got, want) {
				t.Fatalf("slot %d under %s: %v in one order, %v in another", slot, p, want, got)
			}
		}
	})
}
