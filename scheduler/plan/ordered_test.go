package plan

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A rankCounter counts how often the policy ranks the queries.
type rankCounter struct {
	policy.Policy
	ranked int
}

func (r *rankCounter) Rank(_ policy.Moment, all []*policy.Candidate) policy.Ranking {
	r.ranked++
	return policy.Ranking{Keys: make([]policy.Key, len(all))}
}

// What happens to queries that are not ranked leaves the order of the others as it is.
func TestOnlyRankedQueriesChangeTheOrder(t *testing.T) {
	count := &rankCounter{Policy: named("rr")}
	p := New(count, 10*time.Second)
	now := time.Unix(1_790_000_000, 0)
	entry := func(id string, executions uint64) policy.Entry {
		return policy.Entry{Query: query(id), Stats: policy.Stats{Executions: executions, Last: executions}}
	}
	refresh := func(after string, want int) {
		t.Helper()
		p.Refresh(now)
		if count.ranked != want {
			t.Fatalf("%s: ranked %d times, want %d", after, count.ranked, want)
		}
	}
	var all []policy.Entry
	for i := range 20 {
		all = append(all, entry(fmt.Sprintf("old%02d", i), 1))
	}
	p.Update(now, Update{Entries: all})
	refresh("after the first registrations", 1)
	p.Update(now, Update{Entries: []policy.Entry{entry("new", 0)}})
	refresh("after the registration of another query", 1)
	if f, ok := p.Forecast("new"); !ok || !f.Eligible {
		t.Errorf("the forecast of the new query is %+v, %t", f, ok)
	}
	p.Update(now, Update{Removed: []string{"new"}})
	refresh("after its removal", 1)
	asked := entry("old03", 1)
	asked.Query.Refreshes = 1
	p.Update(now, Update{Entries: []policy.Entry{asked}})
	p.RefreshFor(now, []string{"old03", "unknown"})
	if f, ok := p.Forecast("old03"); !ok || f.Slots != 1 || count.ranked != 1 {
		t.Errorf("the forecast of the refresh request is %+v, %t, after %d rankings", f, ok, count.ranked)
	}
	p.RefreshFor(now, []string{"old03", "old05"})
	if f, ok := p.Forecast("old05"); !ok || !f.Eligible || count.ranked != 2 {
		t.Errorf("the forecast of a ranked query is %+v, %t, after %d rankings", f, ok, count.ranked)
	}
	refresh("after a refresh request for a ranked query", 2)
	p.Update(now, Update{Removed: []string{"old03"}})
	refresh("after the removal of a query with a refresh request", 2)
	p.Update(now, Update{Removed: []string{"old04"}})
	refresh("after the removal of a ranked query", 3)
	p.Begin(now, Terms{Width: 1, Timeout: time.Minute})
	p.End(now, "")
	refresh("after a slot", 5)
}

// When a query runs again depends on the queries that wait in its slot, not on as many of an earlier one.
func TestForecastAfterRunning(t *testing.T) {
	p := New(named("rr"), 10*time.Second)
	for i, cost := range []time.Duration{time.Second, 200 * time.Second, time.Second} {
		s := policy.Stats{Policy: "rr", Executions: 1, Last: 1 + uint64(i)}
		s.Remember(policy.Sample{Elapsed: cost})
		p.put(query(fmt.Sprint("q", i)), s)
	}
	p.slot = 4
	for i, want := range []uint64{1 + 201/10, 1} { // the budgets that cover the cost of the others
		s := p.Begin(began, Terms{Width: 1, Timeout: time.Hour})
		x := s.Next(began)
		if f, _ := p.Forecast(fmt.Sprint("q", i)); !f.Ran || f.Slots != want {
			t.Errorf("the forecast of q%d, which runs, is %+v, want %d slots", i, f, want)
		}
		answer, _ := s.Finish(x, registry.Answer{Outcome: registry.Unchanged, Elapsed: time.Second}, false)
		st := x.Stats()
		st.Complete(p.policy, policy.Sample{Slot: p.slot, Elapsed: time.Second})
		st.LastRun = policy.Run{Slot: p.slot, Outcome: answer.Outcome, Elapsed: time.Second}
		s.Record(x, &Completion{Stats: &st, Checked: began, At: began})
		p.End(began, "")
	}
}

// BenchmarkForecastOfNew merges a registration into a plan of queries that have results,
// and forecasts when the new query runs, as each registration does. It takes about 6 µs,
// however many queries are ranked. When each registration ranked all queries again, it
// took 7 ms of processor time among 10,000 and 84 ms among 100,000 (busy machine).
func BenchmarkForecastOfNew(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("queries=%d", n), func(b *testing.B) {
			p, now := throng(b, named(registry.DefaultPolicy), n).p, time.Unix(1_790_000_000, 0)
			p.Refresh(now)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			begin, i := processor(b), 0
			for b.Loop() {
				id := fmt.Sprintf("r%07d", i)
				i++
				p.Update(now, Update{Entries: []policy.Entry{{Query: query(id)}}})
				p.Refresh(now)
				if _, ok := p.Forecast(id); !ok {
					b.Fatal("no forecast")
				}
				p.Update(now, Update{Removed: []string{id}})
			}
			b.ReportMetric(float64((processor(b)-begin).Microseconds())/float64(i), "cpu-us/registration")
		})
	}
}

// A forecast is the same whether the whole plan was brought up to date for it or only
// what it depends on.
func TestRefreshForIsEnough(t *testing.T) {
	for _, d := range definitions() {
		if d.Simulated {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			now := time.Unix(1_790_000_000, 0)
			build := func() (*Planner, []string) {
				r := rand.New(rand.NewPCG(1, 2))
				p, ids := New(named(d.Spelling()), 2*time.Second), []string(nil)
				for slot := range uint64(3) {
					u := Update{}
					for i := range 30 {
						e := policy.Entry{Query: query(fmt.Sprintf("q%d%02d", slot, i))}
						if ids = append(ids, e.Query.ID); i%3 > 0 {
							x := policy.Sample{Elapsed: time.Duration(1+r.IntN(900)) * time.Millisecond}
							e.Stats.Executions, e.Stats.Samples = 1, []policy.Sample{x}
						}
						if i%5 == 0 {
							e.Query.Refreshes = 1
						}
						if i%7 == 0 {
							e.Stats.NotBefore = slot + 3
						}
						u.Entries = append(u.Entries, e)
					}
					p.Begin(now, Terms{Width: 1, Timeout: time.Minute})
					p.End(now, "")
					p.Update(now, u) // the last ones have not been ranked
					p.Update(now, Update{Removed: ids[len(ids)-4:]})
				}
				return p, ids
			}
			whole, ids := build()
			whole.Refresh(now)
			for _, id := range ids {
				part, _ := build()
				part.RefreshFor(now, []string{id})
				got, _ := part.Forecast(id)
				if want, _ := whole.Forecast(id); got != want {
					t.Errorf("the forecast of %s is %+v, want %+v", id, got, want)
				}
			}
		})
	}
}
