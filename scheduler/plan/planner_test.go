package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// TestWaiting compares the queues of items that wait for times and slots with a map.
func TestWaiting(t *testing.T) {
	slots, times := waiting()
	for name, empty := range map[string]numbered{"slots": slots, "times": times} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				q := empty
				due := func(at int64) (list []*item) {
					for c := q.first(); c != nil && q.by(c).number <= at; c = q.first() {
						q.drop(c)
						list = append(list, c)
					}
					return list
				}
				want := map[*item]int64{}
				all := make([]*item, 20)
				for i := range all {
					all[i] = &item{Candidate: policy.Candidate{Prefix: uint64(i), Query: registry.Query{ID: fmt.Sprintf("%02d", i)}}}
				}
				for range rapid.IntRange(1, 80).Draw(t, "steps") {
					c := all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
					switch rapid.IntRange(0, 3).Draw(t, "what") {
					case 0:
						q.drop(c)
						delete(want, c)
					case 1:
						until := rapid.Int64Range(1, 30).Draw(t, "until")
						for _, c := range due(until) {
							if at, waits := want[c]; !waits || at > until {
								t.Fatalf("woken at %d, waits until %d", until, at)
							}
							delete(want, c)
						}
						for _, at := range want {
							if at <= until {
								t.Fatalf("still asleep at %d, should have woken at %d", until, at)
							}
						}
					default:
						want[c] = rapid.Int64Range(1, 30).Draw(t, "at")
						q.set(c, want[c])
					}
					soonest := slices.SortedFunc(maps.Keys(want), func(a, b *item) int {
						return cmp.Or(cmp.Compare(want[a], want[b]), cmp.Compare(a.Prefix, b.Prefix))
					})
					n := rapid.IntRange(0, len(all)).Draw(t, "most")
					if got := q.next(n); !slices.Equal(got, soonest[:min(n, len(soonest))]) {
						t.Fatalf("the next %d of %v are %v", n, soonest, got)
					}
				}
				if n := len(due(31)); n != len(want) {
					t.Fatalf("%d wait, want %d", n, len(want))
				}
			})
		})
	}
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// TestEligibility checks when a query that was executed in slot 5 at noon is eligible.
// Slots are a minute apart.
func TestEligibility(t *testing.T) {
	hour := func(h int) *time.Time { x := noon.Add(time.Duration(h) * time.Hour); return &x }
	minutes := func(n int) registry.Duration { return registry.Duration(time.Duration(n) * time.Minute) }
	for _, c := range []struct {
		name   string
		policy string
		query  func(*registry.Query)
		stats  func(*policy.Stats)
		first  int // minutes after noon, and slots after 5, from which it is eligible; -1 never
		last   int // until which it is, 0 = for ever
		tier   string
	}{
		{"plain", "rr", nil, nil, 1, 0, TierRanked},
		{"paused", "rr", func(q *registry.Query) { q.Pause = &registry.Pause{By: "ops"} }, nil, -1, 0, ""},
		{"paused and refreshed", "rr", func(q *registry.Query) { q.Pause, q.Refreshes = &registry.Pause{}, 1 }, nil, -1, 0, ""},
		{"paused by its holder", "rr", func(q *registry.Query) { q.Holders[0].Pause = &registry.Pause{} }, nil, -1, 0, ""},
		{"paused by one of two", "rr", func(q *registry.Query) {
			q.Holders = append(q.Holders, registry.Holder{Caller: "x", Pause: &registry.Pause{}, MinInterval: minutes(50)})
		}, nil, 1, 0, TierRanked},
		{"paused by one, over for the other", "rr", func(q *registry.Query) {
			q.Holders = append(q.Holders, registry.Holder{Caller: "x", Pause: &registry.Pause{}})
			q.Holders[0].Until = hour(0)
		}, nil, -1, 0, ""},
		{"from", "rr", func(q *registry.Query) { q.Holders[0].From = hour(1) }, nil, 60, 0, TierRanked},
		{"until", "rr", func(q *registry.Query) { q.Holders[0].Until = hour(1) }, nil, 1, 59, TierRanked},
		{"over", "rr", func(q *registry.Query) { q.Holders[0].Until = hour(0) }, nil, -1, 0, ""},
		{"another holder goes on", "rr", func(q *registry.Query) {
			q.Holders = append(q.Holders, registry.Holder{Caller: "x", From: hour(2), Until: hour(3)})
			q.Holders[0].Until = hour(0)
		}, nil, 120, 179, TierRanked},
		{"no holder", "rr", func(q *registry.Query) { q.Holders = nil }, nil, -1, 0, ""},
		{"min_interval of three slots", "rr", func(q *registry.Query) { q.Holders[0].MinInterval = minutes(3) }, nil, 3, 0, TierRanked},
		{"min_interval and a refresh", "rr", func(q *registry.Query) { q.Holders[0].MinInterval, q.Refreshes = minutes(3), 1 }, nil, 1,
			0, TierRefresh},
		{"refresh served", "rr", func(q *registry.Query) { q.Refreshes = 4 }, func(s *policy.Stats) { s.Served = 4 }, 1, 0, TierRanked},
		{"backing off", "rr", nil, func(s *policy.Stats) { s.Failures, s.NotBefore = 4, 5+8 }, 8, 0, TierRanked},
		{"backing off, refreshed", "rr", func(q *registry.Query) { q.Refreshes = 1 },
			func(s *policy.Stats) { s.Failures, s.NotBefore = 4, 5+8 }, 1, 0, TierRefresh},
		{"cut out, refreshed", "rr", func(q *registry.Query) { q.Refreshes = 1 }, func(s *policy.Stats) {
			s.Cuts, s.NotBefore = 2,
				5+4
		}, 4, 0, TierRefresh},
		{"not due", "ttl:max=32:reset", nil, func(s *policy.Stats) { s.State = []float64{7} }, 7, 0, TierRanked},
		{"not due, refreshed", "ttl:max=32:reset", func(q *registry.Query) { q.Refreshes = 1 },
			func(s *policy.Stats) { s.State = []float64{7} }, 1, 0, TierRefresh},
		// max_staleness of 5 min would run out between the slots of minute 4 and 6:
		// at minute 4 the next one is exactly at 5, in time.
		{"max_staleness", "ttl:max=32:reset", func(q *registry.Query) { q.Holders[0].MaxStaleness = minutes(5) },
			func(s *policy.Stats) { s.State = []float64{7} }, 4, 0, TierRanked},
		{"max_staleness later than due", "ttl:max=32:reset", func(q *registry.Query) { q.Holders[0].MaxStaleness = minutes(50) },
			func(s *policy.Stats) { s.State = []float64{7} }, 7, 0, TierRanked},
		{"new", "ttl:max=32:reset", nil, func(s *policy.Stats) { *s = policy.Stats{} }, 1, 0, TierNew},
		{"new, cut in its tier", "rr", nil, func(s *policy.Stats) { *s = policy.Stats{Floor: time.Second} }, 1, 0, TierRanked},
		{"dear refresh", "rr", func(q *registry.Query) { q.Refreshes = 1 }, func(s *policy.Stats) { s.Floor = 6 * time.Second }, 1, 0,
			TierRefresh},
	} {
		t.Run(c.name, func(t *testing.T) {
			chosen, err := parse(c.policy)
			if err != nil {
				t.Fatal(err)
			}
			q := query("a")
			s := policy.Stats{
				Last: 5, Executions: 1, Samples: []policy.Sample{{Slot: 5, Elapsed: time.Second}}, CheckedAt: noon, Policy: c.policy,
				LastRun: policy.Run{Slot: 5, At: noon.Add(time.Second), Elapsed: time.Second, Outcome: registry.Unchanged},
			}
			if c.query != nil {
				c.query(&q)
			}
			if c.stats != nil {
				c.stats(&s)
			}
			if s.State != nil || s.Executions == 0 {
				s.Policy = c.policy
			}
			p := New(chosen, 10*time.Second)
			p.lead = time.Minute
			p.slot, p.now = 6, noon.Add(30*time.Second)
			p.put(q, s)
			for m := 1; m <= 200; m++ {
				p.begin(5+uint64(m), noon.Add(time.Duration(m)*time.Minute), time.Minute)
				x := p.all["a"]
				want := c.first > 0 && m >= c.first && (c.last == 0 || m <= c.last)
				if (x.in != nil) != want {
					t.Fatalf("minute %d: eligible is %v, want %v (reason %d)", m, x.in != nil, want, x.why)
				}
				if want && x.tier != c.tier {
					t.Fatalf("minute %d: tier %q, want %q", m, x.tier, c.tier)
				}
				if dear := c.name == "dear refresh"; want && dear && x.in != &p.ranked {
					t.Error("a refresh that needs more than the share is among those that have to fit it")
				}
				p.end(p.now)
			}
		})
	}
}

// moody is a Ranker: the most expensive query first in even slots, the cheapest in odd
// ones.
type moody struct{ policy.Policy }

func (moody) Rank(m policy.Moment, all []*policy.Candidate) policy.Ranking {
	keys := make([]policy.Key, len(all))
	for i, c := range all {
		keys[i].Value = c.Median.Seconds()
		if m.Slot%2 == 0 {
			keys[i].Value = -keys[i].Value
		}
	}
	return policy.Ranking{Keys: keys}
}

func TestRanker(t *testing.T) {
	p := New(moody{named("rr")}, time.Hour)
	for i, id := range []string{"a", "b", "c"} {
		p.put(estimated(id, time.Duration(i+1)*time.Second))
	}
	for slot, want := range map[uint64]string{4: "cba", 5: "abc", 8: "cba"} {
		p.begin(slot, noon, 0)
		got := ""
		for c := range p.ranked.all {
			got += c.Query.ID
		}
		if got != want {
			t.Errorf("slot %d: %s, want %s", slot, got, want)
		}
		p.end(noon)
	}
}

// crowd returns a planner with executed queries of one to five milliseconds.
func crowd(n int, p policy.Policy, budget time.Duration) *Planner {
	pl := New(p, budget)
	fill(pl, n, func(int) int { return 1 })
	pl.slot = 1001
	return pl
}

// fill registers queries that have run before, each a number of times.
func fill(p *Planner, n int, times func(i int) int) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		s := policy.Stats{Executions: uint64(times(i)), Policy: p.policy.String()}
		last, x := uint64(1+r.IntN(1000)), policy.Sample{Slot: 1, Elapsed: time.Duration(1+r.IntN(5)) * time.Millisecond}
		for range s.Executions {
			s.Last, s.Samples = last, append(s.Samples, x)
		}
		p.put(query(fmt.Sprintf("q%07d", i)), s)
	}
}

// playCheap plays one slot in which each execution takes 3 ms.
func playCheap(p *Planner, now time.Time) (n int) {
	p.begin(p.slot, now, 0)
	s := newSlotBudget(p, 1, time.Hour, 0)
	s.Preview()
	for r := s.Next(now); r != nil; r = s.Next(now) {
		a, _ := s.Finish(r, registry.Answer{Outcome: registry.Unchanged, Elapsed: 3 * time.Millisecond}, false)
		st := r.c.Stats
		x := policy.Sample{Slot: p.slot, Elapsed: a.Elapsed}
		st.Complete(p.policy, x)
		st.Remember(x)
		p.learn(r.c, &st)
		n++
	}
	p.end(now)
	return n
}

// BenchmarkSlot plans and books slots of 1000 executions with a growing number of
// registered queries. The reference computes every key from the formulas and sorts.
func BenchmarkSlot(b *testing.B) {
	const budget = 3 * time.Second // 1000 executions of 3 ms
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("queries=%d", n), func(b *testing.B) {
			p := crowd(n, named("rr"), budget)
			executed := 0
			for b.Loop() {
				executed += playCheap(p, noon)
			}
			indexed := float64(b.Elapsed()) / float64(b.N)
			b.ReportMetric(float64(executed)/float64(b.N), "executions/slot")
			b.StopTimer()
			var reference time.Duration
			const rounds = 3
			for range rounds {
				begin := time.Now()
				sortAll(p)
				reference += time.Since(begin)
			}
			b.ReportMetric(float64(reference)/rounds/indexed, "sort/index")
		})
	}
}

// sortAll computes all keys of a slot and sorts the queries.
func sortAll(p *Planner) []*item {
	list := make([]*item, 0, len(p.all))
	for _, c := range p.all {
		c.key = p.policy.Key(&c.Candidate)
		list = append(list, c)
	}
	slices.SortFunc(list, compareItems)
	return list
}

// A counted policy counts the keys that it computes.
type counted struct {
	policy.Policy
	keys *int
}

func (c counted) Key(x *policy.Candidate) policy.Key {
	*c.keys++
	return c.Policy.Key(x)
}

// TestSlotCostsWhatItExecutes checks that a slot with fifty times as many queries
// computes as many keys and allocates as much. BenchmarkSlot measures the time.
func TestSlotCostsWhatItExecutes(t *testing.T) {
	type cost struct{ keys, allocs float64 }
	each := func(n int) cost {
		keys, executed := 0, 0
		p := crowd(n, counted{named("rr"), &keys}, 300*time.Millisecond)
		playCheap(p, noon) // buffers have grown
		keys = 0
		allocs := testing.AllocsPerRun(1, func() { executed = playCheap(p, noon) })
		if executed < 100 {
			t.Fatalf("%d executions", executed)
		}
		// AllocsPerRun runs it twice.
		return cost{float64(keys) / 2 / float64(executed), allocs / float64(executed)}
	}
	small, large := each(1_000), each(50_000)
	t.Logf("per execution: %.1f keys and %.1f allocations among 1,000, %.1f and %.1f among 50,000", small.keys, small.allocs,
		large.keys, large.allocs)
	if large.keys > small.keys*1.1 || large.allocs > small.allocs*1.5+1 || large.keys > 3 {
		t.Error("a slot among many queries costs more than what it executes")
	}
}
