package web

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
)

// labelling makes the endpoint answer requests for labels, and counts them.
func (w *world) labelling() (asked *int) {
	asked = new(int)
	w.m.trial = func(q *registry.Query) (scheduler.Answer, error) {
		if *asked++; !strings.Contains(q.Text, "#label>") {
			return scheduler.Answer{Outcome: registry.Timeout, Error: "too slow"}, nil
		}
		b := diff.NewBuilder(diff.Select, diff.Options{})
		err := b.SetVars([]string{"iri", "label"})
		for iri, label := range map[string]string{"Ulm": "Ulm", "birthPlace": "birth place", "adams": "Douglas Adams"} {
			if strings.Contains(q.Text, "/"+iri+">") {
				err = errors.Join(err, b.Row(diff.Term{Kind: diff.IRI, Value: "http://x.example/" + iri}, diff.Term{Kind: diff.Literal,
					Value: label, Lang: "en"}))
			}
		}
		r, e := b.Finish()
		return scheduler.Answer{Outcome: registry.Changed, Result: r}, errors.Join(err, e)
	}
	return asked
}

// properties is a result of an entity's watch.
func properties(t *testing.T, list ...[2]string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	err := b.SetVars([]string{"property", "value"})
	for _, x := range list {
		err = errors.Join(err, b.Row(diff.Term{Kind: diff.IRI, Value: "http://x.example/" + x[0]},
			diff.Term{Kind: diff.IRI, Value: "http://x.example/" + x[1]}))
	}
	r, e := b.Finish()
	if err = errors.Join(err, e); err != nil {
		t.Fatal(err)
	}
	return r
}

// A link says what is watched and where. The query has the prefixes of its site, and its changes are told
// in words.
func TestWatchLink(t *testing.T) {
	w := newWorld(t)
	w.labelling()
	if _, err := w.config.Registry.CreateEndpoint(registry.Caller{Name: "ops", Role: registry.RoleAdmin},
		registry.Endpoint{Name: "wikidata", URL: "http://127.0.0.1:9/sparql",
			OwnServices: []string{"http://wikiba.se/ontology#label"}}); err != nil {
		t.Fatal(err)
	}
	const link = "https://query.wikidata.org/#%23title%3ACats%0A" +
		"SELECT%20%3Fitem%20%3FitemLabel%20%7B%20%3Fitem%20wdt%3AP31%20wd%3AQ146%20SERVICE%20wikibase%3Alabel" +
		"%20%7B%20bd%3AserviceParam%20wikibase%3Alanguage%20%22%5BAUTO_LANGUAGE%5D%22%20%7D%20%7D"
	body := func(members string) string { return `{"link":"` + link + `"` + members + `}` }
	p := w.post("/v1/watches/validate", body(`,"labels":["de"]`)).status(200).json()
	text := fmt.Sprint(p["query"])
	if p["kind"] != "query" || p["describes"] != "“Cats”" || p["iri"] != nil ||
		p["analysis"].(map[string]any)["endpoint"] != "wikidata" || len(p["analysis"].(map[string]any)["warnings"].([]any)) != 0 {
		t.Errorf("preview %v", p)
	}
	for _, part := range []string{"#title:Cats\n", "PREFIX wdt: <http://www.wikidata.org/prop/direct/>", "PREFIX wikibase:",
		`wikibase:language "de"`} {
		if !strings.Contains(text, part) {
			t.Errorf("the query has no %q:\n%s", part, text)
		}
	}
	a := w.post("/v1/watches", body(`,"name":"cats"`)).status(201)
	id := a.string("id")
	if a.json()["query"].(map[string]any)["endpoint"] != "wikidata" {
		t.Errorf("registered %s", a.body)
	}
	w.m.publish(id, properties(t, [2]string{"birthPlace", "Ulm"}))
	w.m.publish(id, properties(t, [2]string{"birthPlace", "Ulm"}, [2]string{"birthPlace", "adams"}))
	if v := w.get("/v1/watches/cats").status(200); !strings.HasPrefix(v.string("now"), "2 rows now: birth place, ") {
		t.Errorf("now %s", v.body)
	}
	changes := w.get("/v1/watches/cats/changes").status(200).json()["changes"].([]any)
	if got := fmt.Sprint(changes[len(changes)-1].(map[string]any)["summary"]); !strings.Contains(got, "birth place, Douglas Adams") {
		t.Errorf("summary %s", got)
	}
	for body, want := range map[string]string{
		body(`,"kind":"instances"`):                       "422 bad-setting /kind",
		body(`,"iri":"Q42"`):                              "422 bad-setting /link",
		body(`,"properties":["P31"]`):                     "422 bad-setting /link",
		`{"link":"https://w.wiki/3kD"}`:                   "422 bad-setting /link",
		`{"link":"https://query.wikidata.org/#SELECT%2"}`: "422 bad-setting /link",
		`{"link":1}`:                                      "400 malformed /link",
		`{}`:                                              "422 bad-setting /iri",
		`{"link":"ASK { ?a ?b ?c }","endpoint":"moon"}`:   "422 unknown-endpoint /endpoint",
		`{"link":"https://moon.example/sparql?query=ASK{?a?b?c}"}`:                      "422 unknown-endpoint /endpoint",
		`{"endpoint":"city","link":"ASK { SERVICE <http://x.example/> { ?a ?b ?c } }"}`: "422 service-refused /query",
	} {
		got := w.post("/v1/watches", body)
		pointer := ""
		if list, ok := got.json()["errors"].([]any); ok {
			pointer = fmt.Sprint(list[0].(map[string]any)["pointer"])
		}
		if have := fmt.Sprintf("%d %s %s", got.StatusCode, strings.TrimPrefix(got.string("type"), "/problems/"), pointer); have != want {
			t.Errorf("%.80s: %s, want %s: %s", body, have, want, got.string("detail"))
		}
	}
	if a := w.post("/v1/watches", `{"link":"`+strings.Repeat("%20", 1<<18)+`"}`); a.StatusCode != 422 && a.StatusCode != 413 {
		t.Errorf("a long link: %s", a.body)
	}
	if a := w.post("/v1/watches", `{"link":"https://moon.example/sparql?query=ASK{?a?b?c}"}`); !strings.Contains(a.string("detail"),
		"freshet endpoint add moon.example https://moon.example/sparql") {
		t.Errorf("no way out: %s", a.body)
	}
	a = w.post("/v1/watches", `{"link":"https://moon.example/$(reboot);id/a'b?db=1&query=ASK{?a?b?c}"}`)
	if d := a.string("detail"); !strings.Contains(d, "freshet endpoint add moon.example 'https://moon.example/$(reboot);id/a") ||
		strings.Contains(d, "a'b)") {
		t.Errorf("a command with a stranger's text: %s", d)
	}
	if a := w.post("/v1/watches", `{"link":"Q5","kind":"instances","endpoint":"city"}`).status(
		201).json(); a["kind"] != "instances" || a["iri"] != "http://www.wikidata.org/entity/Q5" {
		t.Errorf("a link of a class: %v", a)
	}
}

// A watch is previewed, registered, changes, is told in words, and is released.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	asked := w.labelling()
	const body = `{"iri":"http://x.example/adams","labels":["en"],"name":"adams","tags":["people"]}`
	p := w.post("/v1/watches/validate", body).status(200).json()
	if p["describes"] != "all properties of Douglas Adams" || p["query"] != "SELECT ?property ?value WHERE { "+
		"<http://x.example/adams> ?property ?value }" || p["direction"] != "outgoing" || len(w.m.queries) != 0 {
		t.Errorf("preview %v", p)
	}
	analysis := w.post("/v1/watches/validate?run=1", body).status(200).json()["analysis"].(map[string]any)
	if run := analysis["run"].(map[string]any); run["outcome"] != "timeout" {
		t.Errorf("trial run %v", run)
	}
	a := w.post("/v1/watches", body).status(201)
	id := a.string("id")
	if got := a.Header.Get("Location"); got != "http://freshet.example.org:8080/v1/watches/"+id {
		t.Errorf("Location %q", got)
	}
	w.post("/v1/watches", body).status(200)
	q := w.get("/v1/queries/adams").status(200)
	if q.string("id") != id || fmt.Sprint(q.json()["tags"]) != "[labels:en people watch]" {
		t.Errorf("the registration is %s", q.body)
	}
	w.register(selectText)
	other := w.post("/v1/queries", `{"query":"ASK { ?a ?b ?c }","name":"other"}`).status(201).string("id")
	if list := w.get("/v1/watches").status(200).json()["watches"].([]any); len(list) != 1 || list[0].(map[string]any)["id"] != id ||
		list[0].(map[string]any)["describes"] != "all properties of Douglas Adams" {
		t.Errorf("list %v", list)
	}
	if w.post("/v1/watches", `{"iri":"http://x.example/z"}`).status(201); len(w.get("/v1/watches?limit=1&q=x.example").status(
		200).json()["watches"].([]any)) != 1 {
		t.Error("the first page of watches is not one watch")
	}
	w.get("/v1/watches?limit=0").problem(400, "malformed")
	w.get("/v1/watches/"+other).problem(404, "not-found")
	w.get("/v1/watches/"+other+"/changes").problem(404, "not-found")
	w.do("DELETE", "/v1/watches/"+other, "").problem(404, "not-found")
	if v := w.get("/v1/watches/adams").status(200); v.string("iri") != "http://x.example/adams" {
		t.Errorf("show %s", v.body)
	}

	w.m.publish(id, properties(t, [2]string{"birthPlace", "Ulm"}))
	w.m.publish(id, properties(t, [2]string{"birthPlace", "Neu-Ulm"}))
	*asked = 0
	var c struct {
		next    string
		summary []any
	}
	for range 2 {
		page := w.get("/v1/watches/adams/changes").status(200).json()
		changes := page["changes"].([]any)
		c.next, c.summary = page["next"].(string), nil
		for _, x := range changes {
			c.summary = append(c.summary, x.(map[string]any)["summary"].([]any)...)
		}
	}
	if want := []any{"first result: 1 row", "birth place: Ulm → Neu-Ulm"}; !slices.Equal(c.summary, want) || *asked != 1 {
		t.Errorf("summary %q after %d requests, want %q after one", c.summary, *asked, want)
	}
	if rest := w.get("/v1/watches/adams/changes?after=" + c.next).status(200).json(); len(rest["changes"].([]any)) != 0 ||
		rest["next"] != c.next {
		t.Errorf("after the last change: %v", rest)
	}
	if a := w.get("/v1/watches/adams/changes.atom").status(200); !strings.Contains(string(a.body),
		"all properties of Douglas Adams") || a.Header.Get("ETag") == "" {
		t.Errorf("the feed: %s", a.body)
	}
	w.get("/v1/watches/adams/changes.atom", `If-None-Match: "1.atom"`).status(304)
	w.get("/v1/watches/adams/changes.atom?archive=bad").problem(400, "bad-position")
	w.get("/v1/watches/adams/changes.atom?archive=gone").problem(410, "gap")
	w.get("/v1/watches/"+other+"/changes.atom").problem(404, "not-found")
	w.get("/v1/watches/adams/changes?after=old:1").problem(410, "gap")
	w.get("/v1/watches/adams/changes?after=1").problem(400, "malformed")
	w.get("/v1/watches/adams/changes?rate=1s").problem(400, "malformed")
	w.do("DELETE", "/v1/watches/adams", "").status(204)
	w.get("/v1/watches/adams").problem(404, "not-found")
}

// A new watch is described as it is before its first run, however soon that comes.
func TestNewWatchHasNotRun(t *testing.T) {
	ran := false
	w := newWorld(t)
	h, err := New(func() Config {
		w.config.Hint = func(string, registry.Hint) (plan.Hinted, error) {
			ran = true
			for id := range w.m.queries {
				w.m.publish(id, properties(t, [2]string{"birthPlace", "Ulm"}))
			}
			return plan.Hinted{}, nil
		}
		return w.config
	}())
	if err != nil {
		t.Fatal(err)
	}
	w.h = h
	a := w.post("/v1/watches", `{"iri":"http://x.example/adams"}`).status(201).json()["query"].(map[string]any)
	if a["seq"] != 0.0 || a["state"] != "new" || !ran {
		t.Errorf("it ran: %t; its query is %v", ran, a)
	}
}

// A watch belongs to the endpoint with the name of its site.
func TestWatchEndpoint(t *testing.T) {
	w := newWorld(t)
	w.labelling()
	if _, err := w.config.Registry.CreateEndpoint(registry.Caller{Name: "ops", Role: registry.RoleAdmin},
		registry.Endpoint{Name: "wikidata", URL: "http://127.0.0.1:3030/wikidata"}); err != nil {
		t.Fatal(err)
	}
	endpoint := func(a *answer) any { return a.json()["query"].(map[string]any)["endpoint"] }
	a := w.post("/v1/watches", `{"iri":"https://www.wikidata.org/wiki/Q5","kind":"instances"}`).status(201)
	if endpoint(a) != "wikidata" || a.string("iri") != "http://www.wikidata.org/entity/Q5" {
		t.Errorf("%s", a.body)
	}
	a = w.post("/v1/watches", `{"iri":"Q5","kind":"instances","endpoint":"city"}`).status(201)
	if endpoint(a) != "city" {
		t.Errorf("%s", a.body)
	}
}

// A link about a known site is only watched at the endpoint of that site, which is known by its name or its
// URL, unless the caller names another one.
func TestWatchOfSite(t *testing.T) {
	w := newWorld(t)
	w.labelling()
	add := func(name, url string) {
		t.Helper()
		if _, err := w.config.Registry.CreateEndpoint(registry.Caller{Name: "ops", Role: registry.RoleAdmin},
			registry.Endpoint{Name: name, URL: url}); err != nil {
			t.Fatal(err)
		}
	}
	links := []string{`{"link":"https://www.wikidata.org/wiki/Q42"}`, `{"iri":"Q43"}`, `{"link":"ASK { wd:Q42 ?a ?b }"}`,
		`{"link":"https://query.wikidata.org/bigdata/namespace/wdq/sparql?query=ASK{?a?b?c}"}`}
	for _, another := range []string{"", "other"} { // with one endpoint, and with two
		if another != "" {
			add(another, "http://127.0.0.1:3030/other")
			w.post("/v1/watches", `{"link":"Q42","endpoint":"other","name":"chosen"}`).status(201)
		}
		for _, body := range links {
			a := w.post("/v1/watches", body).problem(422, "unknown-endpoint")
			if !strings.Contains(a.string("detail"), "freshet endpoint add --pack wikidata") {
				t.Errorf("%s: %s", body, a.string("detail"))
			}
		}
	}
	add("wd", "https://query.wikidata.org:443/sparql/")
	for _, body := range links {
		if a := w.post("/v1/watches", body).status(201); a.json()["query"].(map[string]any)["endpoint"] != "wd" {
			t.Errorf("%s: %s", body, a.body)
		}
	}
}

func TestShellWord(t *testing.T) {
	for _, text := range []string{"https://x.example/sparql", "https://x.example/?a=1&b=2", "$(reboot);id", "it's", "", "a b",
		"`id`", "slot=@every 5m", "*", "~"} {
		out, err := exec.Command("sh", "-c", "printf %s "+ShellWord(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%s is %q for a shell, %v", ShellWord(text), out, err)
		}
	}
}

func TestWatchRefuses(t *testing.T) {
	w := newWorld(t)
	w.labelling()
	for body, want := range map[string]string{
		``:                               "415 unsupported-media-type",
		`{`:                              "400 malformed",
		`{}`:                             "422 bad-setting /iri",
		`{"iri":"adams"}`:                "422 bad-setting /iri",
		`{"uri":"x"}`:                    "400 malformed /uri",
		`{"iri":1}`:                      "400 malformed /iri",
		`{"iri":"Q5","kind":"members"}`:  "422 bad-setting /properties",
		`{"iri":"Q5","labels":["e n"]}`:  "422 bad-setting /labels/0",
		`{"iri":"Q5","query":"ASK {}"}`:  "422 bad-setting /query",
		`{"iri":"urn:x:5","weight":-1}`:  "422 bad-setting /weight",
		`{"iri":"Q5","endpoint":"moon"}`: "422 unknown-endpoint /endpoint",
		`{"iri":"http://x.example/> . ?a ?b ?c } #"}`:                                "422 bad-setting /iri",
		`{"iri":"https://w.wiki/3kD"}`:                                               "422 bad-setting /iri",
		`{"iri":"https://de.wikipedia.org/wiki/Ulm"}`:                                "422 bad-setting /iri",
		`{"iri":"https://query.wikidata.org/#ASK%20%7B%20%3Fa%20%3Fb%20%3Fc%20%7D"}`: "422 bad-setting /iri",
		`{"iri":"https://query.wikidata.org/#ASK%20%7B"}`:                            "422 bad-setting /iri",
		`{"iri":"http://x.example/sparql?query=ASK%20%7B%3Fa%20%3Fb%20%3Fc%7D"}`:     "422 bad-setting /iri",
		`{"iri":"https://en.wikipedia.org/wiki/Category:Ulm","kind":"instances"}`:    "422 bad-setting /iri",
	} {
		a := w.post("/v1/watches", body)
		got := fmt.Sprint(a.StatusCode, " ", strings.TrimPrefix(a.string("type"), "/problems/"))
		if errs, ok := a.json()["errors"].([]any); ok && strings.Count(want, " ") == 2 {
			got += " " + errs[0].(map[string]any)["pointer"].(string)
		}
		if got != want {
			t.Errorf("%s: %s, want %s\n%.300s", body, got, want, a.body)
		}
		w.post("/v1/watches/validate", body).status(a.StatusCode)
	}
	if len(w.m.queries) != 0 {
		t.Error("a refused watch is registered")
	}
	w.post("/v1/watches", `{"iri":"http://x.example/a","name":"same"}`).status(201)
	w.post("/v1/watches", `{"iri":"http://x.example/b","name":"same"}`).problem(409, "name-taken")
}

// A watch that names no endpoint gets the only one that knows the IRI. It runs at once, and
// its resource says in words what the result holds.
func TestWatchFindsItsEndpoint(t *testing.T) {
	var soon []string
	w := newWorld(t, func(c *Config) {
		c.Hint = func(endpoint string, h registry.Hint) (plan.Hinted, error) {
			if h.New {
				soon = append(soon, endpoint)
			}
			return plan.Hinted{}, nil
		}
	})
	knows := map[string][]string{"adams": {"books"}, "Ulm": {"books", "city"}}
	w.labelling()
	labels := w.m.trial
	w.m.trial = func(q *registry.Query) (scheduler.Answer, error) {
		if !strings.HasPrefix(q.Text, "ASK") {
			return labels(q)
		}
		known := false
		for iri, endpoints := range knows {
			known = known || strings.Contains(q.Text, "/"+iri+">") && slices.Contains(endpoints, q.Endpoint)
		}
		b := diff.NewBuilder(diff.Ask, diff.Options{})
		err := b.SetBoolean(known)
		r, e := b.Finish()
		return scheduler.Answer{Outcome: registry.Changed, Result: r}, errors.Join(err, e)
	}
	for _, name := range []string{"books", "slow"} {
		if _, err := w.config.Registry.CreateEndpoint(registry.Caller{Name: "ops", Role: registry.RoleAdmin},
			registry.Endpoint{Name: name, URL: "http://127.0.0.1:3030/" + name}); err != nil {
			t.Fatal(err)
		}
	}
	a := w.post("/v1/watches", `{"iri":"http://x.example/adams","name":"adams"}`).status(201)
	if e := a.json()["query"].(map[string]any)["endpoint"]; e != "books" || !slices.Equal(soon, []string{"books"}) {
		t.Errorf("the endpoint is %v, and these run soon: %v", e, soon)
	}
	if a := w.post("/v1/watches", `{"iri":"http://x.example/Ulm"}`).problem(422,
		"unknown-endpoint"); a.string("detail") != "choose one: books, city" || a.string("title") != "Several endpoints know this IRI" {
		t.Errorf("known by two: %s", a.body)
	}
	if a := w.post("/v1/watches", `{"iri":"http://x.example/unheard"}`).problem(422,
		"unknown-endpoint"); !strings.Contains(a.string("detail"), "books, city, slow") {
		t.Errorf("known by none: %s", a.body)
	}
	w.m.publish(a.string("id"), properties(t, [2]string{"birthPlace", "Ulm"}, [2]string{"birthPlace", "Bern"}, [2]string{"born", "Ulm"}))
	if now := w.get("/v1/watches/adams").status(200).string("now"); now != "2 properties now: birth place: Bern; born: Ulm; …" {
		t.Errorf("now: %q", now)
	}
	began, goOn := make(chan bool, 3*defaultTries), make(chan bool)
	var asked atomic.Int32
	answer := w.m.trial
	w.m.trial = func(q *registry.Query) (scheduler.Answer, error) {
		if asked.Add(1) <= 3*defaultTries {
			began <- true
			<-goOn
		}
		return answer(q)
	}
	done := make(chan bool)
	for i := range defaultTries {
		go func() {
			w.post("/v1/watches", fmt.Sprintf(`{"iri":"http://x.example/adams","name":"adams%d"}`, i))
			done <- true
		}()
		for range 3 {
			<-began
		}
	}
	w.post("/v1/watches", `{"iri":"http://x.example/adams","name":"toomany"}`).problem(429, "busy")
	close(goOn)
	for range defaultTries {
		<-done
	}
}
