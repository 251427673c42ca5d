// Tests of alert rules in the API.

package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/store"
)

// alerting gives the API a running engine of alert rules over a real store.
func (w *world) alerting(c *Config) {
	w.t.Helper()
	db, err := store.Open(w.t.TempDir(), store.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	guard, err := deliver.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := alert.New(alert.Options{Store: db.Rules, Queue: db.Subscriptions, Log: w.m, Past: w.m, Waker: w.wakes, Guard: guard,
		Query: w.m.Query, Resolve: c.Registry.Resolve, Most: 5, MostEach: 3,
		Now: time.Now, Machine: time.Now, Logger: slog.New(slog.DiscardHandler), Bytes: 32 << 20, Rows: 1000,
		Receivers: 10, Addresses: 10_000, Lease: func() (uint64, bool) { return 0, true },
		Names:  func(string, []string) watch.Namer { return watch.Plain },
		Proved: func(string, registry.Position) time.Time { return time.Time{} },
		Halted: func(string) string { return "" },
		Caller: func(name string) (registry.Caller, error) {
			return registry.Caller{Name: name, Role: registry.RoleRead}, nil
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	d, err := deliver.New(notifytest.Delivering(deliver.Options{Store: db.Subscriptions, Waker: w.wakes, Guard: guard,
		Targets: map[registry.Way]deliver.Target{registry.Alerts: alert.Target{Engine: e}}}))
	if err != nil {
		w.t.Fatal(err)
	}
	e.Deliver(d)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- e.Run(ctx) }()
	go func() { ended <- d.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			w.t.Error(err)
		}
		if err := db.Close(); err != nil {
			w.t.Error(err)
		}
	})
	c.Rules, w.rules = e, e
	c.Deliveries = func() (list []Deliveries) {
		for _, s := range d.WayStats() {
			list = append(list, Deliveries{Way: s.Way, Kind: s.Kind, Delivered: s.Taken, Failed: s.Failed, Dropped: s.GivenUp})
		}
		return list
	}
	c.AllSubscriptions = func(yield func(registry.Subscription, error) bool) {
		list, err := db.Subscriptions.Subscriptions("", 100)
		if err != nil {
			yield(registry.Subscription{}, err)
		}
		for _, s := range list {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// Rules are listed by their query, also those that have outlived it.
func TestRulesOfAQueryThatEnded(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"rows"`)
	w.post("/v1/rules", `{"name":"some","query":"rows","when":"rows > 0"}`).status(201)
	w.do("DELETE", "/v1/queries/"+id, "").status(204)
	if list := w.get("/v1/rules?query=" + id).status(200).json()["rules"].([]any); len(list) != 1 {
		t.Errorf("the rules of a query that ended: %v", list)
	}
	w.get("/v1/rules?query=rows").problem(404, "not-found")
}

func TestRules(t *testing.T) {
	w := newWorld(t)
	got := atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	defer srv.Close()
	id := w.register(selectText, `"name":"rows"`)
	body := func(name, when string) string {
		return fmt.Sprintf(`{"name":%q,"query":"rows","when":%q,"labels":{"s":"?s"},"summary":"?s is `+
			`there","to":[{"webhook":"%s/hook?key=hush"}]}`, name, when, srv.URL)
	}
	const when = `?s contains "b"`
	w.post("/v1/rules/try", body("b", when)).problem(404, "no-result")
	w.m.publish(id, finishRows(t, "a"))
	w.m.publish(id, finishRows(t, "a", "b"))
	w.m.publish(id, finishRows(t, "a"))
	w.m.publish(id, finishRows(t, "ab"))
	v := w.post("/v1/rules/try", body("", when)).status(200).json()
	if v["fired"] != 2.0 || v["resolved"] != 1.0 || v["changes"] != 4.0 || len(v["history"].([]any)) != 3 || len(v["alerts"].([]any)) != 1 {
		t.Errorf("tried: %v", v)
	}
	if len(w.get("/v1/rules").status(200).json()["rules"].([]any)) != 0 || got.Load() != 0 {
		t.Error("a trial left something")
	}
	a := w.post("/v1/rules", body("b", when)).status(201)
	rule := a.string("id")
	if a.Header.Get("Location") != "http://freshet.example.org:8080/v1/rules/"+rule || !strings.Contains(string(a.body), "whsec_") ||
		a.string("status") != "firing" {
		t.Errorf("made: %s", a.body)
	}
	w.until("the message", func() bool { return got.Load() == 1 })
	w.m.publish(id, finishRows(t, "a"))
	w.wakes.Wake(id)
	w.until("its end", func() bool { return got.Load() == 2 })
	for _, p := range []string{"/v1/rules", "/v1/rules/" + rule, "/v1/rules/b"} {
		if b := string(w.get(p).status(200).body); strings.Contains(b, "hush") || strings.Contains(b, "whsec_") ||
			!strings.Contains(b, srv.URL+"/hook?…") {
			t.Errorf("%s shows %s", p, b)
		}
	}
	if v := w.get("/v1/rules/b").json(); v["status"] != "inactive" || v["fired"] != 1.0 || len(v["history"].([]any)) != 2 {
		t.Errorf("%v", v)
	}
	w.until("the record of both", func() bool {
		return strings.Contains(string(w.get("/metrics").status(200).body),
			`freshet_alert_messages_total{receiver="webhook",result="delivered"} 2`)
	})
	for _, want := range []string{`freshet_rules{state="inactive"} 1`, `freshet_rules{state="paused"} 0`,
		`freshet_rule_alerts{state="firing"} 0`,
		`freshet_rule_evaluations_total{result="complete"} 2`, "freshet_rule_lag_seconds 0",
		`freshet_alert_messages_total{receiver="webhook",result="failed"} 0`,
		`freshet_alert_messages_waiting{receiver="email"} 0`} {
		if s := string(w.get("/metrics").status(200).body); !strings.Contains(s, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	w.post("/v1/rules", body("b", when)).problem(409, "exists")
	w.post("/v1/rules", body("c", "s > 1")).problem(422, "bad-setting")
	w.post("/v1/rules/try", body("c", "s > 1")).problem(422, "bad-setting")
	w.post("/v1/rules", `{"name":"c","why":1}`).problem(400, "malformed")
	w.post("/v1/rules/try", `{"for":5}`).problem(400, "malformed")
	w.do("POST", "/v1/rules", "name=c", "Content-Type: text/plain").problem(415, "unsupported-media-type")
	w.do("POST", "/v1/rules/try", "name=c", "Content-Type: text/plain").problem(415, "unsupported-media-type")
	w.get("/v1/rules?status=well").problem(400, "malformed")
	for _, ref := range []string{"rows", id} {
		if list := w.get("/v1/rules?query=" + ref).status(200).json()["rules"].([]any); len(list) != 1 {
			t.Errorf("the rules of %s: %v", ref, list)
		}
	}
	w.get("/v1/rules?query=nothing").problem(404, "not-found")
	w.get("/v1/rules/nothing").problem(404, "not-found")
	w.do("DELETE", "/v1/rules/nothing", "").problem(404, "not-found")

	w.post("/v1/rules", body("c", "?s = x")).status(201)
	w.post("/v1/rules", body("d", when)).status(201)
	w.post("/v1/rules", body("e", when)).problem(403, "quota")
	first := w.get("/v1/rules?limit=1").status(200).json()
	second := w.get("/v1/rules?limit=1&cursor=" + first["next"].(string)).status(200).json()
	if a, b := first["rules"].([]any)[0].(map[string]any)["id"], second["rules"].([]any)[0].(map[string]any)["id"]; a == b ||
		second["next"] == nil {
		t.Errorf("pages begin with %v and %v", a, b)
	}
	w.post("/v1/tokens", `{"name":"ops","role":"admin"}`).status(201)
	w.post("/v1/rules", body("e", when)).problem(401, "unauthorized")
	w.post("/v1/rules/try", body("e", when)).problem(401, "unauthorized")
	w.get("/v1/rules").problem(401, "unauthorized")
	w.get("/v1/rules/b").problem(401, "unauthorized")
	w.do("DELETE", "/v1/rules/b", "").problem(401, "unauthorized")
}

// The document of the API names every kind of receivers, in requests and in answers.
func TestReceiverKinds(t *testing.T) {
	text := newWorld(t).get("/v1/openapi.yaml").status(200).body
	var names []string
	for _, k := range alert.Kinds() {
		if k.Name != registry.Notify {
			names = append(names, k.Name)
		}
	}
	for _, k := range service.Kinds() {
		names = append(names, k.Name)
	}
	for _, name := range names {
		if n := len(regexp.MustCompile(`(?m)^ +`+name+`: \{type: string`).FindAll(text, -1)); n != 2 {
			t.Errorf("%s is a property of %d schemas, want Receiver and the receivers of Rule", name, n)
		}
	}
}

// The alerts of a rule come in pages, and the answer about the rule has the first ones.
func TestAlertsOfARule(t *testing.T) {
	const many = 130
	w := newWorld(t)
	id := w.register(selectText, `"name":"rows"`)
	var rows []string
	for i := range many {
		rows = append(rows, fmt.Sprintf("b%03d", i))
	}
	w.m.publish(id, finishRows(t, rows...))
	r := w.post("/v1/rules", `{"name":"b","query":"rows","when":"?s contains b","labels":{"s":"?s","team":"city"},`+
		`"for":"1h"}`).status(201).json()
	if n := len(r["alerts"].([]any)); n != 100 || r["pending"] != float64(many) {
		t.Errorf("%d alerts of %v are in the answer", n, r["pending"])
	}
	seen := map[any]bool{}
	for path := "/v1/rules/b/alerts?limit=50&state=pending"; path != ""; {
		page := w.get(path).status(200).json()
		for _, a := range page["alerts"].([]any) {
			a := a.(map[string]any)
			if labels := a["labels"].(map[string]any); labels["team"] != "city" || a["state"] != "pending" {
				t.Errorf("%v", a)
			} else {
				seen[labels["s"]] = true
			}
		}
		if path = ""; page["next"] != nil {
			path = "/v1/rules/b/alerts?limit=50&state=pending&cursor=" + page["next"].(string)
		}
	}
	if len(seen) != many {
		t.Errorf("the pages have %d alerts of %d", len(seen), many)
	}
	if list := w.get("/v1/rules/b/alerts?state=firing").status(200).json()["alerts"].([]any); len(list) != 0 {
		t.Errorf("%d alerts fire", len(list))
	}
	w.get("/v1/rules/b/alerts?state=resolved").problem(400, "malformed")
	w.get("/v1/rules/b/alerts?cursor=x").problem(400, "malformed")
	w.get("/v1/rules/c/alerts").problem(404, "not-found")
}

// Rules are edited, paused and resumed, with If-Match. Answers show secrets only if they are new.
func TestRuleEdits(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"rows"`)
	w.m.publish(id, finishRows(t, "a", "b"))
	const hook = "http://127.0.0.1:9/hook?key=hush"
	made := w.post("/v1/rules", `{"name":"r","query":"rows","when":"rows > 1","to":[{"webhook":"`+hook+`"}]}`).status(201)
	const at = "/v1/rules/r"
	tag := w.get(at).Header.Get("ETag")
	if tag == "" || made.Header.Get("ETag") != tag || made.string("status") != "firing" {
		t.Fatalf("tag %s, %s", tag, made.body)
	}
	patch := func(at, body string, headers ...string) *answer {
		return w.do("PATCH", at, body, append(headers, "Content-Type: application/merge-patch+json")...)
	}
	a := patch(at, `{"summary":"?rows rows","for":"5m"}`, "If-Match: "+tag).status(200)
	if a.string("for") != "5m0s" || a.string("status") != "firing" || strings.Contains(string(a.body), "whsec_") ||
		a.Header.Get("ETag") == tag {
		t.Errorf("edited: %s", a.body)
	}
	patch(at, `{"for":null}`, "If-Match: "+tag).problem(412, "precondition-failed")
	w.do("DELETE", at, "", "If-Match: "+tag).problem(412, "precondition-failed")
	w.do("POST", at+"/pause", "", "If-Match: "+tag).problem(412, "precondition-failed")
	w.do("POST", at+"/resume", "", "If-Match: "+tag).problem(412, "precondition-failed")
	// The masked address is that of the stored one; a new webhook gets a secret.
	masked := a.json()["to"].([]any)[0].(map[string]any)["webhook"]
	a = patch(at, fmt.Sprintf(`{"for":null,"to":[{"webhook":%q},{"webhook":"http://127.0.0.1:9/other"}]}`, masked)).status(200)
	to := a.json()["to"].([]any)
	if a.string("for") != "0s" || len(to) != 2 || to[0].(map[string]any)["secret"] != nil || to[1].(map[string]any)["secret"] == nil {
		t.Errorf("receivers: %s", a.body)
	}
	if r, err := w.rules.Rule(registry.Caller{Role: registry.RoleAdmin}, "r"); err != nil || r.To[0].Address != hook {
		t.Errorf("the address is %v: %v", r.To, err)
	}
	// Those that differ in their query strings are told apart.
	a = patch(at, `{"to":[{"webhook":"`+hook+`"},{"webhook":"`+hook+`2"}]}`).status(200)
	to = a.json()["to"].([]any)
	first, second := to[0].(map[string]any)["webhook"], to[1].(map[string]any)["webhook"]
	patch(at, fmt.Sprintf(`{"to":[{"webhook":%q},{"webhook":%q}]}`, second, first)).status(200)
	if r, err := w.rules.Rule(registry.Caller{Role: registry.RoleAdmin}, "r"); err != nil || len(r.To) != 2 || r.To[0].Address != hook+"2" ||
		r.To[1].Address != hook {
		t.Errorf("the addresses are %v: %v", r.To, err)
	}
	a = patch(at, `{"to":[{"webhook":"http://127.0.0.1:9/hook?…"}]}`).problem(422, "bad-setting")
	if !strings.Contains(string(a.body), "write it in full") {
		t.Errorf("%s", a.body)
	}
	patch(at, `{"to":[{"webhook":"`+hook+`"}]}`).status(200)
	if a = w.post(at+"/pause", "").status(200); a.string("status") != "paused" || a.json()["firing"] != 0.0 {
		t.Errorf("paused: %s", a.body)
	}
	if list := w.get("/v1/rules?status=paused").json()["rules"].([]any); len(list) != 1 {
		t.Errorf("paused rules: %v", list)
	}
	if a = w.post(at+"/resume", "").status(200); a.string("status") != "firing" || a.json()["fired"] != 2.0 {
		t.Errorf("resumed: %s", a.body)
	}
	w.post("/v1/rules", `{"name":"taken","query":"rows","when":"rows > 1"}`).status(201)
	patch(at, `{"name":"taken"}`).problem(409, "exists")
	patch(at, `{"when":"rows"}`).problem(422, "bad-setting")
	patch(at, `{"when":5}`).problem(400, "malformed")
	patch(at, `{"paused":true}`).problem(400, "malformed")
	patch(at, `null`).problem(400, "malformed")
	w.do("PATCH", at, "when=x", "Content-Type: text/plain").problem(415, "unsupported-media-type")
	for _, verb := range []string{"PATCH ", "POST /pause", "POST /resume"} {
		method, suffix, _ := strings.Cut(verb, " ")
		w.do(method, "/v1/rules/none"+suffix, "{}", "Content-Type: application/json").problem(404, "not-found")
	}
	secrets := map[string]string{}
	w.token = w.post("/v1/tokens", `{"name":"ops","role":"admin"}`).status(201).string("token")
	for _, x := range [][2]string{{"two", "app"}, {"eye", "read"}} {
		secrets[x[0]] = w.post("/v1/tokens", fmt.Sprintf(`{"name":%q,"role":%q}`, x[0], x[1])).status(201).string("token")
	}
	for _, verb := range []string{"PATCH ", "POST /pause", "POST /resume"} {
		method, suffix, _ := strings.Cut(verb, " ")
		try := func(token string) *answer {
			w.token = token
			return w.do(method, at+suffix, "{}", "Content-Type: application/json")
		}
		try(secrets["two"]).problem(404, "not-found")
		try(secrets["eye"]).problem(403, "forbidden")
		try("wrong").problem(401, "unauthorized")
	}
}

// A rule without labels keeps having none, and its one alert, when something else is edited.
func TestRuleWithoutLabels(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"rows"`)
	const row = `{"s":{"type":"literal","value":%q},"v":{"type":"literal","value":"5"}}`
	result, err := diff.DecodeJSON(fmt.Appendf(nil, `{"head":{"vars":["s","v"]},"results":{"bindings":[`+row+`,`+row+`]}}`, "a", "b"),
		diff.Select, diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.m.publish(id, result)
	v := w.post("/v1/rules", `{"name":"r","query":"rows","when":"?v > 1","labels":{}}`).status(201).json()
	if v["firing"] != 1.0 {
		t.Errorf("%v alerts", v["firing"])
	}
	for _, c := range []struct {
		patch         string
		firing, fired float64
	}{{`{"summary":"x"}`, 1, 1}, {`{"labels":{"s":"?s"}}`, 2, 3}, {`{"labels":{"s":null}}`, 1, 4}, {`{"labels":null}`, 2, 6}} {
		v := w.do("PATCH", "/v1/rules/r", c.patch, "Content-Type: application/merge-patch+json").status(200).json()
		if v["firing"] != c.firing || v["fired"] != c.fired {
			t.Errorf("%s: %v alerts, %v have fired; labels %v", c.patch, v["firing"], v["fired"], v["labels"])
		}
	}
}

// Callers see and remove their own rules only. A reader makes none.
func TestRulesOfOthers(t *testing.T) {
	w := newWorld(t)
	w.m.publish(w.register(selectText, `"name":"rows"`), finishRows(t, "a"))
	const body = `{"name":%q,"query":"rows","when":"rows > 0"}`
	tokens := map[string]string{}
	for _, x := range [][2]string{{"ops", "admin"}, {"one", "app"}, {"two", "app"}, {"eye", "read"}} {
		tokens[x[0]] = w.post("/v1/tokens", fmt.Sprintf(`{"name":%q,"role":%q}`, x[0], x[1])).status(201).string("token")
		w.token = tokens["ops"]
	}
	w.token = tokens["one"]
	w.post("/v1/rules", fmt.Sprintf(body, "mine")).status(201)
	w.token = tokens["two"]
	w.get("/v1/rules/mine").problem(404, "not-found")
	w.do("DELETE", "/v1/rules/mine", "").problem(404, "not-found")
	if list := w.get("/v1/rules").json()["rules"].([]any); len(list) != 0 {
		t.Errorf("another caller sees %v", list)
	}
	w.token = tokens["eye"]
	w.post("/v1/rules", fmt.Sprintf(body, "x")).problem(403, "forbidden")
	w.post("/v1/rules/try", fmt.Sprintf(body, "x")).problem(403, "forbidden")
	w.do("DELETE", "/v1/rules/mine", "").problem(403, "forbidden")
	w.token = tokens["ops"]
	for i := range 3 {
		w.post("/v1/rules", fmt.Sprintf(body, fmt.Sprint("r", i))).status(201)
	}
	w.token = tokens["two"]
	w.post("/v1/rules", fmt.Sprintf(body, "fifth")).status(201)
	w.post("/v1/rules", fmt.Sprintf(body, "sixth")).problem(429, "limit")
	w.token = tokens["ops"]
	w.do("DELETE", "/v1/rules/mine", "").status(204)
	w.get("/v1/rules/mine").problem(404, "not-found")
}
