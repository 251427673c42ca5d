// Tests of the pages of alert rules.

package ui

import (
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web"
)

// rules starts the engine of alert rules.
func (r *rig) rules() *alert.Engine {
	r.t.Helper()
	guard, err := deliver.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		r.t.Fatal(err)
	}
	e, err := alert.New(alert.Options{Store: r.store.Rules, Queue: r.store.Subscriptions, Log: r.store.History,
		Past: r.store.History, Waker: r.hub, Guard: guard, Query: r.store.Queries.Query,
		Now: time.Now, Machine: time.Now, Logger: slog.New(slog.DiscardHandler), Most: 50_000, MostEach: 10_000, Bytes: 32 << 20, Rows: 1000,
		Receivers: 10, Addresses: 10_000, Lease: func() (uint64, bool) { return 0, true },
		Names:   func(string, []string) watch.Namer { return watch.Plain },
		Proved:  func(string, registry.Position) time.Time { return time.Time{} },
		Halted:  func(endpoint string) string { return web.Halts{Registry: r.reg, Daemon: r.daemon}.Why(endpoint) },
		Resolve: func(c registry.Caller, ref string) (registry.Query, error) { return r.reg.Resolve(c, ref) },
		Caller:  func(name string) (registry.Caller, error) { return r.gate.Named(name) }})
	if err != nil {
		r.t.Fatal(err)
	}
	d, err := deliver.New(notifytest.Delivering(deliver.Options{Store: r.store.Subscriptions, Waker: r.hub, Guard: guard,
		Targets: map[registry.Way]deliver.Target{registry.Alerts: alert.Target{Engine: e}}}))
	if err != nil {
		r.t.Fatal(err)
	}
	e.Deliver(d)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 2)
	go func() { over <- e.Run(ctx) }()
	go func() { over <- d.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-over, <-over); err != nil {
			r.t.Error(err)
		}
	})
	return e
}

// delays is a result with the variables line and delay.
func delays(t *testing.T, rows ...[2]string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	if err := b.SetVars([]string{"line", "delay"}); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := b.Row(diff.Term{Kind: diff.Literal, Value: row[0]}, diff.Term{Kind: diff.Literal, Value: row[1]}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A visitor tries a rule on the history, saves it, sees its alerts, and removes it.
func TestRulePages(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer hook.Close()
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	q := r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	r.get("/").has(`href="/rules"`)
	r.get("/rules?query=delays").status(200).has("No rule yet", `value="delays"`)
	rule := []string{"name", "late", "query", "delays", "when", "?delay > 10", "summary", "?line is ?delay late", "to", "webhook " +
		hook.URL + "/?key=sesame"}
	r.post("/rules", append(rule, "do", "try")...).status(422).has("No execution of this query has been complete")
	for _, rows := range [][][2]string{{{"S1", "12"}}, {{"S1", "2"}}, {{"S1", "3"}, {"S2", "20"}}} {
		r.oracle.set(q.ID, delays(t, rows...))
		r.tick("city")
	}
	r.post("/rules", append(rule, "do", "try")...).status(200).has("It would have fired 2 times", "in 3 changes", "line=S2",
		"S2 is 20 late", "Nothing is saved yet", "No rule yet", `value="late"`)
	secret := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`)
	if a := r.post("/rules", rule...).status(201).has("The rule is saved", "late"); !secret.MatchString(html.UnescapeString(a.body)) {
		t.Error("the secret is not shown")
	}
	r.post("/rules", rule...).status(409).has("named late already")
	r.get("/rules").status(200).has(`href="/rules/late"`, "firing").lacks("whsec_", "sesame")
	r.get("/rules/late").status(200).has("S2 is 20 late", "Alerts now", "webhook", hook.URL+"/?…", queryPath(q.ID)).lacks("whsec_", "sesame")
	page := r.get("/rules/late").has(">Edit</a>", ">Pause</button>").body
	edit := regexp.MustCompile(`/rules\?edit=(rule_[a-z0-9]+)`).FindStringSubmatch(page)
	form := r.get(edit[0]).status(200).has("Edit late", "webhook "+hook.URL+"/?…", "Save changes").lacks("sesame").body
	tag := regexp.MustCompile(`name="tag" value="([^"]+)"`).FindStringSubmatch(form)[1]
	changed := []string{"edit", edit[1], "tag", html.UnescapeString(tag), "name", "late", "query", "delays", "when", "?delay > 15",
		"summary", "?line", "labels", "line=?line", "to", regexp.MustCompile(`webhook \S+/\?…[0-9a-f]{6}`).FindString(form)}
	r.post("/rules", append(changed, "for", "soon")...).status(422).has("Edit late", `name="edit"`)
	r.follow(r.post("/rules", changed...)).has("Rule late is saved.", "?delay &gt; 15", "line=S2")
	r.follow(r.post("/rules", changed...)).has(`class="msg said fail"`, "was changed meanwhile", "Edit late", "?delay &gt; 15")
	if x, err := r.pages.Rules.Rule(registry.Caller{Role: registry.RoleAdmin}, "late"); err != nil || x.To[0].Address != hook.URL+
		"/?key=sesame" {
		t.Errorf("the receiver is %v: %v", x.To, err)
	}
	r.follow(r.post("/rules/late/pause")).has("Rule late is paused.", ">Resume</button>", "There is no alert")
	r.follow(r.post("/rules/late/resume")).has("is evaluated again", ">Pause</button>", "line=S2")
	r.get("/rules?edit=rule_none").status(404)
	r.post("/rules/none/pause").status(404)
	r.oracle.fail("it is down")
	for range 3 {
		r.tick("city")
	}
	r.get("/rules/late").has("stale", "it is down")
	r.post("/rules", "name", "other", "query", "delays", "when", "rows > 0", "for", "30m").status(303)
	r.get("/rules/other").status(200).has("30m", "shown here only")
	r.get("/rules/other/remove").status(200).has("Remove other?", "Those that are firing are resolved")
	r.follow(r.post("/rules/other/remove")).has("Rule other is removed.", "late").lacks("/rules/other")
	r.get("/rules/other").status(404).has("There is no such rule")
}

// Callers do not see the rules of others, unless they are admins.
func TestRulesOfOthers(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	other := registry.Caller{Name: "other", Role: registry.RoleAdmin}
	if _, err := r.pages.Rules.Create(t.Context(), other, registry.RuleSettings{Name: "theirs", Query: "delays",
		When: "rows > 0"}); err != nil {
		t.Fatal(err)
	}
	r.get("/rules").status(200).lacks("theirs")
	r.get("/rules/theirs").status(404)
	r.post("/rules/theirs/remove").status(404)
	if _, err := r.pages.Rules.Rule(registry.Caller{Role: registry.RoleAdmin}, "theirs"); err != nil {
		t.Error(err)
	}
}

// The page of a rule with many alerts shows them in pages.
func TestRulePageWithManyAlerts(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	q := r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	var rows [][2]string
	for i := range shownRules + 30 {
		rows = append(rows, [2]string{fmt.Sprint("S", i), "12"})
	}
	r.oracle.set(q.ID, delays(t, rows...))
	r.tick("city")
	r.post("/rules", "name", "late", "query", "delays", "when", "?delay > 10").status(303)
	first := r.get("/rules/late").status(200).has("next alerts").lacks("first alerts").body
	next := regexp.MustCompile(`href="(\?after=[0-9a-f]{16})"`).FindStringSubmatch(first)
	if next == nil {
		t.Fatal("no link to the next alerts")
	}
	second := r.get("/rules/late" + next[1]).status(200).has("first alerts").lacks("next alerts").body
	now, label := regexp.MustCompile(`(?s)id="h-alerts".*?</section>`), regexp.MustCompile(`line=(S\d+)`)
	pages := map[string]map[int]bool{}
	for i, page := range []string{first, second} {
		for _, m := range label.FindAllStringSubmatch(now.FindString(page), -1) {
			if pages[m[1]] == nil {
				pages[m[1]] = map[int]bool{}
			}
			pages[m[1]][i] = true
		}
	}
	for _, row := range rows {
		if on := pages[row[0]]; len(on) != 1 {
			t.Errorf("the alert of %s is on the pages %v", row[0], on)
		}
	}
}

// A visitor points at a row of a result, sees how often a rule would have fired, and saves it.
func TestTellMeWhen(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	result := func(rows ...string) *diff.Result {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		err := b.SetVars([]string{"garage", "free"})
		for _, row := range rows {
			garage, free, _ := strings.Cut(row, "=")
			err = errors.Join(err, b.Row(diff.Term{Kind: diff.IRI, Value: "http://x.example/" + garage}, diff.Term{Kind: diff.Literal,
				Value: free, Datatype: xsd + "integer"}))
		}
		x, e := b.Finish()
		if err = errors.Join(err, e); err != nil {
			t.Fatal(err)
		}
		return x
	}
	const text = "SELECT ?garage ?free { ?garage <http://x.example/free> ?free }"
	q := r.register("city", "free", text)
	path := queryPath(q.ID)
	r.get(path + "/tell").status(404).has("There is no result yet")
	for _, rows := range [][]string{{"north=3", "south=8"}, {"north=0", "south=8"}, {"north=0"}} {
		r.oracle.set(q.ID, result(rows...))
		r.tick("city")
	}
	r.get(path).status(200).has(path+"/tell?b=3&amp;row=0", "something happens to row 1", "Tell me when rows come or go")
	page := r.get(path+"/tell?b=1&row=1").status(200).has("The row", "http://x.example/south", "this row goes",
		"of this row changes", "is above the number below", "a new row comes", "anything changes")
	page.lacks("the answer changes")
	row := []string{"b", "1", "row", "1"}
	post := func(pairs ...string) *response { return r.post(path+"/tell", append(slices.Clone(row), pairs...)...) }
	post("what", "row", "do", "try").status(200).has("It would have fired once",
		"removed ?garage where ?garage = &lt;http://x.example/south&gt;", "south is gone")
	post("what", "cell1", "do", "try").status(200).has("It would have fired once",
		"changed ?free where ?garage = &lt;http://x.example/south&gt;")
	post("what", "above1", "limit", "5", "do", "try").status(200).has("It would have fired once", "south: free is 8")
	post("what", "below1", "limit", "5", "do", "try").status(200).has("It would have fired 0 times")
	post("what", "new", "do", "try").status(200).has("It would have fired 0 times")
	post("what", "rows", "limit", "1", "do", "try").status(200).has("It would have fired once")
	post("what", "any", "do", "try").status(200).has("It would have fired once")
	post("what", "above1", "do", "try").status(422).has("Write a number")
	post("what", "above1", "limit", "1 or 1=1").status(422)
	post("what", "nothing").status(422).has("Choose one of them")
	post("what", "row", "for", "10m").status(422).has("a change is over at once")
	r.post(path+"/tell", "b", "1", "row", "9", "what", "row").status(404)
	r.post(path+"/tell", "b", "9", "row", "x", "what", "row").status(404)
	r.follow(post("what", "row")).status(200).has("is saved", "south is gone", "removed ?garage where")
	r.follow(post("what", "row")).status(200).has("row-2")
	r.post(path+"/tell", "what", "row").status(422)
	r.follow(r.post(path+"/tell", "what", "any", "name", "whole")).status(200).has("whole")
	ask := r.register("city", "yes", "ASK { ?a ?b ?c }")
	r.tick("city")
	r.get(queryPath(ask.ID) + "/tell").status(200).has("the answer changes").lacks("this row goes")
}
