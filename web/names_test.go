package web

import (
	"fmt"
	"strings"
	"testing"
)

// A name that others gave to several queries, profiles or rules is refused with their ids on
// every path.
func TestAmbiguousNames(t *testing.T) {
	w := newWorld(t)
	w.m.publish(w.register(selectText), table(t))
	secrets := w.tokens("ops", "a", "b")
	var ids []string
	for i, name := range []string{"a", "b"} {
		w.token = secrets[name]
		ids = append(ids, w.register(fmt.Sprint(selectText, " LIMIT ", i+1), `"name":"prices"`, `"public":true`))
		body := fmt.Sprintf(`{"name":"needs","items":[{"query":%q,"when":{"every":"%dm","slack":"1m"}}]}`, ids[i], 5+i)
		if w.token = secrets[name]; w.post("/v1/profiles", body).StatusCode != 201 {
			t.Fatal("no profile")
		}
		w.get("/v1/queries/prices").status(200)
		w.post("/v1/rules", `{"name":"late","query":"prices","when":"rows > 100"}`).status(201)
		w.get("/v1/profiles/needs").status(200)
	}
	w.token = secrets["ops"]
	paths := map[string]string{"/v1/webhooks": `{"url":"http://127.0.0.1:1/","query":"prices"}`,
		"/v1/profiles": `{"items":[{"query":"prices","when":{"every":"5m","slack":"1m"}}]}`}
	s, err := newServer(w.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range s.routes {
		path := strings.NewReplacer("/v1/queries/{id}", "/v1/queries/prices", "/v1/profiles/{id}", "/v1/profiles/needs",
			"/v1/rules/{id}", "/v1/rules/late").Replace(rt.path)
		if path == rt.path && (rt.method != "POST" || paths[path] == "") {
			continue
		}
		body, headers := paths[path], []string{"Content-Type: application/json"}
		if rt.method == "PATCH" {
			body = `{"weight":2}`
			if strings.Contains(path, "/rules/") {
				body = `{"summary":"it is late"}`
			}
		}
		a := w.do(rt.method, path, body, headers...).problem(409, "ambiguous-name")
		if list, _ := a.json()["ids"].([]any); len(list) != 2 {
			t.Errorf("%s %s: %s", rt.method, path, a.body)
		}
		if rt.topic {
			w.token = "" // both are public: the answer without a token is the same
			w.do(rt.method, path, body).problem(409, "ambiguous-name")
			w.token = secrets["ops"]
		}
	}
	w.get("/v1/subscriptions?query=prices").problem(409, "ambiguous-name")
	w.get("/metrics/results?query=prices").problem(409, "ambiguous-name")
	w.get("/v1/rules?query=prices").problem(409, "ambiguous-name")
	w.get("/v1/queries/" + ids[1]).status(200)
}

// The same name for another text is refused without replace.
func TestReplaceName(t *testing.T) {
	w := newWorld(t)
	old := w.register(selectText, `"name":"sel"`)
	a := w.post("/v1/queries", `{"query":"ASK {}","name":"sel"}`).problem(409, "name-taken")
	if list, _ := a.json()["ids"].([]any); len(list) != 1 || list[0] != old {
		t.Errorf("%s", a.body)
	}
	other := w.register(askText)
	w.do("PATCH", "/v1/queries/"+other, `{"name":"sel"}`, "Content-Type: application/json").problem(409, "name-taken")
	w.do("POST", "/v1/queries?name=sel&replace=1", "ASK {}", "Content-Type: application/sparql-query").status(201)
	if q := w.get("/v1/queries/sel").status(200); q.string("query") != "ASK {}" {
		t.Errorf("%s", q.body)
	}
	w.get("/v1/queries/"+old).problem(404, "not-found")
	w.post("/v1/queries", `{"query":"ASK { ?x ?y ?z }","name":"validate"}`).problem(422, "bad-setting")
	w.post("/v1/queries/validate", `{"query":"ASK {}","name":"a b/c"}`).problem(422, "bad-setting")
}
