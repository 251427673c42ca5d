package plan_test

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/hybrid"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

var rewrite = flag.Bool("update", false, "write the golden file again")

// The golden file has a hash of what a planner starts, for each policy and rule, with one
// and with three executions at a time: which query, in which slot and tier, with which
// limit, and what previews and places say. Queries are added, edited, paused and removed,
// hints and refresh requests arrive, and executions outside the grid run between slots.
func TestGoldenPlans(t *testing.T) {
	var got bytes.Buffer
	for _, d := range append(policy.Definitions(), hybrid.Definition()) {
		for _, rule := range []plan.Rule{plan.RuleStrict, plan.RuleDebt} {
			for _, width := range []int{1, 3} {
				p, err := policy.Parse([]policy.Definition{d}, d.Spelling())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "%s %s width=%d: %016x\n", p, rule, width, playGolden(p, rule, width))
			}
		}
	}
	path := filepath.Join("testdata", "plans.golden.txt")
	if *rewrite {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	was, now := strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")
	for i := range max(len(was), len(now)) {
		if i >= len(was) || i >= len(now) || was[i] != now[i] {
			t.Fatalf("line %d: want %s, got %s", i+1, was[min(i, len(was)-1)], now[min(i, len(now)-1)])
		}
	}
}

// A goldenWorld drives a planner and writes down what it does.
type goldenWorld struct {
	r       *rand.Rand
	p       *plan.Planner
	policy  policy.Policy
	now     time.Time
	log     func(a ...any)
	queries map[string]registry.Query
	stats   map[string]policy.Stats
	ids     []string
	running map[*plan.Execution]registry.Answer
	order   []*plan.Execution
}

func playGolden(p policy.Policy, rule plan.Rule, width int) uint64 {
	h := fnv.New64a()
	g := &goldenWorld{
		r: rand.New(rand.NewPCG(5, 9)), p: plan.New(p, 4*time.Second), policy: p, now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		log:     func(a ...any) { fmt.Fprintln(h, a...) },
		queries: map[string]registry.Query{}, stats: map[string]policy.Stats{}, running: map[*plan.Execution]registry.Answer{},
	}
	g.p.SetBudget(rule, 4*time.Second)
	for range 60 {
		g.register()
	}
	for range 120 {
		g.between()
		g.slot(width)
	}
	return h.Sum64()
}

func (g *goldenWorld) register() {
	n := len(g.queries)
	q := registry.Query{
		ID: fmt.Sprintf("q_%03d_%d", g.r.IntN(1000), n), Endpoint: "city", Form: diff.Select, CreatedAt: g.now,
		Text:      fmt.Sprintf("SELECT ?s { ?s <http://e/p%d> <http://e/o%d> }", n%7, n%11),
		Constants: []string{fmt.Sprintf("http://e/o%d", n%11), fmt.Sprintf("http://e/p%d", n%7)},
		Holders:   []registry.Holder{{Caller: registry.Anonymous}},
	}
	switch n % 9 {
	case 3:
		q.Holders[0].MinInterval = registry.Duration(3 * time.Minute)
	case 5:
		q.Holders[0].MaxStaleness = registry.Duration(10 * time.Minute)
	case 7:
		from := g.now.Add(20 * time.Minute)
		q.Holders[0].From = &from
	}
	g.ids = append(g.ids, q.ID)
	g.put(q)
}

func (g *goldenWorld) put(q registry.Query) {
	g.queries[q.ID] = q
	s := g.stats[q.ID]
	g.p.Update(g.now, plan.Update{Entries: []policy.Entry{{Query: q, Stats: s}}})
}

// between changes something before a slot.
func (g *goldenWorld) between() {
	for range g.r.IntN(3) {
		id := g.ids[g.r.IntN(len(g.ids))]
		q := g.queries[id]
		switch g.r.IntN(8) {
		case 0:
			g.register()
		case 1:
			q.Refreshes++
			g.put(q)
		case 2:
			g.log("hint", g.p.Proofs().Hint(registry.Hint{Touched: []string{fmt.Sprintf("http://e/o%d", g.r.IntN(11))}}, g.now).Affected)
		case 3:
			g.log("all", g.p.Proofs().Hint(registry.Hint{All: true}, g.now).Affected)
		case 4:
			g.p.Update(g.now, plan.Update{Removed: []string{id}})
			delete(g.stats, id)
			g.put(q)
		case 5:
			g.p.Refresh(g.now)
			x, ok := g.p.Explain(id, g.now)
			g.log(id, ok, x.Rank, x.Of, x.Slots, x.Code, x.Why)
		case 6:
			g.offGrid()
		case 7:
			g.log(g.p.Census().Results, g.p.Count(registry.Live))
		}
	}
	g.now = g.now.Truncate(time.Minute).Add(time.Minute)
}

func (g *goldenWorld) offGrid() {
	cost, all, ok := g.p.OffGridCost(g.now)
	g.log("off grid", cost, all, ok)
	if !ok {
		return
	}
	s := g.p.BeginOffGrid(g.now, g.now.Add(20*time.Second), plan.Terms{Lead: time.Minute, Width: 1, Timeout: 3 * time.Second}, 2*time.Second)
	g.run(s, 1)
	g.p.EndOffGrid(g.now)
}

func (g *goldenWorld) slot(width int) {
	s := g.p.Begin(g.now, plan.Terms{Lead: time.Minute, Width: width, Timeout: 3 * time.Second})
	n, cost := s.Preview()
	g.log("slot", g.p.Slot(), n, cost)
	g.run(s, width)
	e := g.p.End(g.now, "")
	g.p.Owe(s.Totals().Debt)
	g.log(e.Waiting, e.Stretch, len(e.Taught), s.Totals())
}

// run starts executions and ends them, the shortest first.
func (g *goldenWorld) run(s *plan.SlotBudget, width int) {
	for {
		for len(g.order) < width {
			x := s.Next(g.now)
			if x == nil {
				break
			}
			g.log(x.Query().ID, x.Tier(), s.Limit(x))
			g.order = append(g.order, x)
			g.running[x] = g.answer(x)
		}
		if len(g.order) == 0 {
			return
		}
		first := 0
		for i, x := range g.order {
			if g.ends(s, x).Before(g.ends(s, g.order[first])) {
				first = i
			}
		}
		x := g.order[first]
		g.order = append(g.order[:first], g.order[first+1:]...)
		if end := g.ends(s, x); end.After(g.now) {
			g.now = end
		}
		g.finish(s, x)
	}
}

func (g *goldenWorld) ends(s *plan.SlotBudget, x *plan.Execution) time.Time {
	return g.now.Add(-x.Elapsed(g.now)).Add(min(g.running[x].Elapsed, s.Limit(x)))
}

// answer decides what an execution finds. Some queries change together.
func (g *goldenWorld) answer(x *plan.Execution) registry.Answer {
	id, slot := x.Query().ID, g.p.Slot()
	var n uint64
	for _, b := range []byte(id) {
		n = n*31 + uint64(b)
	}
	a := registry.Answer{Outcome: registry.Unchanged, Elapsed: time.Duration(20+n%37*n%41) * time.Millisecond}
	if n%23 == 0 {
		a.Elapsed *= 8
	}
	switch {
	case x.Stats().Executions == 0:
		a.Outcome = registry.Changed
	case n%19 == 0 && slot%5 == 0:
		a.Outcome = registry.Failed
	case n%3 == 0 && slot%4 < 2, n%7 == 0 && (slot+n)%17 == 0:
		a.Outcome = registry.Changed
	}
	if limit := a.Elapsed; limit > 3*time.Second {
		a = registry.Answer{Outcome: registry.Timeout, Elapsed: 3 * time.Second}
	}
	return a
}

func (g *goldenWorld) finish(s *plan.SlotBudget, x *plan.Execution) {
	a := g.running[x]
	delete(g.running, x)
	if limit := s.Limit(x); a.Elapsed > limit {
		a = registry.Answer{Outcome: registry.Cut, Elapsed: limit}
	}
	a, whole := s.Finish(x, a, false)
	st, slot := x.Stats(), g.p.Slot()
	if a.Outcome.Complete() {
		sample := policy.Sample{Slot: slot, Elapsed: a.Elapsed, Changed: a.Outcome == registry.Changed && st.Executions > 0}
		st.Complete(g.policy, sample)
		st.Remember(sample)
		st.CheckedAt, st.Served = g.now, x.Served()
	} else {
		st.Incomplete(policy.Attempt{Slot: slot, At: g.now, Outcome: a.Outcome, Elapsed: a.Elapsed, Whole: whole})
	}
	st.LastRun = policy.Run{Slot: slot, At: g.now, Elapsed: a.Elapsed, Outcome: a.Outcome, Why: x.Tier()}
	g.log(x.Query().ID, a.Outcome, a.Elapsed, whole)
	s.Record(x, &plan.Completion{Stats: &st, Checked: g.now, At: g.now})
	g.stats[x.Query().ID] = st.Clone()
}
