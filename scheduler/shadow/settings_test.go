package shadow

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

const liveSlots = 40

// A setting is a setting of a query that is edited before its endpoint starts, or
// half-way.
type setting struct {
	policies []string // that are played; none: neither a policy nor the plan reads it
	edit     func(n int, q *registry.Query)
	halfway  bool
	silent   bool // it changes nothing in a slot that the shadow plays
}

func settings() map[reflect.Type]map[string]setting {
	return map[reflect.Type]map[string]setting{
		reflect.TypeFor[registry.Query](): querySettings(), reflect.TypeFor[registry.Holder](): holderSettings(),
	}
}

func querySettings() map[string]setting {
	return map[string]setting{
		"ID": {}, "Endpoint": {}, "Text": {}, "Normal": {}, "Form": {}, "Ordered": {}, "OrderKeys": {}, "Limit": {}, "DefaultGraphs": {},
		"NamedGraphs": {}, "Warnings": {}, "CreatedAt": {}, "Holders": {}, // holderSettings
		"Merged": {}, "Beside": {}, // shadows ask for each query alone, and for nothing else, as the package says
		"Constants": {policies: []string{"hybrid:d=512"},
			edit: func(n int, q *registry.Query) { q.Constants = []string{fmt.Sprint("urn:", n%2)} }},
		"Learnt": {policies: []string{"hybrid"}, edit: func(n int, q *registry.Query) {
			q.Learnt = &registry.Learnt{Changes: uint64(10 * (n % 3)), Executions: 30, Days: 1}
		}},
		"Refreshes": {policies: []string{"rr"}, silent: true, edit: func(_ int, q *registry.Query) { q.Refreshes = 3 }},
		"Pause": {policies: []string{"rr", "hybrid"}, halfway: true, edit: func(n int, q *registry.Query) {
			p := &registry.Pause{By: "admin", At: after(liveSlots / 2)}
			if n == 0 {
				q.Holders[0].Pause = p
			} else if n%2 == 0 {
				q.Pause = p
			}
		}},
	}
}

func holderSettings() map[string]setting {
	return map[string]setting{
		"Caller": {}, "Name": {}, "Tags": {}, "Public": {}, "MayPublish": {}, "Since": {}, "Live": {}, "ReleaseAt": {}, "Node": {},
		"Alone":  {}, // likewise
		"Weight": {policies: []string{"sqrt", "wic"}, edit: func(n int, q *registry.Query) { q.Holders[0].Weight = []float64{1, 50}[n%2] }},
		"Urgency": {policies: []string{"wic"}, edit: func(n int, q *registry.Query) {
			q.Holders[0].Urgency = []string{"uniform", "exp,0.5", "sliding,3"}[n%3]
		}},
		"Life": {policies: []string{"wic", "sup", "fbsup:x=2"}, edit: func(n int, q *registry.Query) {
			q.Holders[0].Life = []string{"overwrite", "window,2", "window,12"}[n%3]
		}},
		"MinInterval": {policies: []string{"rr", "dj", "wic", "hybrid"}, edit: func(n int, q *registry.Query) {
			q.Holders[0].MinInterval = registry.Duration(time.Duration(5*(n%3)) * time.Minute)
		}},
		"MaxStaleness": {policies: []string{"ttl:max=32:half", "sup", "hybrid"}, edit: func(n int, q *registry.Query) {
			q.Holders[0].MaxStaleness = registry.Duration(time.Duration(6*(n%2)) * time.Minute)
		}},
		"From": {policies: []string{"rr", "hybrid"}, edit: func(n int, q *registry.Query) { // a new holder comes when the other has gone
			next := q.Holders[0]
			ends, begins := after(5), after(25*(n%2))
			next.Caller, next.From, q.Holders[0].Until = "other", &begins, &ends
			q.Holders = append(q.Holders, next)
		}},
		"Until": {policies: []string{"rr", "hybrid"}, edit: func(n int, q *registry.Query) {
			ends := after(20 + 40*(n%2))
			q.Holders[0].Until = &ends
		}},
		"Pause": {policies: []string{"sqrt"}, edit: func(n int, q *registry.Query) {
			second := q.Holders[0]
			second.Caller, second.Weight = "other", 70
			if n%2 == 0 {
				second.Pause = &registry.Pause{By: "other", At: after(0)}
			}
			q.Holders = append(q.Holders, second)
		}},
	}
}

// after is half a minute after a slot; slot 1 begins with the bubble.
func after(slot int) time.Time {
	return time.Date(2000, 1, 1, 0, slot-1, 30, 0, time.UTC)
}

// The shadow of the active policy chooses in every slot what the policy chose, for
// all settings of the queries.
func TestShadowFollowsSettings(t *testing.T) {
	for of, known := range settings() {
		for f := range of.Fields() {
			s, ok := known[f.Name]
			if !ok {
				t.Errorf("%s.%s is new: say whether a policy or the plan reads it, and how", of, f.Name)
			}
			for _, spelling := range s.policies {
				t.Run(fmt.Sprintf("%s.%s/%s", of.Name(), f.Name, spelling), func(t *testing.T) {
					plain, _ := runLive(t, spelling, setting{})
					live, c := runLive(t, spelling, s)
					if cmp.Equal(plain, live) != s.silent {
						t.Fatalf("that the setting changes nothing is %t, want %t", !s.silent, s.silent)
					}
					if d := cmp.Diff(live, choices(t, c)); d != "" {
						t.Errorf("the shadow chooses others (-live +shadow):\n%s", d)
					}
				})
			}
		}
	}
}

// choices lists what a policy completes in the first sampled history, by slot.
func choices(t *testing.T, c Config) map[uint64][]string {
	t.Helper()
	h, err := newHistory(c.Entries, c.Work)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.replay(h.past(2))
	if err != nil {
		t.Fatal(err)
	}
	chosen := map[uint64][]string{}
	for slot := h.from + 1; slot <= h.to; slot++ {
		r.Slot(func(x plan.Played) {
			if x.Outcome.Complete() {
				chosen[slot] = append(chosen[slot], h.queries[x.Query].ID)
			}
		})
		slices.Sort(chosen[slot])
	}
	return chosen
}

// runLive runs the slots of an endpoint with eight queries, all of which get their
// baseline in the first slot. It returns what later slots executed, and the policy
// that the shadow has to run.
func runLive(t *testing.T, spelling string, s setting) (chosen map[uint64][]string, c Config) {
	bubble.Test(t, func(t *testing.T) {
		ledger := &schedulertest.Memory{}
		e := registry.Endpoint{
			Name: "city", URL: "http://127.0.0.1/sparql", Slot: "@every 1m", Budget: registry.Duration(30 * time.Second),
			Timeout: registry.Duration(time.Hour), Policy: spelling, Merge: registry.MergeOff, // shadows ask for each query alone
		}
		register := func(edit bool) {
			for n := range 8 {
				q := schedulertest.Query(e.Name, fmt.Sprint("q_", n))
				q.ID = fmt.Sprint("q_", n)
				plain := q
				if q.Holders = slices.Clone(q.Holders); edit && s.edit != nil {
					s.edit(n, &q)
				}
				if edit && s.halfway && reflect.DeepEqual(q, plain) {
					continue // an edit makes the loop read the query again
				}
				if err := ledger.Register(q); err != nil {
					t.Fatal(err)
				}
			}
		}
		register(!s.halfway)
		m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
		if err := m.Add(e, tide{t}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(time.Until(after(1)))
		e.Budget = registry.Duration(3 * time.Second)
		if err := m.Update(e, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(after(liveSlots / 2)))
		if s.halfway {
			register(true)
		}
		time.Sleep(time.Until(after(liveSlots)))
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		news, err := ledger.Since(e.Name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = configOf(spelling, e.WithDefaults(), news); err != nil {
			t.Fatal(err)
		}
	})
	chosen = map[uint64][]string{}
	for _, x := range c.Entries {
		for _, s := range x.Stats.Samples {
			if s.Slot > 1 {
				chosen[s.Slot] = append(chosen[s.Slot], x.Query.ID)
				slices.Sort(chosen[s.Slot])
			}
		}
	}
	return chosen, c
}

// A tide is an endpoint whose results change with time, each at its own rate.
type tide struct{ t testing.TB }

func (x tide) Execute(_ context.Context, q *registry.Query, _ scheduler.Memory, _ time.Duration) scheduler.Answer {
	n, now := q.ID[len(q.ID)-1]-'0', time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	takes := time.Duration(700+50*int(n)) * time.Millisecond
	time.Sleep(takes)
	r := schedulertest.Rows(x.t, fmt.Sprint(int(now.Minutes())/[]int{2, 3, 11, 300}[n%4]))
	return scheduler.Answer{Outcome: registry.Changed, Result: r, Elapsed: takes}
}

func (tide) Health() registry.Health { return registry.Health{} }
