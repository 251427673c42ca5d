package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

// The plot distinguishes slots with answers, slots without requests, and blackouts.
func TestHealth(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	about := func(h health) string { return rendered(t, "endpoint", "health-about", h) }
	var slots []scheduler.Slot // newest first
	for i := range 24 {
		slots = append(slots, scheduler.Slot{Started: now.Add(-time.Duration(i) * time.Hour), Run: 1, Complete: 1})
	}
	if h := healthOf(slots, nil, now); len(h.Bars) != 12 || len(h.Dark) != 0 || about(h) != "All 24 slots were answered." {
		t.Errorf("slots at their usual distance are drawn as %d bars: %s", len(h.Bars), about(h))
	}
	slots[0] = scheduler.Slot{Started: slots[0].Started, Error: "refused"}
	slots[1] = scheduler.Slot{Started: slots[1].Started, Run: 1, Failed: 1}
	slots[2] = scheduler.Slot{Started: slots[2].Started}
	slots[3].Run, slots[3].Failed = 2, 1
	slots[4] = scheduler.Slot{Started: slots[4].Started, Run: 1, Cut: 1}
	slots[5].Run, slots[5].Cut = 2, 1
	slots[6] = scheduler.Slot{Started: slots[6].Started, Run: 1, Failed: 1, Error: "429", Throttled: true}
	h := healthOf(slots, nil, now)
	if about(h) != "Of 24 slots: 18 answered, 1 in which nothing was finished within the budget, 1 answered in part, 2 failed, "+
		"1 in which it had asked us to wait, 1 with nothing due." {
		t.Error(about(h))
	}
	if last := h.Bars[len(h.Bars)-1]; last.Class != "err" {
		t.Errorf("the newest slot failed and is drawn as %+v", last)
	}
	for i := range slots {
		slots[i] = scheduler.Slot{Started: slots[i].Started}
	}
	if h := healthOf(slots, nil, now); len(h.Bars) != 0 || about(h) != "Nothing was due in 24 slots." {
		t.Errorf("nothing was asked: %d bars, %s", len(h.Bars), about(h))
	}

	hour := registry.Duration(time.Hour)
	h = healthOf(slots, []registry.Blackout{{Start: "0 2 * * *", For: hour}, {Start: "0 11 * * *", For: 3 * hour / 2}}, now)
	if len(h.Dark) != 2 || !strings.HasSuffix(about(h), " In 2 blackout times no slot began.") {
		t.Fatalf("%+v %s", h.Dark, about(h))
	}
	// The plot shows 23 hours, from 13:00 of the previous day.
	if d := h.Dark[0]; d.X != "56.52%" || d.Width != "4.35%" {
		t.Errorf("2 to 3 o'clock is drawn from %s, %s wide", d.X, d.Width)
	}
	if d := h.Dark[1]; d.X != "95.65%" || d.Width != "4.35%" {
		t.Errorf("what is dark since 11 o'clock is drawn from %s, %s wide", d.X, d.Width)
	}
	h = healthOf(slots, []registry.Blackout{{Start: "* * * * *", For: registry.Duration(10 * time.Second)}}, now)
	if len(h.Dark) != 1 || !strings.Contains(about(h), "1,380 blackout times") {
		t.Errorf("one a minute: %d frames, %s", len(h.Dark), about(h))
	}
}

// A haltingDaemon runs no slot for a reason that a test sets.
type haltingDaemon struct {
	web.Daemon
	why *string
}

func (d haltingDaemon) State(endpoint string) (scheduler.LoopState, error) {
	st, err := d.Daemon.State(endpoint)
	st.Halted = *d.why
	return st, err
}

// The headline and the navigation report everything that keeps results from being fresh, and of
// alerts that fire. No page calls a result live while its endpoint runs no slot.
func TestTroublesAreInTheHeadline(t *testing.T) {
	disk, why := registry.Storage{}, ""
	nodes := newFixedCluster()
	r := newRigWith(t, func(_ *rig, c *Config) {
		c.Health, c.Daemon, c.Cluster = condition{&disk}, haltingDaemon{c.Daemon, &why}, nodes
	})
	r.endpoint("city")
	q := r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	r.oracle.set(q.ID, delays(t, [2]string{"S1", "12"}, [2]string{"S2", "20"}))
	r.tick("city")
	r.get("/").has("The one result is fresh.").lacks("fires", "heartbeats", `class="n bad"`)
	if _, err := r.pages.Rules.Create(t.Context(), admin, registry.RuleSettings{Name: "late", Query: q.ID, When: "?delay > 10",
		Summary: "?line is late"}); err != nil {
		t.Fatal(err)
	}
	r.get("/queries").has(`firing or failing: </span>2`)
	r.get("/").has("The one result is fresh.", `<a href="/rules">2 alerts fire.</a>`)
	r.get("/rules").has(`list="known"`, `<option value="delays">`)
	nodes.mu.Lock()
	nodes.state.Nodes[1].State = registry.NodeSilent
	nodes.mu.Unlock()
	r.get("/").has("The node n2 of the cluster sends no heartbeats.", `troubles of the server: </span>1`, `without heartbeats: </span>1`)
	disk, why = registry.Storage{ReadOnly: true}, "no slot runs"
	r.get("/").has("No result is fresh.", "Nothing is executed or stored, because the disk is full.",
		`troubles of the server: </span>2`, "1 stale")
	for _, path := range []string{"/queries", "/queries/" + q.ID} {
		r.get(path).has(`class="state stale"`).lacks(`class="state live"`)
	}
	for n, want := range []string{"", "1 alert rule fails.", "2 alert rules fail."} {
		lede := rendered(t, "overview", "overview-lede", overviewLede{Endpoints: 1, Failing: n})
		if strings.Contains(lede, "alert rule") != (n > 0) ||
			!strings.Contains(lede, want) {
			t.Errorf("%d rules: %s", n, lede)
		}
	}
}

// The results of a paused endpoint are not known to be true. Each page says so, and offers no slot.
func TestPausedEndpointIsNotFresh(t *testing.T) {
	r := newRig(t)
	r.endpoint("city")
	q := r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	r.oracle.set(q.ID, delays(t, [2]string{"S1", "12"}))
	r.tick("city")
	x, err := r.pages.Rules.Create(t.Context(), admin, registry.RuleSettings{Name: "late", Query: q.ID, When: "?delay > 10"})
	if err != nil || x.Status != registry.RuleFiring {
		t.Fatal(x.Status, err)
	}
	r.get("/endpoints/city").has("Run a slot now")
	r.follow(r.post("/endpoints/city/pause")).has("served as stale",
		`/endpoints/city/resume"><button class="btn primary">`).lacks("Run a slot now")
	r.get("/").has("No result is fresh.", "city</a> is paused.", "1 stale")
	r.get("/queries").has(`class="state stale"`, "the endpoint is paused").lacks(`class="state live"`)
	r.get(queryPath(q.ID)).has(`id="lede"><b>city is paused: the result is of `, "anonymous paused it").lacks("It is 1st of 1 that are due")
	if x, err = r.pages.Rules.Rule(admin, x.ID); err != nil || x.Status != registry.RuleStale || x.Firing != 1 {
		t.Error(x.Status, x.Reason, err)
	}
	r.follow(r.post("/endpoints/city/resume")).has("Run a slot now")
	r.get("/").has("The one result is fresh.")
}

// The results of an endpoint that fails, or that asked to wait for a whole slot, are stale, also those of queries that were not asked
// since. Each page says so, and rules are stale.
func TestFailingEndpointIsNotFresh(t *testing.T) {
	for _, c := range []struct {
		health registry.Health
		words  []string
	}{
		{registry.Health{State: registry.HealthFailing, Error: "connection refused", Failures: 5}, []string{">failing", "connection refused"}},
		{registry.Health{State: registry.HealthThrottled, Error: "429 slow down"}, []string{"asked us to wait", "429 slow down"}},
	} {
		r := newRig(t)
		r.endpoint("city")
		q := r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
		r.oracle.set(q.ID, delays(t, [2]string{"S1", "12"}))
		r.tick("city")
		x, err := r.pages.Rules.Create(t.Context(), admin, registry.RuleSettings{Name: "late", Query: q.ID, When: "?delay > 10"})
		if err != nil || x.Status != registry.RuleFiring {
			t.Fatal(x.Status, err)
		}
		r.get("/").has("The one result is fresh.")
		r.oracle.mu.Lock()
		c.health.Since, c.health.Until = time.Now(), time.Now().Add(time.Hour)
		r.oracle.health = c.health
		r.oracle.mu.Unlock()
		r.tick("city") // which asks nothing
		r.get("/").has("No result is fresh.", "1 stale", "The last results are served as stale.").has(c.words...)
		r.get("/endpoints/city").has("The last results are served as stale.").has(c.words...)
		r.get("/queries").has(`class="state stale"`, c.health.Error).lacks(`class="state live"`)
		r.get(queryPath(q.ID)).has("Stale: the result is of ", c.health.Error)
		if x, err = r.pages.Rules.Rule(admin, x.ID); err != nil || x.Status != registry.RuleStale || x.Firing != 1 {
			t.Error(x.Status, x.Reason, err)
		}
		r.oracle.mu.Lock()
		r.oracle.health = registry.Health{}
		r.oracle.mu.Unlock()
		r.get("/").has("The one result is fresh.") // its last execution was complete
	}
}

// While nothing can be stored, no page says that an endpoint is healthy or that a query runs soon.
func TestFullDiskStopsSlots(t *testing.T) {
	r := newRig(t)
	r.endpoint("city")
	q := r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	r.oracle.set(q.ID, delays(t, [2]string{"S1", "12"}))
	r.tick("city")
	const toc = `aria-current="page">city <span`
	r.get("/endpoints/city").has("Healthy").lacks("It runs no slot", toc)
	r.full.Store(true)
	r.get("/endpoints/city").has("It runs no slot, because nothing can be stored.", "no slot runs: the store takes no writes",
		"The last results are served as stale.", toc+` class="bad">halted<`).lacks("Healthy")
	r.get(queryPath(q.ID)).has("Stale: the result is of ", "no slot runs: the store takes no writes").
		lacks("It runs again", "that are due", "The last run ended as")
	r.get("/register").has("(halted)")
}

// A share below all never reads as all, and one above nothing never as nothing.
func TestSharesAreNotRoundedToAll(t *testing.T) {
	for x, want := range map[float64]string{1: "100", 0.9975: "99.7", 0.9999999: "99.9", 0.995: "99.5", 0.994: "99.4", 0.5: "50",
		0.0004: "<0.1", 0: "0"} {
		if got := share(x).Value; got != want {
			t.Errorf("%v reads as %s %%, want %s", x, got, want)
		}
	}
	s := sparkline([]float64{0.99, 1}, 1, figures)
	if want := "M0 3.17L100 3"; s.Line != want {
		t.Errorf("99 and 100 %% are drawn as %s, want %s", s.Line, want)
	}
}
