package scheduler_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// attentive is an endpoint whose policy serves intervals, with rr as its fallback
// policy.
func attentive(slot, policy string) registry.Endpoint {
	e := endpoint(slot, 10*time.Second, policy)
	e.FallbackPolicy = "rr"
	return e
}

func slotsOf(n uint64) registry.Span        { return registry.Span{Slots: n} }
func lasting(d time.Duration) registry.Span { return registry.Span{Time: d} }
func on(query string, w ...registry.Condition) registry.When {
	return registry.When{Changed: query, Where: w}
}

func (w *world) want(id string, window registry.Span, items ...registry.Item) registry.Profile {
	w.t.Helper()
	p := registry.Profile{ID: id, Name: id[2:], Owner: registry.Anonymous, Endpoint: city, Items: items, Window: window, CreatedAt: time.Now()}
	w.wantAs(p)
	return p
}

func (w *world) wantAs(p registry.Profile) {
	w.t.Helper()
	if err := w.ledger.Want(p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ends(id string) []registry.Round {
	w.t.Helper()
	list, err := w.ledger.Ends(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// told formats rounds: state, opening and last slot, and for each interval the slot of
// its capture or the reason why there was none.
func told(list []registry.Round) (out []string) {
	for _, r := range list {
		s := fmt.Sprintf("%d %s %d-%d", r.Number, r.State, r.Slot, r.EndedSlot)
		for _, i := range r.Intervals {
			switch {
			case i.Done != nil:
				s += fmt.Sprint(" ", i.Done.Slot)
			case i.Reason != "":
				s += " (" + i.Reason + ")"
			default:
				s += " -"
			}
		}
		out = append(out, s)
	}
	return out
}

func (w *world) expectEnds(id string, want ...string) {
	w.t.Helper()
	if got := told(w.ends(id)); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("profile %s ended\n%s\nwant\n%s", id, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// script answers a query with its texts in sequence and repeats the last one. Queries
// without a script never change.
func script(t *testing.T, takes time.Duration, texts map[string][]string) func(*registry.Query, int) reply {
	return func(q *registry.Query, n int) reply {
		text := []string{"still"}
		if s := texts[q.ID]; len(s) > 0 {
			text = s[min(n, len(s)-1) : min(n, len(s)-1)+1]
		}
		return reply{takes, registry.Changed, schedulertest.Rows(t, strings.Fields(text[0])...)}
	}
}

// A change that adds a matching row opens a round. Its intervals come before the order
// of the fallback policy.
func TestRoundOnChange(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, attentive("never", "mrsf:p"),
			script(t, time.Second, map[string][]string{"q_rates": {"x", "x oil", "x oil gas", "x oilfield gas"}}))
		for _, n := range append([]string{"rates", "news", "money"}, names("other", 12)...) {
			w.register(n)
		}
		for range 4 {
			w.run1() // every one of the 15 has its first result
		}
		cond := registry.Condition{Var: "s", Op: "contains", Value: "oil"}
		w.want("p_oil", slotsOf(2), registry.Item{Query: "q_news", When: on("q_rates", cond)}, registry.Item{Query: "q_money",
			When: on("q_rates", cond)})
		for i := 0; i < 60 && len(w.ends("p_oil")) < 2; i++ {
			w.run1()
		}
		ends := w.ends("p_oil")
		if len(ends) != 2 { // "x oil" and "oilfield" add a row with oil, "gas" does not
			t.Fatalf("rounds: %v", told(ends))
		}
		for i, r := range ends {
			if r.State != registry.RoundCaptured || r.Position.Seq != uint64(i+1) || r.Trigger.Query != "q_rates" || r.Trigger.Seq != uint64(2+2*i) {
				t.Errorf("round %+v", r)
			}
			for _, x := range r.Intervals {
				if x.Done == nil || x.Done.Slot > r.Slot+2 || x.Done.Position.Seq != 1 || x.Done.At.Before(r.OpenedAt) {
					t.Errorf("an interval of round %d: %+v", r.Number, x)
				}
			}
		}
		w.mu.Lock()
		noted := 0
		for _, n := range w.notes {
			if n.Profile == "p_oil" {
				noted++
			}
		}
		w.mu.Unlock()
		if noted != 2 {
			t.Errorf("followers were told %d times", noted)
		}
	})
}

// run1 runs one slot in a new loop, so that every slot starts from the state of the
// ledger.
func (w *world) run1() scheduler.Slot {
	w.t.Helper()
	w.open(w.as)
	w.run()
	s := w.tick()
	w.stop()
	return s
}

// A round that can no longer be captured expires with its reason.
func TestRoundsExpire(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, attentive("never", "medf:np"), script(t, time.Second, map[string][]string{"q_a": {"1", "2"}}))
		w.register("a")
		w.register("b", func(q *registry.Query) { q.Pause = nil })
		w.register("c")
		w.run1()
		b := schedulertest.Query(city, "b")
		b.ID, b.Pause = "q_b", &registry.Pause{By: "ops"}
		w.put(b)
		w.want("p_paused", slotsOf(2), registry.Item{Query: "q_b", When: on("q_a")}, registry.Item{Query: "q_c", When: on("q_a")})
		w.want("p_never", slotsOf(2), registry.Item{Query: "q_c", When: on("q_a")}, registry.Item{Query: "q_a", When: on("q_c")})
		w.want("p_gone", slotsOf(1), registry.Item{Query: "q_a", When: on("q_a")}, registry.Item{Query: "q_gone", When: on("q_a")})
		for range 5 {
			w.run1()
		}
		// Slot 2: a changes. That change captures its own interval; c runs after a.
		w.expectEnds("p_paused", "1 expired 2-5 (it was paused) 2")
		w.expectEnds("p_never", "1 expired 2-5 2 (what it waits for did not happen within the window)")
		w.expectEnds("p_gone", "1 expired 2-4 2 (it is no longer registered)")
	})
}

// Intervals by time start at each multiple of the period, even if no slot ran in them.
func TestRoundsByTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, attentive("@every 10s", "sedf:p"), same(t, time.Second))
		w.register("a")
		w.register("b")
		time.Sleep(5 * time.Second)
		board := w.want("p_board", registry.Span{}, registry.Item{Query: "q_a", When: registry.When{Every: lasting(time.Minute),
			Slack: lasting(20 * time.Second)}},
			registry.Item{Query: "q_b", When: registry.When{Every: lasting(2 * time.Minute), Slack: lasting(30 * time.Second)}})
		w.run()
		until(3*time.Minute + 25*time.Second)
		e := w.as
		e.Pause = &registry.Pause{By: "ops", At: time.Now()}
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		until(6*time.Minute + 5*time.Second)
		if err := w.loop.Reconfigure(w.as); err != nil {
			t.Fatal(err)
		}
		until(8*time.Minute + 5*time.Second)
		next := w.loop.NextRound(board).Sub(epoch())
		w.stop()
		var got []string
		for _, r := range w.ends("p_board") {
			got = append(got, fmt.Sprintf("%s %s", r.OpenedAt.Sub(epoch()), r.State))
			for _, x := range r.Intervals {
				if x.Done != nil && (x.Done.At.Before(x.From) || x.Done.At.After(x.Until)) {
					t.Errorf("captured outside of its interval: %+v", x)
				}
			}
		}
		// 1 min: a in [1:00, 1:20], b in the next one, [2:00, 2:30]. 2 min: both. 3
		// min: a, and b in [4:00, 4:30], all of it during the pause; the same holds for
		// 4 and 5 min. 6 min: slots from 6:10 on. 7 min: b in [8:00, 8:30].
		want := "[1m0s captured 2m0s captured 3m0s expired 4m0s expired 5m0s expired 6m0s captured 7m0s captured 8m0s captured]"
		if fmt.Sprint(got) != want {
			t.Errorf("rounds %v, want %s", got, want)
		}
		if next != 9*time.Minute {
			t.Errorf("the next round is announced for %s", next)
		}
		for _, r := range w.ends("p_board") {
			if r.State == registry.RoundExpired && !strings.Contains(r.Reason, "no slot ran inside it") {
				t.Errorf("round %d expired because: %s", r.Number, r.Reason)
			}
		}
	})
}

// Intervals by slots start at each multiple of the slot number. A restart keeps the
// open ones.
func TestRoundsBySlotSurviveRestarts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, attentive("never", "mrsf"), same(t, time.Second))
		w.register("a")
		w.register("b", func(q *registry.Query) { q.Pause = &registry.Pause{By: "ops"} })
		w.run1()
		w.want("p_x", registry.Span{}, registry.Item{Query: "q_a", When: registry.When{Every: slotsOf(4), Slack: slotsOf(2)}},
			registry.Item{Query: "q_b", When: registry.When{Every: slotsOf(4), Slack: slotsOf(2)}})
		for range 4 { // to slot 5: a is captured in slot 4
			w.run1()
		}
		b := schedulertest.Query(city, "b")
		b.ID = "q_b"
		w.put(b)
		for range 4 { // to slot 9
			w.run1()
		}
		w.expectEnds("p_x", "1 captured 4-6 4 6", "2 captured 8-8 8 8")
	})
}

// A query's own history predicts its next change.
func TestRoundsPredicted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		texts := []string{}
		for i := range 60 { // a new result every fifth time
			texts = append(texts, fmt.Sprint(i/5))
		}
		w := newWorld(t, attentive("never", "mrsf"), script(t, time.Second, map[string][]string{"q_a": texts}))
		w.register("a")
		w.run()
		for range 26 {
			w.tick()
		}
		w.want("p_next", slotsOf(1), registry.Item{Query: "q_a", When: registry.When{Predicted: true}})
		for range 20 {
			w.tick()
		}
		w.stop()
		ends := w.ends("p_next")
		if len(ends) < 3 || len(ends) > 6 {
			t.Errorf("%d rounds in 20 slots of a query that changes in every fifth: %v", len(ends), told(ends))
		}
		for _, r := range ends {
			if r.State != registry.RoundCaptured {
				t.Errorf("round %+v", r)
			}
		}
	})
}

// A predicted change is not predicted again when another profile is registered or the
// process restarts.
func TestPredictionsOutliveNews(t *testing.T) {
	rounds := func(slot func(w *world, i int)) (got []string) {
		bubble.Test(t, func(t *testing.T) {
			texts := map[string][]string{}
			for i := range 90 {
				texts["q_a"] = append(texts["q_a"], fmt.Sprint(i/4))
				texts["q_b"] = append(texts["q_b"], fmt.Sprint(i/7))
			}
			w := newWorld(t, attentive("never", "mrsf"), script(t, time.Second, texts))
			w.register("a")
			w.register("b")
			for i := range 60 {
				if i == 30 {
					w.want("p_next", slotsOf(6), registry.Item{Query: "q_a", When: registry.When{Predicted: true}},
						registry.Item{Query: "q_b", When: registry.When{Predicted: true}})
				}
				slot(w, i)
			}
			got = told(w.ends("p_next"))
		})
		return got
	}
	plain := rounds(func(w *world, i int) {
		if i == 0 {
			w.run()
		}
		w.tick()
		if i == 59 {
			w.stop()
		}
	})
	disturbed := rounds(func(w *world, i int) {
		if i == 0 {
			w.run()
		}
		w.want(fmt.Sprint("p_other", i), slotsOf(1), registry.Item{Query: "q_a", When: on("q_none")})
		w.tick()
		if i == 59 {
			w.stop()
		}
	})
	restarted := rounds(func(w *world, _ int) { w.run1() })
	if len(plain) < 3 || fmt.Sprint(plain) != fmt.Sprint(disturbed) || fmt.Sprint(plain) != fmt.Sprint(restarted) {
		t.Errorf("left alone\n%s\nwith others registered\n%s\nwith restarts\n%s", strings.Join(plain, "\n"),
			strings.Join(disturbed, "\n"), strings.Join(restarted, "\n"))
	}
}

// Other queries keep the rest of the share, and the budget holds, for any set of
// profiles. Intervals may also use what other queries leave.
func TestShareOfIntervals(t *testing.T) {
	for _, width := range []int{1, 3} {
		for _, share := range []float64{0.2, 0.5} {
			t.Run(fmt.Sprintf("concurrency=%d/share=%g", width, share), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { sharing(t, width, share) })
			})
		}
	}
}

func sharing(t *testing.T, width int, share float64) {
	const slots = 60
	run := func(profiles bool) (others int, least int) {
		e := attentive("never", "mrsf:p")
		e.Concurrency, e.ProfileShare = width, share
		w := newWorld(t, e, same(t, time.Second))
		var items []registry.Item
		for _, n := range names("want", 24) {
			w.register(n)
			items = append(items, registry.Item{Query: "q_" + n, When: registry.When{Every: slotsOf(1)}})
		}
		for _, n := range names("", 24) {
			w.register(n)
		}
		w.run()
		w.settled(48)
		if profiles {
			w.want("p_greedy", registry.Span{}, items...)
			w.want("p_modest", registry.Span{}, items[:3]...)
		}
		before := map[string]int{}
		for _, n := range names("q_", 24) {
			before[n] = w.service.ran(n)
		}
		for range slots {
			s := w.tick()
			if s.Used > s.Budget+1e-9 || s.ClaimedSeconds > share*s.Budget+1e-9 {
				t.Fatalf("slot %d used %g s, of them %g for intervals", s.Number, s.Used, s.ClaimedSeconds)
			}
			if profiles && s.Claimed < int(share*10)-1 {
				t.Errorf("slot %d: %d of %d executions were claimed", s.Number, s.Claimed, s.Run)
			}
		}
		w.stop()
		checkBound(t, w, 10*time.Second, width)
		least = slots
		for n, was := range before {
			others += w.service.ran(n) - was
			least = min(least, w.service.ran(n)-was)
		}
		return others, least
	}
	alone, _ := run(false)
	with, least := run(true)
	t.Logf("executions of the others: %d without profiles, %d with; the fewest of one: %d", alone, with, least)
	if float64(with) < (1-share)*float64(alone)*0.95 {
		t.Errorf("profiles left the others %d executions of %d", with, alone)
	}
	if least < 3 {
		t.Errorf("one of the others ran %d times in %d slots", least, slots)
	}
}

// Without other waiting queries, intervals may use the whole budget.
func TestIntervalsTakeUnusedBudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := attentive("never", "sedf")
		e.FallbackPolicy = "ttl:max=64:reset" // what never changes is hardly ever due
		w := newWorld(t, e, same(t, time.Second))
		var items []registry.Item
		for _, n := range names("", 9) {
			w.register(n)
			items = append(items, registry.Item{Query: "q_" + n, When: registry.When{Every: slotsOf(1)}})
		}
		w.run()
		for range 30 {
			w.tick()
		}
		w.want("p_all", registry.Span{}, items...)
		for range 3 {
			if s := w.tick(); s.Captured != 1 || s.Complete != 9 || s.Planned != 9 {
				t.Errorf("the slot: %+v", s)
			}
		}
		w.stop()
	})
}

// A profile's own budget bounds what it claims in a slot.
func TestBudgetOfProfile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := attentive("never", "mrsf")
		e.FallbackPolicy = "ttl:max=64:reset"
		w := newWorld(t, e, same(t, time.Second))
		var items []registry.Item
		for _, n := range names("", 6) {
			w.register(n)
			items = append(items, registry.Item{Query: "q_" + n, When: registry.When{Every: slotsOf(4), Slack: slotsOf(3)}})
		}
		w.run()
		for range 31 {
			w.tick()
		}
		p := registry.Profile{ID: "p_thrifty", Endpoint: city, Items: items, Budget: registry.Duration(2 * time.Second), CreatedAt: time.Now()}
		w.wantAs(p)
		for range 8 {
			if s := w.tick(); s.Claimed > 2 || s.ClaimedSeconds > 2 {
				t.Errorf("slot %d: %d claimed, %g s", s.Number, s.Claimed, s.ClaimedSeconds)
			}
		}
		w.stop()
		if ends := w.ends("p_thrifty"); len(ends) != 2 || ends[1].State != registry.RoundCaptured || ends[1].EndedSlot != ends[1].Slot+2 {
			t.Errorf("6 executions at 2 a slot, unless they are due anyway: %v", told(ends))
		}
	})
}

// The bound holds with intervals for any mix of queries.
func TestBoundWithIntervals(t *testing.T) {
	for i, width := range []int{1, 3} {
		t.Run(fmt.Sprint("concurrency=", width), func(t *testing.T) {
			seed := uint64(20261121 + i)
			t.Logf("seed %d", seed)
			bubble.Test(t, func(t *testing.T) {
				const budget = 10 * time.Second
				e := attentive("@every 10s", []string{"mrsf:p", "medf:np"}[i])
				e.Concurrency = width
				w := newWorld(t, e, mix(t, seed, budget, i%2 == 0))
				ids := names("", 2000)
				for _, n := range ids {
					w.register(n)
				}
				for k := range 60 {
					var items []registry.Item
					for j := range 1 + k%5 {
						q := "q_" + ids[(k*37+j*11)%len(ids)]
						switch k % 3 {
						case 0:
							items = append(items, registry.Item{Query: q, When: registry.When{Every: slotsOf(uint64(2 + k%7)), Slack: slotsOf(1)}})
						case 1:
							items = append(items, registry.Item{Query: q, When: on("q_" + ids[(k*13)%len(ids)])})
						default:
							items = append(items, registry.Item{Query: q, When: registry.When{Every: lasting(time.Minute), Slack: lasting(30 * time.Second)}})
						}
					}
					w.want(fmt.Sprintf("p_%03d", k), lasting(45*time.Second), items...)
				}
				w.run()
				until(20 * time.Minute)
				w.stop()
				checkBound(t, w, budget, width)
				claimed, captured, expired := 0, 0, 0
				for _, s := range w.slots() {
					claimed, captured, expired = claimed+s.Claimed, captured+s.Captured, expired+s.Expired
				}
				if claimed == 0 || captured == 0 || expired == 0 {
					t.Errorf("%d executions claimed, %d rounds captured, %d expired: each should occur", claimed, captured, expired)
				}
				t.Logf("%d executions claimed, %d rounds captured, %d expired in %d slots", claimed, captured, expired, len(w.slots()))
			})
		})
	}
}

// Under a budget that is too small for all rounds, a policy that serves intervals
// completes more of them than one that ignores them.
func TestCompletenessAboveRoundRobin(t *testing.T) {
	run := func(policy string) (complete float64) {
		bubble.Test(t, func(t *testing.T) {
			e := attentive("never", policy)
			e.ProfileShare = 0.5
			w := newWorld(t, e, same(t, time.Second))
			ids := names("", 60) // 10 of them fit a slot
			for _, n := range ids {
				w.register(n)
			}
			w.run()
			w.settled(60)
			for k := range 12 {
				var items []registry.Item
				for j := range 3 {
					items = append(items, registry.Item{Query: "q_" + ids[(k*5+j*17)%60], When: registry.When{Every: slotsOf(uint64(6 + k%5)),
						Slack: slotsOf(2)}})
				}
				w.want(fmt.Sprintf("p_%02d", k), registry.Span{}, items...)
			}
			captured, all := 0, 0
			for range 120 {
				s := w.tick()
				captured, all = captured+s.Captured, all+s.Captured+s.Expired
			}
			w.stop()
			complete = float64(captured) / float64(all)
		})
		return complete
	}
	got := map[string]float64{}
	for _, p := range []string{"rr", "sedf:p", "mrsf:p", "medf:p"} {
		got[p] = run(p)
	}
	t.Logf("completeness: %v", got)
	for _, p := range []string{"sedf:p", "mrsf:p", "medf:p"} {
		if got[p] < got["rr"]+0.2 {
			t.Errorf("%s captured %.2f of the rounds, rr %.2f", p, got[p], got["rr"])
		}
	}
}

// Explain describes the interval that claims a query.
func TestExplainInterval(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := attentive("never", "mrsf")
		e.FallbackPolicy = "ttl:max=64:reset"
		w := newWorld(t, e, script(t, 4*time.Second, map[string][]string{"q_a": {"1", "1", "1", "1", "2"}}))
		for _, n := range []string{"a", "b", "c", "d"} {
			w.register(n)
		}
		w.want("p_x", slotsOf(5), registry.Item{Query: "q_b", When: on("q_a")}, registry.Item{Query: "q_c", When: on("q_a")},
			registry.Item{Query: "q_d", When: on("q_a")})
		w.run()
		for i := 0; i < 40; i++ {
			w.tick()
			x, err := w.loop.Explain("q_d")
			if err != nil {
				t.Fatal(err)
			}
			if x.Tier == plan.TierInterval {
				if !strings.Contains(x.Why, "profile x") || !x.Eligible {
					t.Errorf("%+v", x)
				}
				w.stop()
				return
			}
		}
		t.Error("no interval ever claimed the query")
		w.stop()
	})
}

// On a grid, predictions depend on the hour: a query that changes around noon is
// predicted to change around noon.
func TestRoundsPredictedByHour(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		noon := func(*registry.Query, int) reply {
			at := time.Now().UTC()
			return reply{time.Second, registry.Changed, schedulertest.Rows(t, at.Add(-12*time.Hour).Format("2006-01-02"))}
		}
		w := newWorld(t, attentive("@every 30m", "mrsf"), noon)
		w.register("a")
		noonly := w.want("p_noon", lasting(2*time.Hour), registry.Item{Query: "q_a", When: registry.When{Predicted: true}})
		w.run()
		until(40 * 24 * time.Hour)
		if next := w.loop.NextRound(noonly); next.IsZero() || next.Hour() < 10 || next.Hour() > 13 {
			t.Errorf("the next round is announced for %s", next)
		}
		w.stop()
		near, far := 0, 0
		for _, r := range w.ends("p_noon") {
			if r.State != registry.RoundCaptured {
				t.Errorf("round %+v", r)
			}
			if r.OpenedAt.Before(epoch().Add(20 * 24 * time.Hour)) {
				continue
			}
			if h := r.OpenedAt.Hour(); h >= 10 && h <= 13 {
				near++
			} else {
				far++
			}
		}
		if near < 10 || far > near/4 {
			t.Errorf("in the last 20 days %d rounds were opened around noon, %d at other times", near, far)
		}
	})
}

// Rounds end when their time is over, even if no slot runs.
func TestRoundsExpireWithoutASlot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, attentive("@every 1m", "mrsf"), script(t, time.Second, map[string][]string{"q_a": {"1", "2"}}))
		w.register("a")
		w.want("p_pair", lasting(10*time.Minute), registry.Item{Query: "q_a", When: on("q_a")},
			registry.Item{Query: "q_gone", When: on("q_a")})
		w.run()
		until(2*time.Minute + 30*time.Second)
		e := w.as
		e.Pause = &registry.Pause{By: "ops", At: time.Now()}
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		until(11 * time.Minute)
		if ends := w.ends("p_pair"); len(ends) > 0 {
			t.Errorf("ended before its time: %+v", ends)
		}
		until(11*time.Minute + 5*time.Second)
		w.expectEnds("p_pair", "1 expired 2-4 2 (it is no longer registered)")
		w.stop()
	})
}

// A counted ledger counts calls of Since.
type counted struct {
	scheduler.Ledger
	asked atomic.Int64
}

func (c *counted) Since(endpoint string, rev uint64) (scheduler.News, error) {
	c.asked.Add(1)
	return c.Ledger.Since(endpoint, rev)
}

// NextRound does not make the loop read all profiles: otherwise registering n
// profiles would read n² of them.
func TestAskingForTheNextRoundReadsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ledger := &counted{Ledger: &schedulertest.Memory{}}
		l, err := scheduler.NewLoop(scheduler.Config{Endpoint: attentive("@every 1m", "mrsf"), Ledger: ledger, Executor: &service{}})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		for _, w := range []registry.When{{Every: lasting(time.Hour), Slack: lasting(time.Minute)}, on("q_a"), {Predicted: true}} {
			p := registry.Profile{ID: "p_x", Endpoint: city, Items: []registry.Item{{Query: "q_a", When: w}}, Window: lasting(time.Hour),
				CreatedAt: at}
			next := l.NextRound(p)
			if want := at.Truncate(time.Hour).Add(time.Hour); !w.Every.IsZero() && !next.Equal(want) || w.Every.IsZero() && !next.IsZero() {
				t.Errorf("%+v is announced for %s", w, next)
			}
		}
		if n := ledger.asked.Load(); n > 0 {
			t.Errorf("the ledger was asked %d times", n)
		}
	})
}
