package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// A query without any complete result is visible on every page: its state, the
// endpoint's error, a filter and a number in the navigation.
func TestFailingQueryIsSeen(t *testing.T) {
	r := newRig(t)
	r.endpoint("city")
	good := r.register("city", "good", "SELECT ?s { ?s ?p ?o }")
	bad := r.register("city", "bad", "ASK { ?s ?p ?o }")
	r.oracle.set(good.ID, r.numbers(1))
	r.oracle.refuse(bad.ID, "400 no PREFIX for <em>rdfs</em>")
	r.tick("city")
	r.get("/queries").has(">failing<", "no PREFIX for &lt;em&gt;rdfs", "1 query fails.", "failing (1)", "failing: ")
	r.get("/queries?state=failing").has("bad", "1 to 1 of 1")
	r.get("/").has("1 of 2 results is fresh.", "1 query fails.", "1 failing").lacks("not run yet")
	r.get(queryPath(bad.ID)).has("Failing: no run was complete yet.", "no PREFIX for &lt;em&gt;rdfs", "There is no result yet.",
		"No run was complete yet.", `<div class="msg fail" role="group"`).lacks("Nothing has run yet", "It has no result yet.")
	r.get("/endpoints/city").has("Healthy").lacks("failing for")
}

// An endpoint without any complete answer is failing on every page, and shows its own error. No page
// mentions results that never existed.
func TestEndpointWithoutCompleteAnswers(t *testing.T) {
	r := newRig(t)
	r.endpoint("city")
	r.register("city", "a", "SELECT ?s { ?s ?p ?o }")
	r.oracle.partial("the answer is text/html (it says: Maintenance)")
	for range 40 {
		r.tick("city")
	}
	const words, result = "it says: Maintenance", "There is no result yet."
	r.get("/").has("has answered nothing complete", words, result, ">failing").lacks("not answer", "The last results", ">live<")
	r.get("/endpoints").has("0 of 1 endpoint answer.", "answers nothing complete.")
	r.get("/endpoints/city").has("It answers nothing complete.", words, "failed").lacks("Healthy")
}

// An endpoint that asked to wait is neither failing nor answering.
func TestEndpointThatWaits(t *testing.T) {
	r := newRig(t)
	r.endpoint("city")
	r.register("city", "a", "SELECT ?s { ?s ?p ?o }")
	r.oracle.waits("Too many requests, see robot policy", time.Hour)
	r.tick("city")
	r.tick("city")
	r.get("/").has("asked us to wait", "see robot policy").lacks("slots failed", "failing")
	r.get("/endpoints").has("0 of 1 endpoint answer.", "asked us to wait.")
	r.get("/endpoints/city").has("It asked us to wait.", "see robot policy", `class="wait"`).lacks("failing", `class="cut"`)
}

// The query's page says when the Age header is not trusted.
func TestIgnoredAgeIsSaid(t *testing.T) {
	r := newRig(t)
	r.endpoint("city")
	q := r.register("city", "a", "SELECT ?s { ?s ?p ?o }")
	r.oracle.mu.Lock()
	r.oracle.age = 48 * time.Hour
	r.oracle.mu.Unlock()
	for n := range 12 {
		r.oracle.set(q.ID, r.numbers(n))
		r.tick("city")
	}
	r.get(queryPath(q.ID)).has("age-ignored", "more than a day old")
}

// A lede names the first endpoints with problems, failing ones before waiting ones,
// and the number of the others. The numbers add up.
func TestManyEndpointsInTrouble(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		r.endpoint(name)
		r.register(name, "q-"+name, "SELECT ?s { ?s ?p ?o }")
	}
	r.oracle.partial("the answer is text/html")
	for range 40 {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			r.tick(name)
		}
	}
	r.get("/").has("2 more endpoints need a look.", "5 queries fail.")
	r.get("/endpoints").has("0 of 5 endpoints answer.", "2 more endpoints need a look.")
}

// On an endpoint's page the table and the sentence below the plot count the same slots as failed,
// and count all time that was used.
func TestSlotsThatFailedAreCountedOnce(t *testing.T) {
	slots := []scheduler.Slot{
		{Run: 2, Failed: 2, Used: 1, Budget: 10},
		{Run: 1, Failed: 1, Used: 2, Budget: 10, Throttled: true, Error: "429"},
		{Error: "does not answer", Budget: 10},
		{Run: 3, Complete: 2, Failed: 1, Used: 4, Budget: 10, Error: "does not answer"},
		{Budget: 10},
	}
	now := time.Now()
	for i := range slots {
		slots[i].Started = now.Add(-time.Duration(i) * time.Minute)
	}
	if n := numbers(slots, now); n.Slots != 5 || n.Lost != 2 {
		t.Errorf("%+v, want 5 slots, 2 of them lost", n)
	}
	if about := rendered(t, "endpoint", "health-about", healthOf(slots, nil, now)); !strings.Contains(about,
		": 1 answered in part, 2 failed, 1 in which it had asked us to wait") {
		t.Error(about)
	}
	if s := total(slots); s.used != 7 || s.budget != 40 {
		t.Errorf("used %v of %v", s.used, s.budget)
	}
}

func TestJudgeSlot(t *testing.T) {
	for _, c := range []struct {
		slot scheduler.Slot
		want verdict
	}{
		{scheduler.Slot{}, asleep},
		{scheduler.Slot{Run: 2, Complete: 2}, answered},
		{scheduler.Slot{Run: 2, Complete: 1, Cut: 1}, answered},
		{scheduler.Slot{Run: 2, Complete: 1, Failed: 1}, partly},
		{scheduler.Slot{Run: 2, Cut: 2}, unfinished},
		{scheduler.Slot{Run: 2, Cut: 1, Failed: 1}, failed},
		{scheduler.Slot{Error: "down"}, failed},
		{scheduler.Slot{Error: "429", Throttled: true}, waiting},
		{scheduler.Slot{Run: 1}, asleep}, // dropped
	} {
		if got := judgeSlot(c.slot); got != c.want {
			t.Errorf("%+v: %s, want %s", c.slot, got, c.want)
		}
	}
	if failureOf(registry.Health{State: registry.HealthFailing, Failures: 5, Until: time.Now()}) == failureOf(registry.Health{
		State: registry.HealthFailing, Incomplete: 5}) {
		t.Error("what does not answer and what answers nonsense are called the same")
	}
}

// A run cut by the budget is not drawn as a failure.
func TestStripOfCutRun(t *testing.T) {
	for outcome, failed := range map[registry.Outcome]bool{registry.Cut: false, registry.Partial: false, registry.Failed: true,
		registry.Rejected: true} {
		s := policy.Stats{}
		s.LastRun.Slot, s.LastRun.At, s.LastRun.Outcome = 7, time.Now(), outcome
		if x := stripOf(s, 9); (x.Failed != "") != failed || (x.Partial == "") != failed {
			t.Errorf("%s: failed %q, partial %q, %s", outcome, x.Failed, x.Partial, rendered(t, "query", "strip-about", x))
		}
	}
}

// A state that began in the past is described in the right tense.
func TestFailsSince(t *testing.T) {
	for want, f := range map[string]failure{"does not answer": {}, "has not answered since 05:02": {Since: "05:02"},
		"answers with status 502":                   {Status: "502"},
		"has answered with status 502 since 05:02":  {Status: "502", Since: "05:02"},
		"has answered nothing complete since 05:02": {Nothing: true, Since: "05:02"}} {
		if got := rendered(t, "endpoint", "fails", f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
