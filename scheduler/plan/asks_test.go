package plan

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
)

// cohorts puts the queries of a planner into cohorts of a size.
func cohorts(p *Planner, size int) {
	for i, q := range p.Unclassified(len(p.all)) {
		key := fmt.Sprintf("t_%d", i/size)
		p.Classify(q.ID, Membership{Key: key, Template: key, Probes: true, Arguments: []string{"<" + q.ID + ">"}})
	}
}

// settleAsk records that a request was complete and nothing has changed. It returns the
// number of its members.
func settleAsk(s *SlotBudget, x *Execution, took time.Duration) int {
	members := x.Members()
	a, _ := s.Finish(x, registry.Answer{Outcome: registry.Unchanged, Elapsed: took}, false)
	shares := []time.Duration{a.Elapsed}
	if len(members) > 1 {
		shares = s.Answered(x, make([]int, len(members)), len(members), a.Elapsed)
	}
	for i, m := range members {
		st := m.Stats()
		sample := policy.Sample{Slot: s.p.slot, Elapsed: shares[i]}
		st.Complete(s.p.policy, sample)
		st.Remember(sample)
		st.LastRun = policy.Run{Slot: s.p.slot, Outcome: registry.Unchanged, Elapsed: shares[i]}
		s.Record(m, &Completion{Stats: &st})
	}
	return len(members)
}

// In any slot, each query starts at most once, requests stay within the rows and the
// time that they may take, and refresh requests are asked alone.
func TestRidersKeepTheRules(t *testing.T) {
	for _, name := range []string{"rr", "hybrid", "sqrt", "dj", "ttl:max=8:half"} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 0))
			list := registered(2000)
			for i := range list {
				list[i].Stats.Rows = r.IntN(50)
				if i%50 == 0 {
					list[i].Query.Refreshes = 1
				}
			}
			p := planned(t, name, list)
			cohorts(p, 100)
			now, merged := began.Add(time.Hour), 0
			for range 30 {
				s := p.Begin(now, Terms{Width: 1, Timeout: time.Minute, Merging: Merging{Mode: registry.MergeProbe, Rows: 400}})
				ran := map[string]bool{}
				for len(ran) < 1000 {
					x, rows := s.Next(now), 0
					if x == nil {
						break
					}
					for _, m := range x.Members() {
						rows += m.Stats().Rows
						if id := m.Query().ID; ran[id] {
							t.Fatalf("%s runs twice in a slot", id)
						}
						ran[m.Query().ID] = true
					}
					switch {
					case len(x.Riders()) == 0:
					case x.Tier() == TierRefresh:
						t.Fatal("a refresh request is not alone")
					case x.Kind() == cohort.Values && rows > 400:
						t.Fatalf("%d rows in a request", rows)
					default:
						merged++
					}
					if len(x.Riders()) > 0 && r.IntN(10) == 0 {
						a, _ := s.Finish(x, registry.Answer{Outcome: registry.Failed, Elapsed: time.Millisecond}, false)
						s.Void(x, true, "it failed", a.Elapsed)
						if a.Outcome != registry.Failed {
							t.Fatal(a)
						}
						for _, m := range x.Members() { // asked again in this slot
							delete(ran, m.Query().ID)
						}
						continue
					}
					now = now.Add(time.Millisecond)
					settleAsk(s, x, time.Duration(1+len(x.Members()))*time.Millisecond)
				}
				p.End(now, "")
				for id, c := range p.all {
					if c.ran || c.member.asked {
						t.Fatalf("%s is still running after the slot", id)
					}
				}
				now = now.Add(time.Minute)
			}
			if merged == 0 {
				t.Error("nothing was merged")
			}
		})
	}
}

// Requests are expected to take a quarter of the timeout and half of the rest of the budget
// at most, once costs are known, and their text stays short, however long constants are.
func TestRequestsStayShort(t *testing.T) {
	for _, x := range []struct {
		budget, timeout, each, most time.Duration // each is the cost of a member
		constant, members           int           // bytes of a constant, and how many members at least
	}{
		{time.Hour, 8 * time.Second, 100 * time.Millisecond, 2 * time.Second, 30, 18},
		{4 * time.Second, time.Minute, 100 * time.Millisecond, 2100 * time.Millisecond, 30, 18},
		{time.Hour, time.Hour, time.Microsecond, time.Second, 1000, 40},
	} {
		list := registered(400)
		for i := range list {
			list[i].Stats.Executions, list[i].Stats.Rows = 40, 1
			list[i].Stats.Samples = nil
			list[i].Stats.Remember(policy.Sample{Elapsed: x.each})
		}
		p := planned(t, "rr", list)
		for _, q := range p.Unclassified(len(p.all)) {
			p.Classify(q.ID, Membership{Key: "t", Template: "t", Arguments: []string{"<http://x/" + q.ID + strings.Repeat("x", x.constant) + ">"}})
		}
		k := p.all[list[0].Query.ID].cohort
		for range 100 {
			k.Asked(cohort.Single, 1, 1, 1, x.each)
			for n := 1; n <= cohort.MaxMembers; n *= 2 { // the limit of members grows
				k.Asked(cohort.Values, n, n, n, time.Duration(n)*x.each)
			}
		}
		p.SetBudget(RuleStrict, x.budget)
		now, most := began.Add(time.Hour), 0
		s := p.Begin(now, Terms{Width: 1, Timeout: x.timeout, Merging: Merging{Mode: registry.MergeValues}})
		for range 5 {
			r := s.Next(now)
			if r == nil {
				break
			}
			text, members := 0, r.Members()
			for _, m := range members {
				text += len(m.Arguments()[0])
			}
			most = max(most, len(members))
			if takes := time.Duration(len(members)) * x.each; takes > x.most || text > 48<<10 {
				t.Errorf("%+v: %d members, expected to take %s, with %d bytes", x, len(members), takes, text)
			}
			settleAsk(s, r, time.Duration(len(members))*x.each)
		}
		if most < x.members {
			t.Errorf("%+v: %d members at most", x, most)
		}
	}
}

// A removed query leaves its cohort, and the last one takes the cohort along.
func TestRemovedQueriesLeaveTheirCohort(t *testing.T) {
	p := planned(t, "rr", registered(100))
	p.drop("q0000003") // before it was classified
	cohorts(p, 10)
	for i := range 100 {
		p.drop(fmt.Sprintf("q%07d", i))
	}
	if len(p.cohorts) != 0 || len(p.checks) != 0 {
		t.Errorf("%d cohorts and %d checks are left", len(p.cohorts), len(p.checks))
	}
	for i := range 1000 { // merging is off: nothing is classified
		p.put(query(fmt.Sprint(i)), policy.Stats{})
		p.drop(fmt.Sprint(i))
	}
	if len(p.strangers) > 100 {
		t.Errorf("%d removed queries are kept", len(p.strangers))
	}
}

// Riders are the members of the cohort that the policy ranks next. Members that would not
// start within a budget do not ride.
func TestRidersRankNext(t *testing.T) {
	for _, name := range []string{"rr", "sqrt", "cr", "hybrid"} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 0))
			list := registered(3000)
			for i := range list {
				list[i].Stats.Last = uint64(1 + r.IntN(8))
			}
			p := planned(t, name, list)
			for i, q := range p.Unclassified(len(p.all)) {
				key := fmt.Sprintf("t_%d", i%5)
				p.Classify(q.ID, Membership{Key: key, Template: key, Probes: true, Arguments: []string{"<" + q.ID + ">"}})
			}
			now, checked := began.Add(time.Hour), 0
			for range 6 {
				s := p.Begin(now, Terms{Width: 1, Timeout: time.Minute, Merging: Merging{Mode: registry.MergeValues}})
				for range 4 {
					place := map[*item]int{}
					for c := range p.ranked.all {
						place[c] = len(place)
					}
					of := map[*cohortOf][]*item{}
					for c := range place {
						if k := c.cohort; c.mergeable() {
							of[k] = append(of[k], c)
						}
					}
					x := s.Next(now)
					if x == nil || len(x.Riders()) == 0 || x.Tier() != TierRanked {
						break
					}
					members := of[x.c.cohort]
					slices.SortFunc(members, func(a, b *item) int { return place[a] - place[b] })
					for i, m := range x.Members() {
						if m.c != members[i] {
							t.Fatalf("member %d is number %d of the order, not number %d", i, place[m.c], place[members[i]])
						}
						checked++
					}
					settleAsk(s, x, 50*time.Millisecond)
				}
				p.End(now, "")
				now = now.Add(time.Minute)
			}
			if checked < 100 {
				t.Errorf("only %d members", checked)
			}
		})
	}
}

// A query that nearly always changes is asked alone, and is no rider. The others are
// asked together.
func TestLikelyChangesAreAskedAlone(t *testing.T) {
	list := registered(20)
	for i := range list {
		list[i].Stats.Last, list[i].Stats.Executions = 1, 40
		if i < 5 {
			list[i].Stats.Changes = 39
		}
	}
	p := planned(t, "rr", list)
	cohorts(p, 20)
	k := p.all[list[0].Query.ID].cohort
	k.Asked(cohort.Single, 1, 1, 0, 10*time.Millisecond)
	k.Asked(cohort.Values, 10, 10, 10, 40*time.Millisecond)
	k.Asked(cohort.Values, 5, 5, 5, 20*time.Millisecond)
	now, together, alone := began.Add(time.Hour), 0, 0
	s := p.Begin(now, Terms{Width: 1, Timeout: time.Minute, Merging: Merging{Mode: registry.MergeAuto}})
	for x := s.Next(now); x != nil; x = s.Next(now) {
		for _, m := range x.Members() {
			switch changes := m.c.Stats.Changes > 0; {
			case changes && len(x.Riders()) > 0:
				t.Errorf("%s is asked with %d others", m.c.Query.ID, len(x.Riders()))
			case changes:
				alone++
			case len(x.Riders()) > 0:
				together++
			}
		}
		settleAsk(s, x, 10*time.Millisecond)
	}
	if alone != 5 || together < 10 {
		t.Errorf("%d asked alone, %d together", alone, together)
	}
}

// BenchmarkAsks measures the planning of a slot with a thousand executions, one by one
// and merged, in processor time: the median of the slots, and the tenth part that other
// work on the machine disturbed least. The members of a cohort are everywhere in the
// order.
//
// With 100,000 queries, merging adds 18 to 20 % under rr (0.86 ms without) and 4 to 5 %
// under hybrid (26 ms), medians of six runs on an idle machine, and about twice as much
// under rr on a busy one. Under rr nearly all of it are reads of queries from memory: the
// window looks at twice as many as join a request. For the same number of executions there
// are 53 requests instead of 1,000.
func BenchmarkAsks(b *testing.B) {
	const executed = 1000
	for _, n := range []int{10_000, 100_000} {
		for _, name := range []string{"rr", "hybrid"} {
			for _, mode := range []string{registry.MergeOff, registry.MergeValues} {
				b.Run(fmt.Sprintf("queries=%d/policy=%s/merge=%s", n, name, mode), func(b *testing.B) {
					p := planned(b, name, registered(n))
					for i, q := range p.Unclassified(n) {
						key := fmt.Sprint("t_", i*7919%(n/200))
						p.Classify(q.ID, Membership{Key: key, Template: key, Probes: true, Arguments: []string{"<" + q.ID + ">"}})
					}
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					now, asks, slots := began.Add(time.Hour), 0, []time.Duration{}
					for b.Loop() {
						start := processor(b)
						s := p.Begin(now, Terms{Lead: time.Minute, Width: 1, Timeout: time.Hour, Merging: Merging{Mode: mode}})
						for ran := 0; ran < executed; asks++ {
							ran += settleAsk(s, s.Next(now), time.Millisecond)
						}
						p.End(now, "")
						slots = append(slots, processor(b)-start)
						now = now.Add(time.Minute)
					}
					slices.Sort(slots)
					b.ReportMetric(float64(slots[len(slots)/2].Microseconds()), "cpu-µs/slot")
					b.ReportMetric(float64(slots[len(slots)/10].Microseconds()), "quiet-µs/slot")
					b.ReportMetric(float64(asks)/float64(b.N), "asks/slot")
				})
			}
		}
	}
}

// A replay with merged requests executes far more within the same budget, finds more, and
// keeps to the budget.
func TestReplayMerges(t *testing.T) {
	queries := make([]registry.Query, 600)
	for i := range queries {
		queries[i] = query(fmt.Sprintf("q%07d", i))
	}
	const budget = 2 * time.Second
	play := func(name, mode string) (executions, found int) {
		m := &MergedWorld{
			Mode: mode, Template: func(q int) string { return fmt.Sprint("t", q%6) }, Rows: func(int) int { return 10 },
			Cost: func(_ uint64, k cohort.Kind, queries []int) time.Duration {
				per := 20 * time.Millisecond
				if k == cohort.Probe {
					per = 5 * time.Millisecond
				}
				return 100*time.Millisecond + time.Duration(len(queries))*per
			},
		}
		r, err := NewReplay(ReplayConfig{Policy: named(name), Rule: RuleStrict, Budget: budget, Queries: queries, World: seldom{},
			First: 1, Ring: true, Merged: m})
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			used := time.Duration(0)
			r.Slot(func(x Played) {
				used += x.Elapsed
				if x.Outcome.Complete() {
					executions++
				}
				if x.Outcome == registry.Changed {
					found++
				}
			})
			if used > budget {
				t.Fatalf("%s, merge %s: a slot used %s", name, mode, used)
			}
		}
		return executions, found
	}
	for _, name := range []string{"rr", "hybrid"} {
		alone, few := play(name, registry.MergeOff)
		for _, mode := range []string{registry.MergeValues, registry.MergeProbe, registry.MergeAuto} {
			merged, found := play(name, mode)
			t.Logf("%s: %d executions alone find %d changes; merge %s: %d find %d", name, alone, few, mode, merged, found)
			if merged < 5*alone/2 || found <= few {
				t.Errorf("%s: %d executions alone find %d changes; merge %s: %d find %d", name, alone, few, mode, merged, found)
			}
		}
	}
}

// seldom is a world in which every query takes 100 ms and changes every 160 slots.
type seldom struct{}

func (seldom) Execute(query int, slot, last uint64) Known {
	version := func(s uint64) uint64 { return (s + uint64(query)) / 160 }
	k := Known{Outcome: registry.Unchanged, Elapsed: 100 * time.Millisecond}
	if version(slot) != version(last) {
		k.Outcome, k.Jaccard = registry.Changed, 0.5
	}
	return k
}

func (seldom) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// Results that are too large for merged answers are probed: a kind whose requests can hold
// only one query is passed over.
func TestLargeResultsAreProbed(t *testing.T) {
	for _, mode := range []string{registry.MergeAuto, registry.MergeProbe} {
		list := registered(200)
		for i := range list {
			list[i].Stats.Executions, list[i].Stats.Rows = 10, 3000
		}
		p := planned(t, "rr", list)
		cohorts(p, len(list))
		now, kinds := began.Add(time.Hour), map[cohort.Kind]int{}
		for range 20 {
			s := p.Begin(now, Terms{Width: 1, Timeout: time.Minute, Merging: Merging{Mode: mode}})
			for range 20 {
				x := s.Next(now)
				if x == nil {
					break
				}
				kinds[x.Kind()]++
				settleAsk(s, x, time.Duration(1+len(x.Members()))*time.Millisecond)
			}
			p.End(now, "")
			now = now.Add(time.Minute)
		}
		if kinds[cohort.Probe] == 0 || kinds[cohort.Single] > len(list) { // each has to be read in full once
			t.Errorf("%s: requests %v", mode, kinds)
		}
	}
}

// Explain shows the request that last answered a query, and the query's part of its time:
// not a merged one whose answer was left open, nor the time of an execution that failed.
func TestLastAskIsTheOneThatAnswered(t *testing.T) {
	p := planned(t, "rr", registered(10))
	cohorts(p, 10)
	now := began.Add(time.Hour)
	s := p.Begin(now, Terms{Width: 1, Timeout: time.Minute, Merging: Merging{Mode: registry.MergeValues}})
	x := s.Next(now)
	members := x.Members()
	if len(members) != 10 {
		t.Fatalf("%d members", len(members))
	}
	record := func(m *Execution, o registry.Outcome, took time.Duration) {
		st := m.Stats()
		if o.Complete() {
			st.Complete(p.policy, policy.Sample{Slot: p.slot, Elapsed: took})
		} else {
			st.Incomplete(policy.Attempt{Slot: p.slot, Outcome: o, Elapsed: took})
		}
		st.LastRun = policy.Run{Slot: p.slot, Outcome: o, Elapsed: took}
		s.Record(m, &Completion{Stats: &st})
	}
	asked := func(m *Execution) *LastAsk {
		e, _ := p.Explain(m.Query().ID, now)
		return e.LastAsk
	}
	a, _ := s.Finish(x, registry.Answer{Outcome: registry.Unchanged, Elapsed: 20 * time.Millisecond}, false)
	shares := s.Answered(x, make([]int, 10), 9, a.Elapsed)
	left := members[3]
	s.AskAlone(left, false)
	for i, m := range members {
		if m != left {
			record(m, registry.Unchanged, shares[i])
		}
	}
	if k := asked(left); k != nil {
		t.Errorf("a query that the merged answer left open: %+v", k)
	}
	if k := asked(members[0]); k == nil || k.Members != 10 || k.ShareSeconds != shares[0].Seconds() || k.Seconds != a.Elapsed.Seconds() {
		t.Errorf("a query that the merged answer confirmed: %+v", k)
	}
	y := s.Next(now)
	if y == nil || y.Query() != left.Query() || len(y.Riders()) > 0 {
		t.Fatalf("%+v does not ask alone", y)
	}
	s.Finish(y, registry.Answer{Outcome: registry.Changed, Elapsed: 7 * time.Millisecond}, false)
	record(y, registry.Changed, 7*time.Millisecond)
	if k := asked(left); k == nil || k.Members != 1 || k.ShareSeconds != 0.007 {
		t.Errorf("a query that was asked alone: %+v", k)
	}
	p.End(now, "")
	s = p.Begin(now.Add(time.Minute), Terms{Width: 1, Timeout: time.Minute})
	for y = s.Next(now); y.Query() != left.Query(); y = s.Next(now) {
		settleAsk(s, y, time.Millisecond)
	}
	s.Finish(y, registry.Answer{Outcome: registry.Failed, Elapsed: 9 * time.Second}, false)
	record(y, registry.Failed, 9*time.Second)
	if k := asked(left); k == nil || k.ShareSeconds != 0.007 {
		t.Errorf("a query that failed since it was answered: %+v", k)
	}
}

// A merged request is given up after four times what its queries take alone, and a second,
// also when the shares of merged requests are all that is known of each query.
func TestRequestsAreGivenUpByTheCostOfAskingAlone(t *testing.T) {
	const alone, share = 200 * time.Millisecond, time.Millisecond
	list := registered(16)
	for i := range list {
		list[i].Stats.Executions = 40
		list[i].Stats.Samples = nil
		list[i].Stats.Remember(policy.Sample{Elapsed: share})
	}
	p := planned(t, "rr", list)
	p.SetBudget(RuleStrict, time.Hour)
	cohorts(p, len(list))
	k := p.all[list[0].Query.ID].cohort
	for range 20 {
		k.Asked(cohort.Single, 1, 1, 1, alone)
		k.Asked(cohort.Values, 16, 16, 16, 16*share)
	}
	now := began.Add(time.Hour)
	s := p.Begin(now, Terms{Width: 1, Timeout: time.Hour, Merging: Merging{Mode: registry.MergeValues}})
	x := s.Next(now)
	if n, limit := len(x.Members()), s.Limit(x); n != 16 || limit != 4*16*alone+time.Second {
		t.Errorf("%d members may take %s", n, limit)
	}
}
