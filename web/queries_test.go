package web

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

func TestRegister(t *testing.T) {
	w := newWorld(t)
	a := w.post("/v1/queries", `{"endpoint":"city","query":"SELECT ?s WHERE { ?s ?p ?o `+
		`}","name":"all","tags":["b","a"],"weight":2,"max_staleness":"10m",
		"min_interval":"5s","alone":true,"from":"2026-01-01T00:00:00+02:00","until":"2127-01-01T00:00:00Z","public":true,`+
		`"default_graph_uri":["http://example.org/g"]}`).status(201)
	q := a.json()
	id := q["id"].(string)
	if a.Header.Get("Location") != "http://freshet.example.org:8080/v1/queries/"+id {
		t.Errorf("Location %q", a.Header.Get("Location"))
	}
	for k, want := range map[string]any{"endpoint": "city", "name": "all", "form": "SELECT", "ordered": false,
		"query": "SELECT ?s WHERE { ?s ?p ?o }", "state": "new",
		"epoch": epoch, "seq": 0.0, "hash": nil, "rows": 0.0, "checked_at": nil, "changed_at": nil, "executions": 0.0, "changes": 0.0,
		"median_seconds": nil,
		"budget_share":   nil, "holders": 1.0, "weight": 2.0, "max_staleness": "10m0s", "min_interval": "5s", "alone": true, "public": true} {
		if q[k] != want {
			t.Errorf("%s is %v, want %v", k, q[k], want)
		}
	}
	links := q["links"].(map[string]any)
	for k, want := range map[string]string{"results": "http://freshet.example.org:8080/v1/queries/" + id + "/results",
		"hub":  "http://freshet.example.org:8080/v1/hub",
		"live": "ws://freshet.example.org:8080/v1/live", "explain": "http://freshet.example.org:8080/v1/queries/" + id + "/explain"} {
		if links[k] != want {
			t.Errorf("link %s is %v", k, links[k])
		}
	}
	// The same question in another spelling, as a bare text.
	b := w.do("POST", "/v1/queries?endpoint=city&default-graph-uri=http%3A%2F%2Fexample.org%2Fg&tags=x&tags=y&weight=3&"+
		"ordered=false&public=1&max_staleness=1m&min_interval=1s&alone=0&from=2026-01-01T00:00:00Z&until=2127-01-01T00:00:00Z&"+
		"name=again&urgency=&life=",
		"select $s where { $s ?p ?o } # the same", "Content-Type: application/sparql-query; charset=utf-8").status(200)
	if b.string("id") != id || b.string("name") != "again" || b.json()["weight"] != 3.0 || b.json()["alone"] != false {
		t.Errorf("%s", b.body)
	}
	w.m.publish(id, table(t, [2]diff.Term{iri("a"), lit("1")}))
	// median 0.5 s, samples in slots 1 and 3: once in two slots; K is 10 s.
	if share := w.get("/v1/queries/again").status(200).json()["budget_share"]; share != 0.025 {
		t.Errorf("budget_share %v, want 0.5 s × 1/2 ÷ 10 s", share)
	}
}

func TestRegisterRefuses(t *testing.T) {
	w := newWorld(t)
	for body, want := range map[string]string{
		``:                                     "415 unsupported-media-type",
		`{`:                                    "400 malformed",
		`{"endpoint":"city"}`:                  "400 bad-query",
		`[]`:                                   "400 malformed",
		`{"query":1}`:                          "400 malformed /query",
		`{"query":"ASK {}","qeury":""}`:        "400 malformed /qeury",
		`{"query":"ASK {}","query":"ASK {}"}`:  "400 malformed /query",
		`{"query":"ASK {}"} {}`:                "400 malformed",
		`{"query":"ASK {}","weight":"1"}`:      "400 malformed /weight",
		`{"query":"ASK {}","weight":-1}`:       "422 bad-setting /weight",
		`{"query":"ASK {}","tags":["a",1]}`:    "400 malformed /tags/1",
		`{"query":"ASK {}","min_interval":5}`:  "400 malformed /min_interval",
		`{"query":"ASK {}","from":"today"}`:    "400 malformed /from",
		`{"query":"ASK {}","name":"a\u0000b"}`: "422 bad-setting /name",
		`null`:                                 "400 malformed",
		"{\"query\":\"ASK {}\",\"name\":\"\xff\"}":         "400 malformed",
		`{"query":"ASK {}","endpoint":"moon"}`:             "422 unknown-endpoint /endpoint",
		`{"query":"DELETE WHERE { ?s ?p ?o }"}`:            "422 update-refused /query",
		`{"query":"SELECT"}`:                               "400 bad-query /query",
		`{"query":"ASK { SERVICE <http://x.org/> {} }"}`:   "422 service-refused /query",
		`{"query":"` + strings.Repeat("x", 2<<20) + `"}`:   "413 body-too-large",
		strings.Repeat("[", 1<<19):                         "400 malformed",
		`{"query":` + strings.Repeat(`{"a":`, 1<<17) + `1`: "400 malformed",
	} {
		a := w.post("/v1/queries", body)
		got := fmt.Sprint(a.StatusCode, " ", strings.TrimPrefix(a.string("type"), "/problems/"))
		if errs, ok := a.json()["errors"].([]any); ok && strings.Count(want, " ") == 2 {
			got += " " + errs[0].(map[string]any)["pointer"].(string)
		}
		if got != want {
			t.Errorf("%.60s: %s, want %s\n%.300s", body, got, want, a.body)
		}
		w.post("/v1/queries/validate", body).status(a.StatusCode)
	}
	if len(w.m.queries) != 0 {
		t.Error("a refused query is registered")
	}
	sparql := "Content-Type: application/sparql-query"
	for target, want := range map[string]int{"?endpoint=city&weight=x": 400, "?endpoint=city&what=x": 400, "?endpoint=moon": 422,
		"?max_staleness=1": 400, "?from=1": 400, "?ordered=2": 400, "?a=%zz": 400,
		"?endpoint=city&name=a&name=b": 400} {
		w.do("POST", "/v1/queries"+target, "ASK {}", sparql).status(want)
	}
	w.do("POST", "/v1/queries", "ASK { \xff }", sparql).problem(400, "malformed")
	w.do("POST", "/v1/queries", "ASK {}", "Content-Type: text/plain").problem(415, "unsupported-media-type")
}

func TestQueryLimit(t *testing.T) {
	w := newWorld(t)
	reg, err := registry.Open(registry.Config{Queries: w.m, Endpoints: w.m, Limits: registry.Limits{Queries: 1}})
	if err != nil {
		t.Fatal(err)
	}
	w2 := newWorld(t, func(c *Config) { c.Registry, c.Queries, c.History = reg, w.m, w.m })
	w2.register(selectText)
	a := w2.post("/v1/queries", `{"query":"ASK {}"}`).problem(429, "limit")
	if a.Header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
}

func TestValidate(t *testing.T) {
	w := newWorld(t)
	a := w.post("/v1/queries/validate", `{"query":"SELECT ?s (NOW() AS ?n) WHERE { ?s a <http://example.org/T> } LIMIT 3"}`).status(200)
	v := a.json()
	if v["form"] != "SELECT" || v["limit"] != 3.0 || v["registered"] != false || len(v["warnings"].([]any)) < 2 || v["run"] != nil {
		t.Errorf("%s", a.body)
	}
	if len(w.m.queries) != 0 {
		t.Error("validating registers")
	}
	id := w.register(selectText)
	if v := w.post("/v1/queries/validate", `{"query":"`+selectText+`"}`).status(200).json(); v["id"] != id || v["registered"] != true {
		t.Errorf("%v", v)
	}
	var rows [][2]diff.Term
	for i := range 25 {
		rows = append(rows, [2]diff.Term{iri(fmt.Sprint(i)), {}})
	}
	answers := []scheduler.Answer{
		{Outcome: registry.Changed, Result: table(t, rows...), Elapsed: 1500 * time.Millisecond},
		{Outcome: registry.Changed, Result: truthValue(t, true)},
		{Outcome: registry.Changed, Result: graph(t, [3]diff.Term{iri("s"), iri("p"), lit("o")})},
		{Outcome: registry.Timeout, Error: "30s are over", Elapsed: 30 * time.Second},
	}
	for i, want := range []string{`"rows":25`, `"boolean":true`, `"triples":[`, `"outcome":"timeout"`} {
		w.m.trial = func(*registry.Query) (scheduler.Answer, error) { return answers[i], nil }
		a := w.post("/v1/queries/validate?run=1", `{"query":"ASK {}"}`).status(200)
		if !strings.Contains(string(a.body), want) {
			t.Errorf("no %s in %s", want, a.body)
		}
		if i == 0 && strings.Count(string(a.body), `"uri"`) != 20 {
			t.Errorf("not the first 20 rows: %s", a.body)
		}
		if a := w.post("/v1/queries/validate?run=1&whole=1", `{"query":"ASK {}"}`).status(200); i == 0 && strings.Count(string(a.body),
			`"uri"`) != 25 {
			t.Errorf("not all rows: %s", a.body)
		}
	}
	w.post("/v1/queries/validate?run=maybe", `{"query":"ASK {}"}`).problem(400, "malformed")
	w.post("/v1/queries/validate?run=1", `{"query":"INSERT DATA {}"}`).problem(422, "update-refused")
	w.m.trial = func(*registry.Query) (scheduler.Answer, error) { return scheduler.Answer{}, scheduler.ErrPaused }
	w.post("/v1/queries/validate?run=1", `{"query":"ASK {}"}`).problem(409, "conflict")
	w.m.trial = nil
	w.post("/v1/queries/validate?run=1", `{"query":"ASK {}"}`).problem(500, "internal")
}

// The number of concurrent trials is limited; further ones get Retry-After.
func TestTrialsAreFew(t *testing.T) {
	w := newWorld(t)
	enter, leave := make(chan struct{}), make(chan struct{})
	w.m.trial = func(*registry.Query) (scheduler.Answer, error) {
		enter <- struct{}{}
		<-leave
		return scheduler.Answer{Outcome: registry.Changed, Result: truthValue(t, true)}, nil
	}
	done := make(chan int, 4)
	for range 4 {
		go func() {
			done <- w.post("/v1/queries/validate?run=1", `{"query":"ASK {}"}`).StatusCode
		}()
		<-enter
	}
	a := w.post("/v1/queries/validate?run=1", `{"query":"ASK {}"}`).problem(429, "busy")
	if a.Header.Get("Retry-After") != "5" || !strings.HasPrefix(a.string("detail"), "the server runs 4 ") {
		t.Errorf("429 with Retry-After %q: %s", a.Header.Get("Retry-After"), a.body)
	}
	close(leave)
	for range 4 {
		if s := <-done; s != 200 {
			t.Errorf("a trial answered %d", s)
		}
	}
}

func TestListPages(t *testing.T) {
	w := newWorld(t)
	want := map[string]bool{}
	for i := range 7 {
		want[w.register(fmt.Sprintf("ASK { ?s <http://example.org/p%d> ?o }", i), `"tags":["t & ü"]`)] = true
	}
	w.register(selectText)
	next, pages := "/v1/queries?limit=3&tag="+url.QueryEscape("t & ü"), 0
	for next != "" {
		a := w.get(next).status(200)
		for _, q := range a.json()["queries"].([]any) {
			id := q.(map[string]any)["id"].(string)
			if !want[id] {
				t.Errorf("%s occurs twice or does not belong", id)
			}
			delete(want, id)
		}
		next, pages = "", pages+1
		if l := a.Header.Get("Link"); l != "" {
			target, rel, _ := strings.Cut(l, ">")
			u, err := url.Parse(strings.TrimPrefix(target, "<"))
			if err != nil || rel != `; rel="next"` || u.Query().Get("cursor") != a.string("next") {
				t.Fatalf("Link %s", l)
			}
			next = u.RequestURI()
		}
	}
	if len(want) != 0 || pages != 3 {
		t.Errorf("%d pages, missing %v", pages, want)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "state=old", "cursor=%ff", "cursor=" + strings.Repeat("x", 300)} {
		w.get("/v1/queries?"+bad).problem(400, "malformed")
	}
	if n := len(w.get("/v1/queries?state=new&q=SELECT&endpoint=city").status(200).json()["queries"].([]any)); n != 1 {
		t.Errorf("%d queries", n)
	}
}

func TestPatchAndRelease(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"n"`, `"weight":2`, `"tags":["a"]`, `"max_staleness":"1m"`)
	at := "/v1/queries/" + id
	merge := "Content-Type: application/merge-patch+json"
	first := w.get(at).status(200).Header.Get("ETag")
	a := w.do("PATCH", at, `{"weight":5,"tags":null,"max_staleness":null,"public":true}`, merge, "If-Match: "+first).status(200)
	q := a.json()
	if q["weight"] != 5.0 || len(q["tags"].([]any)) != 0 || q["max_staleness"] != "0s" || q["public"] != true || q["name"] != "n" {
		t.Errorf("%s", a.body)
	}
	if a.Header.Get("ETag") == first {
		t.Error("an edit does not change the ETag")
	}
	w.do("PATCH", at, `{"weight":6}`, merge, "If-Match: "+first).problem(412, "precondition-failed")
	w.do("DELETE", at, "", "If-Match: "+first).problem(412, "precondition-failed")
	w.do("PATCH", at, `{"weight":6}`, merge, `If-Match: "x", `+a.Header.Get("ETag")).status(200)
	for body, want := range map[string]int{`{"weight":-1}`: 422, `{"weight":"1"}`: 400, `{"query":"ASK {}"}`: 400,
		`{"name":"q_x"}`: 422, `7`: 400, ``: 400, `null`: 400, ` null `: 400,
		`{"name":"` + strings.Repeat("x", 2<<20) + `"}`: 413} {
		w.do("PATCH", at, body, merge).status(want)
	}
	w.do("PATCH", at, `{}`, "Content-Type: text/plain").problem(415, "unsupported-media-type")
	w.do("PATCH", "/v1/queries/missing", `{}`, merge).problem(404, "not-found")
	w.do("DELETE", "/v1/queries/missing", "").problem(404, "not-found")
	w.do("DELETE", at+"?force=2", "").problem(400, "malformed")
	w.do("DELETE", at, "", "If-Match: *").status(204)
	w.get(at).problem(404, "not-found")
}

// A caller cannot edit the registration of another; an admin can end it.
func TestHolders(t *testing.T) {
	w, secrets := lockedWorld(t)
	w.token = secrets[registry.RoleAdmin]
	id := w.register(selectText, `"name":"mine"`, `"tags":["x"]`)
	w.token = secrets[registry.RoleApp]
	at := "/v1/queries/" + id
	w.do("PATCH", at, `{"weight":2}`, "Content-Type: application/json").problem(403, "forbidden")
	w.do("DELETE", at, "").problem(403, "forbidden")
	w.do("DELETE", at+"?force=1", "").problem(403, "forbidden")
	for _, verb := range []string{"refresh", "pause", "resume"} {
		w.post(at+"/"+verb, "").problem(403, "forbidden")
	}
	w.register(selectText, `"name":"ours"`, `"tags":["y"]`)
	q := w.get(at).status(200).json()
	if q["name"] != "ours" || q["holders"] != 2.0 || len(q["registrations"].([]any)) != 1 || len(q["tags"].([]any)) != 2 {
		t.Errorf("an app sees %v", q)
	}
	w.post(at+"/refresh", "").status(202)
	own := func(a *answer) any { return a.json()["registrations"].([]any)[0].(map[string]any)["pause"] }
	a := w.post(at+"/pause", "").status(200) // the admin still wants it
	if p := own(a); a.json()["paused"] != nil || p == nil || p.(map[string]any)["by"] != "app" {
		t.Errorf("paused %s", a.body)
	}
	if a = w.post(at+"/resume", "").status(200); own(a) != nil {
		t.Errorf("resumed %s", a.body)
	}
	w.token = secrets[registry.RoleAdmin]
	if p := w.post(at+"/pause", "").status(200).json()["paused"].(map[string]any); p["by"] != "admin" || p["all"] != true {
		t.Errorf("paused %v", p)
	}
	w.token = secrets[registry.RoleApp]
	w.post(at+"/resume", "").problem(409, "conflict")
	w.token = secrets[registry.RoleAdmin]
	w.post(at+"/resume", "").status(200)
	if q := w.get(at).status(200).json(); q["name"] != "mine" || len(q["registrations"].([]any)) != 2 {
		t.Errorf("an admin sees %v", q)
	}
	w.do("DELETE", at+"?force=1", "").status(204)
	for _, verb := range []string{"refresh", "pause", "resume"} {
		w.post(at+"/"+verb, "").problem(404, "not-found")
	}
	w.get(at+"/explain").problem(404, "not-found")
}

func TestExplain(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	e := w.get("/v1/queries/" + id + "/explain").status(200).json()
	if e["tier"] != "ranked" || e["last_run"].(map[string]any)["elapsed_seconds"] != 1.0 ||
		len(e["statistics"].(map[string]any)["samples"].([]any)) != 2 {
		t.Errorf("%v", e)
	}
}

// A page asks the scheduler once per endpoint when its queries run next.
func TestNextDue(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	later, never := w.register(askText), w.register(selectText+" LIMIT 7")
	w.m.due[id], w.m.due[later] = morning.Add(7*time.Second), morning.Add(time.Hour)
	path := "/v1/endpoints/city/due?query=" + later + "&query=q_none&query=" + id
	if due := w.get(path).status(200).json()["next_due"].([]any); len(due) != 3 || due[0] != "2026-11-20T10:00:00.25Z" ||
		due[1] != nil || due[2] != "2026-11-20T09:00:07.25Z" {
		t.Errorf("%v", due)
	}
	w.get("/v1/endpoints/none/due?query="+id).problem(404, "not-found")
	if a := w.get("/v1/queries/" + id).status(200).json(); a["next_due"] != "2026-11-20T09:00:07.25Z" {
		t.Errorf("next_due is %v", a["next_due"])
	}
	w.m.asked = 0
	got := map[string]any{}
	for _, q := range w.get("/v1/queries").status(200).json()["queries"].([]any) {
		q := q.(map[string]any)
		got[q["id"].(string)] = q["next_due"]
	}
	if got[id] != "2026-11-20T09:00:07.25Z" || got[later] != "2026-11-20T10:00:00.25Z" || got[never] != nil || len(got) != 3 {
		t.Errorf("on the page: %v", got)
	}
	if w.m.asked != 1 {
		t.Errorf("one page of one endpoint asked %d times", w.m.asked)
	}
}

// A token has some of the trial runs that run at a time, and the rest are for others.
func TestTrialsOfOneToken(t *testing.T) {
	w, secrets := lockedWorld(t)
	var chain []registry.Role // the next trials, each while those before run
	busy := map[registry.Role]int{}
	try := func(role registry.Role) {
		w.token = secrets[role]
		if a := w.post("/v1/queries/validate?run=1", `{"query":"ASK {}"}`); a.StatusCode != 200 {
			busy[role]++
			if why := a.problem(429, "busy").string("detail"); !strings.HasPrefix(why, "one caller may run 2 ") {
				t.Errorf("%s is told: %s", role, why)
			}
		}
	}
	w.m.trial = func(*registry.Query) (scheduler.Answer, error) {
		for len(chain) > 0 {
			next := chain[0]
			chain = chain[1:]
			try(next)
		}
		return scheduler.Answer{Outcome: registry.Changed, Result: truthValue(t, true)}, nil
	}
	for range 2 { // all places are free again
		clear(busy)
		chain = []registry.Role{registry.RoleApp, registry.RoleApp, registry.RoleAdmin, registry.RoleAdmin, registry.RoleAdmin}
		if try(registry.RoleApp); busy[registry.RoleApp] != 1 || busy[registry.RoleAdmin] != 1 {
			t.Errorf("refused: %v", busy)
		}
	}
}
