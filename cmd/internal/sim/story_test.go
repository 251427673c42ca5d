package main

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// A story first says in words what the plan has.
func TestStory(t *testing.T) {
	r := quiet()
	p, at := r.Plan, func(n int) plan.Window { return plan.Window{From: time.Duration(n) * time.Second, Until: time.Minute} }
	p.Stops = []plan.Stop{{At: time.Second, Pause: 2 * time.Second, Clean: true}, {At: 4 * time.Second, Pause: time.Second, Call: 7}}
	p.Flips = []plan.Flip{{At: time.Second, Place: 0.5}}
	p.Edits = []plan.Edit{{At: time.Second, Settings: plan.Settings{Budget: time.Second, Policy: "rr", Rule: "debt", Merge: "off",
		Concurrency: 4, Timeout: time.Second, Retention: 5, Age: 2 * time.Minute}}}
	p.Followers = []plan.Follower{{Way: plan.SSE, Away: []plan.Window{at(10)}},
		{Way: plan.Webhook, Away: []plan.Window{at(11), at(12)}, Trouble: plan.Hangs}}
	p.Feed = &plan.Feed{Delay: time.Second, Lag: 2 * time.Second, Position: true, Away: []plan.Window{at(13)}, Trouble: plan.Lost,
		Lost: []plan.Window{at(14)}, Lies: []plan.Window{at(15)}}
	p.Profiles = []plan.Profile{{From: time.Second, Queries: []int{0, 1}, Every: time.Minute, Slack: 11 * time.Second}}
	p.Rules = []plan.Rule{{Above: 5, For: time.Second, From: time.Second, Away: []plan.Window{at(16)}, Trouble: plan.Resets},
		{Rows: true, Above: 3, Manager: true}}
	said := string(story(r))
	for _, want := range []string{
		"   1.000s: the server is stopped, and starts again after 2s.",
		"   4.000s: the power fails at the disk call number 7 after that, or a second later; the server starts again after 1s.",
		"   1.000s: before the next start, bit 0 is flipped at 50.0% of the store's file.",
		"   1.000s: from the next start on, the server has a budget of 1s by rr (debt), merge: off, 4 at a time, min_gap 0s, timeout 1s, " +
			"and 5 changes kept for 2m0s.",
		"  10.000s to   60.000s: follower 0 (sse, query 0) is away.",
		"  11.000s to   60.000s: the receiver of follower 1 (webhook, query 0) does not answer.",
		"  12.000s to   60.000s: the receiver of follower 1 (webhook, query 0) does not answer.",
		"The endpoint has a feed: its log is 1s behind the truth and answers after 0s. The data of the endpoint are 2s behind, and it tells " +
			"its position in the log.",
		"  13.000s to   60.000s: the log cuts its answers off.",
		"  14.000s to   60.000s: changes of the data are lost to the log.",
		"  15.000s to   60.000s: the endpoint tells a wrong position.",
		"   1.000s: profile 0 asks for queries [0 1] to be refreshed together every 1m0s, with a slack of 11s.",
		"   1.000s: rule 0 raises an alert for each value of query 0 above 5, after 1s, keeps it for 0s, and sends it to a webhook.",
		"  16.000s to   60.000s: the receiver of rule 0 closes connections.",
		"   0.000s: rule 1 raises an alert if query 0 has more than 3 rows, after 0s, keeps it for 0s, and sends it to an Alertmanager.",
	} {
		if !strings.Contains(said, "\n"+want+"\n") {
			t.Errorf("the story has no line %q", want)
		}
	}
	if strings.Contains(said, ":{") || strings.Contains(said, "map[") || strings.Contains(said, "%!") || t.Failed() {
		t.Errorf("the story:\n%s", said)
	}
}

// A result of the past has the number of its change or a time.
func TestLineOfThePast(t *testing.T) {
	for want, e := range map[string]plan.Event{
		"the result of query 2 at change 12 was [3 4]":                     {Seq: 12},
		"the result of query 2 at 63.500s of the server's clock was [3 4]": {Wall: epoch.Add(63500 * time.Millisecond).UnixNano()},
	} {
		e.Kind, e.Query, e.Rows = plan.Past, 2, [][]int{{3, 4}}
		if got := line(&plan.Plan{}, e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
