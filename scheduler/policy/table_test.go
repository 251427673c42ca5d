package policy_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/shadow"
)

// A hunch uses everything that a policy can do: it keeps a table and a state for
// each query, learns across queries, and observes executions. The worth of a query
// is its age times the rate of its changes, shrunk towards the rate of all queries.
// When the first two executions of a slot find a change, the cheapest queries go
// next.
type hunch struct{ draw float64 }

func hunchDefinition() policy.Definition {
	return policy.Definition{
		Name: "hunch", Doc: "a test of all interfaces", Source: "this test",
		Params: []policy.Param{{Name: "draw", Default: "2", Doc: "executions that the rate of all counts for"}},
		Build: func(a policy.Args) (policy.Policy, error) {
			d, err := a.Number("draw")
			return hunch{d}, err
		},
	}
}

func init() { scheduler.Register(hunchDefinition()) }

func (p hunch) String() string { return "hunch:draw=" + policy.FormatNumber(p.draw) }

// The state holds the number of executions, the number of changes they found, and
// the number of changes of related queries since the last one.
func (p hunch) Fold(state []float64, _ uint64, x policy.Sample) []float64 {
	next := append(slices.Clone(state), 0, 0, 0)[:3]
	next[0]++
	if next[2] = 0; x.Changed {
		next[1]++
	}
	return next
}

func (hunch) Key(c *policy.Candidate) policy.Key { return policy.Key{Value: float64(c.Stats.Last)} }

func (hunch) Inputs(c *policy.Candidate) map[string]float64 {
	return map[string]float64{"last": float64(c.Stats.Last)}
}

func (p hunch) rate(c *policy.Candidate, shared []float64) float64 {
	s := append(slices.Clone(c.Stats.State), 0, 0, 0)[:3]
	mean := 0.5
	if len(shared) == 2 && shared[0] > 0 {
		mean = shared[1] / shared[0]
	}
	return (s[1] + s[2] + mean*p.draw) / (s[0] + p.draw)
}

// Absorb counts the endpoint's executions and changes, and adds a change to the
// states of queries that share a constant with the changed one.
func (p hunch) Absorb(m policy.Moment, ran []*policy.Candidate, related func(*policy.Candidate) []*policy.Candidate) policy.Lesson {
	shared := append(slices.Clone(m.Shared), 0, 0)[:2]
	l := policy.Lesson{Shared: shared}
	for _, c := range ran {
		shared[0]++
		last := c.Stats.Samples[len(c.Stats.Samples)-1]
		if !last.Changed {
			continue
		}
		shared[1]++
		for _, o := range related(c) {
			if o.Stats.Last < m.Slot {
				s := append(slices.Clone(o.Stats.State), 0, 0, 0)[:3]
				s[2]++
				l.States = append(l.States, policy.Taught{Candidate: o, State: s, Keep: true})
			}
		}
	}
	return l
}

// calls counts the calls of tables.
var calls struct{ plans, turns, observed int }

type hunchTable struct {
	p        hunch
	rows     []*policy.Candidate
	rest     []policy.Ranked
	observed int
	shared   []float64
}

func (p hunch) NewTable() policy.Table { return &hunchTable{p: p} }

func (t *hunchTable) Put(c *policy.Candidate) {
	if c.Row == 0 {
		t.rows = append(t.rows, c)
		c.Row = int32(len(t.rows))
	}
}

func (t *hunchTable) Remove(c *policy.Candidate) {
	last := t.rows[len(t.rows)-1]
	t.rows[c.Row-1], last.Row = last, c.Row
	t.rows, c.Row = t.rows[:len(t.rows)-1], 0
}

func (t *hunchTable) Plan(m policy.Moment) policy.Ranking {
	calls.plans++
	t.shared = m.Shared
	t.rest = t.rest[:0]
	for _, c := range t.rows {
		k := policy.Key{Class: 1, Value: -t.worth(m, c)}
		if m.Turned {
			k = policy.Key{Value: c.Estimate.Seconds()}
		}
		t.rest = append(t.rest, policy.Ranked{Candidate: c, Key: k})
	}
	if t.observed = 0; m.Turned {
		calls.turns++
		t.observed = math.MinInt32
	}
	slices.SortFunc(t.rest, func(a, b policy.Ranked) int {
		return cmp.Or(cmp.Compare(a.Key.Value, b.Key.Value), cmp.Compare(a.Candidate.Stats.Last, b.Candidate.Stats.Last),
			cmp.Compare(a.Candidate.Query.ID, b.Candidate.Query.ID))
	})
	return policy.Ranking{Inputs: map[string]float64{"queries": float64(len(t.rows))}}
}

func (t *hunchTable) worth(m policy.Moment, c *policy.Candidate) float64 {
	return t.p.rate(c, m.Shared) * float64(m.Slot-min(m.Slot, c.Stats.Last))
}

func (t *hunchTable) Next() []policy.Ranked {
	n := min(3, len(t.rest))
	next := t.rest[:n]
	t.rest = t.rest[n:]
	return slices.DeleteFunc(slices.Clone(next), func(x policy.Ranked) bool { return x.Candidate.Row == 0 })
}

func (t *hunchTable) Least() time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, x := range t.rest {
		least = min(least, x.Candidate.Estimate)
	}
	return least
}

func (t *hunchTable) Observe(_ *policy.Candidate, changed bool) bool {
	calls.observed++
	if t.observed++; !changed {
		t.observed = math.MinInt32
	}
	return t.observed == 2
}

func (t *hunchTable) Explain(m policy.Moment, c *policy.Candidate) map[string]float64 {
	return map[string]float64{"worth": t.worth(m, c), "state": float64(len(c.Stats.State))}
}

// An uneven world has queries that change in each slot, and others that never
// change.
type uneven struct{}

func (uneven) Execute(query int, slot, _ uint64) plan.Known {
	k := plan.Known{Outcome: registry.Unchanged, Elapsed: time.Duration(10+query) * time.Millisecond}
	if query%4 == 0 && slot > 0 {
		k.Outcome, k.Jaccard = registry.Changed, 0.5
	}
	return k
}

func (uneven) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// TestTableInSimulator runs a policy of another package in the simulator.
func TestTableInSimulator(t *testing.T) {
	p, err := scheduler.ParsePolicy("hunch:draw=3")
	if err != nil || p.String() != "hunch:draw=3" {
		t.Fatal(p, err)
	}
	var queries []registry.Query
	for i := range 40 {
		queries = append(queries, registry.Query{ID: fmt.Sprintf("q%02d", i), Constants: []string{fmt.Sprint("urn:", i%20)}})
	}
	before := calls
	r, err := plan.NewReplay(plan.ReplayConfig{Policy: p, Rule: plan.RuleStrict, Budget: 300 * time.Millisecond, Queries: queries, World: uneven{}, Ring: true})
	if err != nil {
		t.Fatal(err)
	}
	changing, others := 0, 0
	for range 200 {
		r.Slot(func(x plan.Played) {
			if x.Query%4 == 0 {
				changing++
			} else {
				others++
			}
		})
	}
	if changing*30*2 < others*10*3 || others < 30 { // half as often again, for each query
		t.Errorf("%d executions of 10 queries that change in each slot, %d of 30 that never do", changing, others)
	}
	if n := calls.observed - before.observed; n < 2*200 || n > changing+others {
		t.Errorf("the table observed %d of %d executions", n, changing+others)
	}
	if calls.turns == before.turns || calls.plans-before.plans != 200+calls.turns-before.turns {
		t.Errorf("%d plans, %d of them in the middle of a slot", calls.plans-before.plans, calls.turns-before.turns)
	}
}

// A counting executor answers at once; the result of every fourth query is new each
// time.
type counting struct {
	t *testing.T
	n map[string]int
}

func (x *counting) Execute(_ context.Context, q *registry.Query, _ scheduler.Memory, _ time.Duration) scheduler.Answer {
	x.n[q.ID]++
	row := "same"
	if q.Constants[0] == "urn:0" {
		row = fmt.Sprint("row", x.n[q.ID])
	}
	return scheduler.Answer{Outcome: registry.Changed, Result: schedulertest.Rows(x.t, row), Elapsed: 100 * time.Millisecond}
}

func (*counting) Health() registry.Health { return registry.Health{State: registry.Healthy} }

// The policy runs in the live loop, which records what it learns, and in a shadow.
func TestTableInLoopAndShadow(t *testing.T) {
	ledger := &schedulertest.Memory{}
	for i := range 12 {
		q := schedulertest.Query("city", fmt.Sprintf("q%02d", i))
		q.Constants = []string{fmt.Sprint("urn:", i%4)}
		if err := ledger.Register(q); err != nil {
			t.Fatal(err)
		}
	}
	m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
	x := &counting{t, map[string]int{}}
	e := registry.Endpoint{
		Name: "city", URL: "http://127.0.0.1/sparql", Slot: scheduler.Never, Policy: "hunch", Concurrency: 1,
		Budget: registry.Duration(500 * time.Millisecond), Timeout: registry.Duration(time.Second), Shadows: []string{"hunch:draw=9", "rr"}, Merge: registry.MergeOff,
	}
	if err := m.Add(e, x); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for range 30 {
		if _, err := m.Tick(ctx, "city"); err != nil {
			t.Fatal(err)
		}
	}
	often, seldom := 0, 0
	news, err := ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range news.Entries {
		if q.Query.Constants[0] == "urn:0" {
			often += x.n[q.Query.ID]
		} else {
			seldom += x.n[q.Query.ID]
		}
		if n := len(q.Stats.State); n != 3 {
			t.Errorf("the state of %s has %d numbers", q.Query.ID, n)
		}
	}
	if often*9*2 < seldom*3*3 {
		t.Errorf("%d executions of 3 queries that always change, %d of 9 that never do", often, seldom)
	}
	if p := news.Policy; p.Policy != "hunch:draw=2" || len(p.State) != 2 || p.State[0] < 100 {
		t.Errorf("recorded of the endpoint: %+v", p)
	}
	why, err := m.Explain("city", news.Entries[0].Query.ID)
	if err != nil || why.Inputs["state"] != 3 || why.Inputs["queries"] != 12 {
		t.Errorf("explained by %v, %v", why.Inputs, err)
	}
	s, err := shadow.NewComparer(m, ledger).Compare(ctx, "city")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range s.Policies {
		if x.Estimate == nil || x.Estimate.Total.Mean == 0 {
			t.Errorf("the shadow of %s: %+v", x.Policy, x.Estimate)
		}
	}
}
