package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/people"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/notify/webhook"
	"github.com/freshet/freshet/registry"
)

// pushKey signs messages to browsers.
var pushKey = service.NewPushKey()

// outbox adds webhooks over the world's memory, with the real delivery engine.
func (w *world) outbox(c *Config) {
	w.t.Helper()
	w.wakes = notify.NewWaker()
	w.subs = notifytest.NewSubscriptions()
	guard, err := deliver.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		w.t.Fatal(err)
	}
	target := webhook.New(webhook.Options{Log: w.m, Head: w.m.Head, Query: w.m.Query, Now: time.Now,
		Caller: func(name string) (registry.Caller, error) {
			return registry.Caller{Name: name, Role: registry.RoleRead}, nil
		}})
	told := people.New(people.Options{Log: w.m, Query: w.m.Query, Now: time.Now, Mail: new(service.Mail),
		PushKey: func() (string, error) { return pushKey, nil },
		Caller: func(name string) (registry.Caller, error) {
			return registry.Caller{Name: name, Role: registry.RoleRead}, nil
		}})
	w.engine, err = deliver.New(notifytest.Delivering(deliver.Options{Store: w.subs, Waker: w.wakes, Guard: guard,
		Targets:  map[registry.Way]deliver.Target{registry.Webhook: target, registry.People: told},
		Schedule: deliver.Schedule{Pauses: []time.Duration{time.Millisecond}, Patience: time.Millisecond}}))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.engine.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	c.Subscriptions = managed{w.subs, w.engine}
	c.Webhooks = &webhook.Manager{Engine: w.engine, Guard: guard, Target: target, MostEach: 4, Resolve: c.Registry.Resolve}
	c.Receivers = &people.Manager{Engine: w.engine, Guard: guard, Target: told, Resolve: c.Registry.Resolve}
	c.DeadLetters = w.engine
	c.Quiet = people.Due
	c.Hub = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.FormValue("status"))
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		rw.WriteHeader(status)
		fmt.Fprintln(rw, "said the hub")
	})
}

type managed struct {
	deliver.Store
	engine *deliver.Engine
}

func (m managed) Act(id, verb string) (registry.Subscription, error) {
	switch verb {
	case "pause":
		return m.engine.Pause(id)
	case "resume":
		return m.engine.Resume(id)
	}
	return registry.Subscription{}, m.engine.Drop(id, nil)
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("did not come: %s", what)
		}
	}
}

// The hub accepts POST without a token, and its answer is passed on.
func TestHub(t *testing.T) {
	w := newWorld(t)
	for _, status := range []int{202, 400, 401, 403, 404, 408, 413, 415, 429, 503} {
		a := w.do("POST", "/v1/hub", fmt.Sprint("status=", status), "Content-Type: application/x-www-form-urlencoded").status(status)
		if string(a.body) != "said the hub\n" {
			t.Errorf("%d: %s", status, a.body)
		}
	}
	if allow := w.get("/v1/hub").problem(405, "method-not-allowed").Header.Get("Allow"); allow != "POST, OPTIONS" {
		t.Errorf("Allow: %s", allow)
	}
}

func TestWebhooks(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"rows"`)
	w.m.publish(id, finishRows(t, "a"))
	refuse := atomic.Bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if refuse.Load() {
			rw.WriteHeader(500)
		}
	}))
	defer srv.Close()
	url := srv.URL + "/hook?key=hush"
	a := w.post("/v1/webhooks", `{"url":"`+url+`","query":"rows","name":"shop","filter":{"min_rows":1},"rate":"0s"}`).status(201)
	hook := a.string("id")
	if a.Header.Get("Location") != "http://freshet.example.org:8080/v1/webhooks/"+hook || !strings.HasPrefix(a.string("secret"),
		"whsec_") || a.string("state") != "pending" {
		t.Errorf("made: %s", a.body)
	}
	path := "/v1/webhooks/" + hook
	w.until("an active webhook", func() bool { return w.get(path).string("state") == "active" })
	w.until("the delivery", func() bool { return w.get(path).json()["deliveries"] == 1.0 })
	for _, p := range []string{path, "/v1/webhooks", "/v1/subscriptions", "/v1/subscriptions/" + hook} {
		if b := string(w.get(p).status(200).body); strings.Contains(b, "hush") || strings.Contains(b, "whsec_") ||
			!strings.Contains(b, srv.URL+"/hook?…") {
			t.Errorf("%s shows %s", p, b)
		}
	}
	b := w.post(path+"/rotate", `{"grace":"1h"}`).status(200)
	if b.string("secret") == a.string("secret") || b.string("old_secret_until") == "" {
		t.Errorf("rotated: %s", b.body)
	}
	w.post(path+"/rotate", "").status(200)
	w.post(path+"/rotate", `{"secret":"x"}`).problem(422, "bad-setting")
	secret := w.post(path+"/rotate", "").string("secret")
	w.post(path+"/rotate", `{"secret":"`+secret+`"}`).problem(409, "conflict")

	w.do("PATCH", path, `{"name":"other","filter":null}`, "Content-Type: application/merge-patch+json").status(200)
	if v := w.get(path).json(); v["name"] != "other" || v["filter"] != nil {
		t.Errorf("patched: %v", v)
	}
	w.do("PATCH", path, `{"url":"x"}`, "Content-Type: application/json").problem(400, "malformed")
	w.do("PATCH", path, `{"rate":"240h"}`, "Content-Type: application/json").problem(422, "bad-setting")

	w.until("the snapshot after another filter", func() bool { return w.get(path).json()["lag"].(map[string]any)["changes"] == 0.0 })
	refuse.Store(true)
	w.m.publish(id, finishRows(t, "a", "b"))
	w.wakes.Wake(id)
	w.until("a dead letter", func() bool { return len(w.get(path).json()["dead_letters"].([]any)) > 0 })
	box := w.get("/v1/dead-letters").status(200).json()["subscriptions"].([]any)[0].(map[string]any)
	letter := box["dead_letters"].([]any)[0].(map[string]any)["id"].(string)
	letters := "/v1/subscriptions/" + hook + "/dead-letters/"
	if box["subscription"] != hook || box["way"] != "webhook" {
		t.Errorf("dead letters: %v", box)
	}
	w.post(letters+"msg_none/resend", "").problem(404, "not-found")
	w.do("DELETE", letters+"msg_none", "").problem(404, "not-found")
	w.do("DELETE", letters+letter, "").status(204)
	w.m.publish(id, finishRows(t, "b"))
	w.wakes.Wake(id)
	w.until("another dead letter", func() bool { return len(w.get(path).json()["dead_letters"].([]any)) > 0 })
	refuse.Store(false)
	of := w.get("/v1/dead-letters").json()["subscriptions"].([]any)[0].(map[string]any)
	letter = of["dead_letters"].([]any)[0].(map[string]any)["id"].(string)
	w.post("/v1/subscriptions/"+hook+"/pause", "").status(200)
	w.post(letters+letter+"/resend", "").problem(409, "conflict")
	w.post("/v1/subscriptions/"+hook+"/resume", "").status(200)
	w.post(letters+letter+"/resend", "").status(202)
	w.until("no dead letter", func() bool { // the snapshot after a message that was given up may be one, too
		list := w.get(path).json()["dead_letters"].([]any)
		for _, l := range list {
			w.post(letters+l.(map[string]any)["id"].(string)+"/resend", "")
		}
		return len(list) == 0
	})
	if list := w.get("/v1/dead-letters").json()["subscriptions"].([]any); len(list) > 0 {
		t.Errorf("dead letters: %v", list)
	}
	refuse.Store(true)
	w.m.publish(id, finishRows(t, "a", "c"))
	w.wakes.Wake(id)
	w.until("a third dead letter", func() bool { return len(w.get(path).json()["dead_letters"].([]any)) > 0 })
	refuse.Store(false)
	w.post(path+"/replay", `{"id":"msg_none"}`).problem(404, "not-found")
	w.post(path+"/replay", `{"after":"x"}`).problem(400, "malformed")
	w.post(path+"/replay", "").status(202)
	w.until("no dead letter", func() bool { // one may still come from a request that began before
		left := len(w.get(path).json()["dead_letters"].([]any))
		if left > 0 {
			w.post(path+"/replay", "")
		}
		return left == 0
	})
	w.post(path+"/replay", `{"after":"`+epoch+`:1"}`).status(202)

	sub := "/v1/subscriptions/" + hook
	w.post(sub+"/pause", "").status(200)
	w.post(sub+"/pause", "").problem(409, "conflict")
	w.post(path+"/replay", "").problem(409, "conflict")
	w.m.publish(id, finishRows(t, "c"))
	w.m.now = w.m.now.Add(90 * time.Second)
	if lag := w.get(sub).json()["lag"].(map[string]any); lag["changes"] == 0.0 || lag["behind"] != "1m30s" {
		t.Errorf("lag of a paused one: %v", lag)
	}
	w.post(sub+"/resume", "").status(200)

	for body, slug := range map[string]string{`{"url":"http://10.0.0.1/"}`: "bad-setting", `{"url":"` + url +
		`","query":"none"}`: "unknown-query", `{"url":"` + url + `","query":"rows","tag":"x"}`: "bad-setting"} {
		w.post("/v1/webhooks", body).problem(422, slug)
	}
	w.post("/v1/webhooks", `{"urls":1}`).problem(400, "malformed")
	w.do("POST", "/v1/webhooks", "x", "Content-Type: text/plain").problem(415, "unsupported-media-type")
	for range 3 {
		w.post("/v1/webhooks", `{"url":"`+url+`"}`).status(201)
	}
	w.post("/v1/webhooks", `{"url":"`+url+`"}`).problem(403, "quota")
	first := w.get("/v1/subscriptions?limit=3&way=webhook").status(200)
	if next := first.string("next"); len(first.json()["subscriptions"].([]any)) != 3 || !strings.Contains(first.Header.Get("Link"), next) {
		t.Errorf("first page: %s", first.body)
	} else if n := len(w.get("/v1/subscriptions?cursor=" + next).json()["subscriptions"].([]any)); n != 1 {
		t.Errorf("%d on the second page", n)
	}
	w.get("/v1/subscriptions?query=nothing").problem(404, "not-found")
	w.get("/v1/subscriptions?limit=0").problem(400, "malformed")
	w.get("/v1/subscriptions?way=pigeon").problem(400, "malformed")
	w.get("/v1/subscriptions?state=lost").problem(400, "malformed")
	if n := len(w.get("/v1/subscriptions?way=websub").json()["subscriptions"].([]any)); n != 0 {
		t.Errorf("%d of another way", n)
	}
	w.do("DELETE", path, "").status(204)
	w.get(path).problem(404, "not-found")
	w.do("DELETE", path, "").problem(404, "not-found")
	w.do("PATCH", path, "{}", "Content-Type: application/json").problem(404, "not-found")
	w.post(path+"/rotate", "").problem(404, "not-found")
	w.get(sub).problem(404, "not-found")
	w.do("DELETE", sub, "").problem(404, "not-found")
	w.post(sub+"/pause", "").problem(404, "not-found")
	w.post(sub+"/resume", "").problem(404, "not-found")
}

// On a server with tokens callers see and manage their own subscriptions, and admins all.
func TestSubscriptionsBelongToSomebody(t *testing.T) {
	w := newWorld(t)
	secrets := map[string]string{}
	for _, x := range [][2]string{{"ops", "admin"}, {"shop", "app"}, {"other", "app"}, {"eye", "read"}} {
		secrets[x[0]] = w.post("/v1/tokens", `{"name":"`+x[0]+`","role":"`+x[1]+`"}`).status(201).string("token")
		w.token = secrets["ops"]
	}
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	as := func(name string) { w.token = secrets[name] }
	as("shop")
	hook := "/v1/webhooks/" + w.post("/v1/webhooks", `{"url":"`+srv.URL+`"}`).status(201).string("id")
	sub := strings.Replace(hook, "webhooks", "subscriptions", 1)
	as("other")
	for _, p := range []string{hook, sub} {
		w.get(p).problem(404, "not-found")
		w.do("DELETE", p, "").problem(404, "not-found")
	}
	if n := len(w.get("/v1/webhooks").json()["webhooks"].([]any)); n != 0 {
		t.Errorf("somebody else sees %d webhooks", n)
	}
	as("ops")
	if n := len(w.get("/v1/webhooks").json()["webhooks"].([]any)); n != 1 {
		t.Errorf("an admin sees %d webhooks", n)
	}
	as("eye")
	w.post("/v1/webhooks", `{"url":"`+srv.URL+`"}`).problem(403, "forbidden")
	w.do("DELETE", hook, "").problem(403, "forbidden")
	w.do("PATCH", hook, "{}", "Content-Type: application/json").problem(403, "forbidden")
	w.post(hook+"/rotate", "").problem(403, "forbidden")
	w.post(hook+"/replay", "").problem(403, "forbidden")
	w.token = ""
	for _, c := range [][2]string{{"GET", "/v1/subscriptions"}, {"GET", sub}, {"DELETE", sub}, {"POST", sub + "/pause"},
		{"POST", sub + "/resume"}, {"GET", "/v1/webhooks"}, {"POST", "/v1/webhooks"},
		{"GET", hook}, {"PATCH", hook}, {"DELETE", hook}, {"POST", hook + "/rotate"}, {"POST", hook + "/replay"}} {
		w.do(c[0], c[1], "").problem(401, "unauthorized")
	}
	as("shop")
	w.do("DELETE", sub, "").status(204)
}

// A topic in memory equals the answer of GET, for every representation.
func TestTopicsAreWhatGetAnswers(t *testing.T) {
	w := newWorld(t)
	topics, err := NewTopics(w.config)
	if err != nil {
		t.Fatal(err)
	}
	id, graph := w.register(selectText), w.register(constructText)
	for _, path := range []string{"/v1/queries/" + id + "/results.srj", "/v1/queries/" + id + "/changes/latest"} {
		if _, err := topics.Read(context.Background(), path); err == nil || !missing(err) {
			t.Errorf("%s without a result: %v", path, err)
		}
	}
	topics.routes["/unversioned"] = route{run: func(c *call) error { return c.text(200, "x") }}
	if x, err := topics.Read(context.Background(), "/v1/queries/"+id+"/unversioned"); err == nil || missing(err) {
		t.Errorf("a topic without a version is %+v: %v", x, err)
	}
	w.m.publish(id, finishRows(t, "a", "b"))
	for _, rest := range []string{"results.srj", "results.srx", "results.csv", "results.tsv", "changes/latest", "changes.atom"} {
		path := "/v1/queries/" + id + "/" + rest
		got, err := topics.Read(context.Background(), path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		want := w.get(path).status(200)
		if string(got.Body) != string(want.body) || got.Version != want.Header.Get("ETag") || got.Type != want.Header.Get("Content-Type") {
			t.Errorf("%s: %s %s %s, GET answers %s %s %s", path, got.Version, got.Type, got.Body, want.Header.Get("ETag"),
				want.Header.Get("Content-Type"), want.body)
		}
		if st, _, err := w.m.Current(id, false); err != nil || got.At != st.Position {
			t.Errorf("%s shows %v, the query is at %v: %v", path, got.At, st.Position, err)
		}
		if q, err := topics.Find(path, false); err != nil || q.ID != id {
			t.Errorf("%s is of %s: %v", path, q.ID, err)
		}
	}
	for _, path := range []string{"/v1/queries/" + id, "/v1/queries/" + id + "/results", "/v1/queries/" + id + "/changes",
		"/v1/queries/" + id + "/results.nt", "/v1/queries/" + graph + "/results.srj", "/v1/queries/" + graph + "/changes.rdfp",
		"/v1/queries/" + id + "/results.srj?x=1", "/v1/queries/none/results.srj", "/v1/queries/" + id + "/explain", "/v1/changes.atom", "/", ""} {
		if _, err := topics.Find(path, false); !missing(err) {
			t.Errorf("%s is taken for a topic: %v", path, err)
		}
	}
}

func finishRows(t *testing.T, values ...string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	if err := b.SetVars([]string{"s", "o"}); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if err := b.Row(iri(v), iri("o")); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}
