package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

const merge7396 = "Content-Type: application/merge-patch+json"

func TestEndpoints(t *testing.T) {
	w := newWorld(t)
	a := w.post("/v1/endpoints", `{"name":"sea","url":"http://127.0.0.1:1/sparql","slot":"@every `+
		`5s","budget":"2s","max_bytes":"1MiB","blackout":[{"start":"0 2 * * *","for":"1h"}],
		"headers":{"X-Key":"secret"},"auth":{"bearer":{"token":"secret"}}}`).status(201)
	if a.Header.Get("Location") != "http://freshet.example.org:8080/v1/endpoints/sea" || strings.Contains(string(a.body), "secret") {
		t.Errorf("%v %s", a.Header, a.body)
	}
	e := a.json()
	if e["budget"] != "2s" || e["timeout"] != "30s" || e["rule"] != "strict" || e["max_bytes"] != "1MiB" {
		t.Errorf("%s", a.body)
	}
	for body, want := range map[string]int{`{"name":"sea","url":"http://127.0.0.1:1/"}`: 409, `{"name":"x"}`: 422,
		`{"name":"../x","url":"http://a/"}`:                422,
		`{"name":"x","url":"http://a/","concurrency":1.5}`: 400, `{"name":"x","url":"http://a/","auth":{"basic":{"user":"x"}}}`: 400,
		`{"name":"x","url":"file:///etc/passwd"}`: 422, `{"name":"x","url":"http://a/","pause":{"by":"me"}}`: 422,
		`{"name":"x","url":"http://a/","headers":{"A":"b\r\nC: d"}}`: 422, `{"name":"x","url":"` + strings.Repeat("x", 2<<20) + `"}`: 413,
		`{"name":"x","url":"http://a/","auth":{"bearer":{"token_file":"/etc/shadow"}}}`:                   422,
		`{"name":"x","url":"http://a/","auth":{"digest":{"username":"u","password_file":"/etc/shadow"}}}`: 422} {
		w.post("/v1/endpoints", body).status(want)
	}
	w.do("POST", "/v1/endpoints", "{}", "Content-Type: text/plain").problem(415, "unsupported-media-type")
	if n := len(w.get("/v1/endpoints").status(200).json()["endpoints"].([]any)); n != 2 {
		t.Errorf("%d endpoints", n)
	}
	w.get("/v1/endpoints/moon").problem(404, "not-found")
}

func TestCheckEndpoint(t *testing.T) {
	w := newWorld(t)
	r := w.post("/v1/endpoint-check", `{"url":"http://127.0.0.1:1/sparql","timeout":"5s"}`).status(200).json()
	if r["requests"] != 17.0 || r["url"] != "http://127.0.0.1:1/sparql" || len(r["settings"].([]any)) != 1 {
		t.Errorf("%v", r)
	}
	w.post("/v1/endpoint-check", `{"url":"file:///etc/passwd"}`).problem(422, "bad-endpoint")
	w.post("/v1/endpoint-check", `{"url":"http://127.0.0.1:1/","auth":{"bearer":{"token_file":"/etc/shadow"}}}`).status(422)
	w.post("/v1/endpoint-check", `{`).problem(400, "malformed")
	w = newWorld(t, func(c *Config) {
		c.Check = func(context.Context, registry.Endpoint) (registry.Report, error) {
			return registry.Report{}, registry.Conflict("the endpoint is paused")
		}
	})
	w.post("/v1/endpoint-check", `{"url":"http://127.0.0.1:1/sparql"}`).problem(409, "conflict")
}

func TestPacks(t *testing.T) {
	w := newWorld(t)
	packs := w.get("/v1/packs").status(200).json()["packs"].([]any)
	if len(packs) < 4 || !strings.Contains(fmt.Sprint(packs), "dbpedia.org/sparql") {
		t.Errorf("packs %v", packs)
	}
	e := w.post("/v1/endpoints", `{"pack":"dbpedia","url":"http://127.0.0.1:1/sparql","budget":"7s"}`).status(201).json()
	if e["name"] != "dbpedia" || e["url"] != "http://127.0.0.1:1/sparql" || e["budget"] != "7s" || e["max_rows"] != 10000.0 ||
		e["min_gap"] != "500ms" {
		t.Errorf("%v", e)
	}
	if e := w.post("/v1/endpoints", `{"pack":"wikidata","name":"wd","own_services":[]}`).status(201).json(); e["name"] != "wd" ||
		len(e["own_services"].([]any)) != 0 || e["url"] != "https://query.wikidata.org/sparql" {
		t.Errorf("%v", e)
	}
	w.post("/v1/endpoints", `{"pack":"dbpedia"}`).problem(409, "exists")
	w.post("/v1/endpoints", `{"pack":"wikipedia"}`).problem(422, "bad-endpoint")
	w.post("/v1/endpoints", `{"pack":1}`).problem(400, "malformed")
	w.post("/v1/endpoints", `{"pack":"dbpedia","budgt":"1s"}`).problem(400, "malformed")
	w.post("/v1/endpoints", `{"pack":"dbpedia","name":"x","budget":"0s"}`).problem(422, "bad-endpoint")
}

func TestPatchEndpoint(t *testing.T) {
	w := newWorld(t)
	at := "/v1/endpoints/city"
	first := w.get(at).status(200).Header.Get("ETag")
	a := w.do("PATCH", at, `{"budget":"3s","timeout_param":"timeout","max_rows":10000}`, merge7396, "If-Match: "+first).status(200)
	if a.json()["budget"] != "3s" || a.json()["max_rows"] != 10000.0 || a.Header.Get("ETag") == first {
		t.Errorf("%s", a.body)
	}
	w.do("PATCH", at, `{"budget":"4s"}`, merge7396, "If-Match: "+first).problem(412, "precondition-failed")
	w.do("DELETE", at, "", "If-Match: "+first).problem(412, "precondition-failed")
	w.do("PATCH", at, `{"rule":"debt"}`, merge7396).status(200)
	w.m.slots["city"] = []scheduler.Slot{{Endpoint: "city", Number: 1, Started: w.m.now, Used: 14, Budget: 10, Repaid: 1, Debt: 5}}
	e := w.get(at).status(200).json()
	if st := e["state"].(map[string]any); e["rule"] != "debt" || st["debt_seconds"] != 5.0 ||
		st["last"].(map[string]any)["repaid_seconds"] != 1.0 {
		t.Errorf("%v", e)
	}
	if m := string(w.get("/metrics").status(200).body); !strings.Contains(m, `freshet_endpoint_debt_seconds{endpoint="city"} 5`) {
		t.Error("no metric of the debt")
	}
	// A mask keeps a secret, null drops it, and a new value replaces it.
	w.do("PATCH", at, `{"auth":{"basic":{"password":"(set)"}},"headers":{"X-Key":"(set)","X-New":"v"}}`, merge7396).status(200)
	if e := w.m.endpoints["city"]; e.Auth.Basic.Password != "hush" || e.Headers["X-Key"] != "hush" || e.Headers["X-New"] != "v" {
		t.Errorf("%+v", e)
	}
	w.do("PATCH", at, `{"headers":{"X-Key":null},"auth":{"basic":null,"bearer":{"token":"t"}},"budget":null}`, merge7396).status(200)
	if e := w.m.endpoints["city"]; e.Auth.Basic != nil || e.Auth.Bearer.Token != "t" || len(e.Headers) != 1 ||
		e.Budget != registry.DefaultBudget {
		t.Errorf("%+v", e)
	}
	before := w.m.endpoints["city"]
	for body, want := range map[string]int{`{"name":"other"}`: 422, `{"what":1}`: 400, `[]`: 400, `null`: 400, `{"pause":null}`: 422,
		`{"headers":{"Y":"(set)"}}`:                                            422,
		`{"auth":{"bearer":{"token_file":"/etc/shadow","token":null}}}`:        422,
		`{"auth":{"bearer":null,"basic":{"username":"u","password":"(set)"}}}`: 422,
		`{"budget":"-1s"}`: 400, `{"budget":"1s","budget":"2s"}`: 400, `{"url":"` + strings.Repeat("x", 2<<20) + `"}`: 413} {
		w.do("PATCH", at, body, merge7396).status(want)
	}
	if after := w.m.endpoints["city"]; after.Budget != before.Budget || after.URL != before.URL || after.Auth.Bearer.Token != "t" {
		t.Error("a refused patch changed something")
	}
	w.do("PATCH", at, "{}", "Content-Type: text/plain").problem(415, "unsupported-media-type")
	w.do("PATCH", "/v1/endpoints/moon", "{}", merge7396).problem(404, "not-found")
	w.do("DELETE", "/v1/endpoints/moon", "").problem(404, "not-found")
	w.do("DELETE", at, "").status(204)
	w.get(at).problem(404, "not-found")
}

// A file named in the configuration is kept, and its content cannot be sent to another host.
func TestPatchKeepsFile(t *testing.T) {
	w := newWorld(t)
	e := w.m.endpoints["city"]
	e.Auth = registry.Auth{Basic: &registry.Password{Username: "u", PasswordFile: "/run/secret"}}
	w.m.endpoints["city"] = e
	w.do("PATCH", "/v1/endpoints/city", `{"budget":"3s"}`, merge7396).status(200)
	if w.m.endpoints["city"].Auth.Basic.PasswordFile != "/run/secret" {
		t.Error("the file is gone")
	}
	w.do("PATCH", "/v1/endpoints/city", `{"url":"http://elsewhere.example.org/"}`, merge7396).problem(422, "bad-endpoint")
}

// An endpoint shows the source of each setting. An edit of a setting of the file says
// that the file may override it, and revert restores the file's value.
func TestEndpointSources(t *testing.T) {
	w := newWorld(t)
	at := "/v1/endpoints/city"
	w.post(at+"/revert", "").problem(409, "not-in-file")
	if err := w.config.Registry.ApplyFile([]registry.Endpoint{{Name: "city", URL: "http://127.0.0.1:3030/sparql",
		Budget: registry.Duration(2 * time.Second)}}, nil); err != nil {
		t.Fatal(err)
	}
	source := func(a *answer, setting string) map[string]any {
		return a.json()["sources"].(map[string]any)[setting].(map[string]any)
	}
	if a := w.get(at).status(200); source(a, "budget")["from"] != "file" || source(a, "slot")["from"] != "default" {
		t.Errorf("from the file: %s", a.body)
	}
	a := w.do("PATCH", at, `{"budget":"1s","max_rows":5}`, merge7396).status(200)
	if s := source(a, "budget"); s["from"] != "here" || s["by"] != registry.Anonymous || s["at"] == nil || s["file"] != "2s" {
		t.Errorf("changed: %v", s)
	}
	if notes := a.json()["notes"].([]any); len(notes) != 1 || !strings.Contains(notes[0].(string), "budget: the configuration file says 2s") {
		t.Errorf("notes: %v", notes)
	}
	if a = w.post(at+"/revert?setting=budget", "").status(200); source(a, "budget")["from"] != "file" ||
		a.json()["budget"] != "2s" || a.json()["max_rows"] != 5.0 {
		t.Errorf("taken back: %s", a.body)
	}
	if a = w.post(at+"/revert", "").status(200); a.json()["max_rows"] != 0.0 {
		t.Errorf("all taken back: %s", a.body)
	}
	w.do("PATCH", at, `{"budget":"1s","max_rows":5}`, merge7396).status(200)
	if a = w.post(at+"/revert?setting=budget&setting=max_rows", "").status(200); a.json()["budget"] != "2s" || a.json()["max_rows"] != 0.0 {
		t.Errorf("two taken back: %s", a.body)
	}
	w.post(at+"/revert?setting=colour", "").problem(422, "bad-endpoint")
	w.post("/v1/endpoints/moon/revert", "").problem(404, "not-found")
	for _, e := range w.get("/v1/endpoints").status(200).json()["endpoints"].([]any) {
		if e.(map[string]any)["sources"] != nil {
			t.Error("the list holds sources")
		}
	}
}

// Readers see the state of an endpoint, not its credentials.
func TestEndpointForReaders(t *testing.T) {
	w, secrets := lockedWorld(t)
	w.token = secrets[registry.RoleRead]
	a := w.get("/v1/endpoints/city").status(200)
	if s := string(a.body); strings.Contains(s, "basic") || strings.Contains(s, "X-Key") || !strings.Contains(s, `"healthy"`) {
		t.Errorf("%s", s)
	}
	w.token = secrets[registry.RoleAdmin]
	if s := string(w.get("/v1/endpoints/city").body); !strings.Contains(s, `"password":"(set)"`) || strings.Contains(s, "hush") {
		t.Errorf("%s", s)
	}
}

// The query of an endpoint's URL may have a key, and only admins see its values. What readers see cannot be stored.
func TestKeysInURLs(t *testing.T) {
	w, secrets := lockedWorld(t)
	at, base := "/v1/endpoints/city", "https://city.example/sparql?db=1&apikey="
	if err := w.config.Registry.ApplyFile([]registry.Endpoint{{Name: "city", URL: base + "old-key"}}, nil); err != nil {
		t.Fatal(err)
	}
	w.token = secrets[registry.RoleAdmin]
	w.do("PATCH", at, `{"url":"`+base+`new-key"}`, merge7396).status(200)
	admin := w.get(at).status(200)
	if s := string(admin.body); !strings.Contains(s, "new-key") || !strings.Contains(s, "old-key") {
		t.Errorf("an admin: %s", s)
	}
	const shown = "https://city.example/sparql?db=…&apikey=…"
	w.do("PATCH", at, `{"url":"`+shown+`"}`, merge7396).problem(422, "bad-endpoint")
	for _, role := range []registry.Role{registry.RoleRead, registry.RoleApp} {
		w.token = secrets[role]
		one, all := w.get(at).status(200), w.get("/v1/endpoints").status(200)
		if s := string(one.body) + string(all.body); strings.Contains(s, "-key") || one.string("url") != shown {
			t.Errorf("%s: %s", role, s)
		}
		if s := one.json()["sources"].(map[string]any)["url"].(map[string]any); s["from"] != "here" || s["file"] != nil {
			t.Errorf("%s: the source of the URL is %v", role, s)
		}
	}
}

func TestTickPauseSlots(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		if s := w.post("/v1/endpoints/city/tick", "").status(200).json(); s["slot"] != float64(i+1) || s["tick"] != true {
			t.Errorf("%v", s)
		}
	}
	slots := w.get("/v1/endpoints/city/slots?limit=2").status(200).json()["slots"].([]any)
	if len(slots) != 2 || slots[0].(map[string]any)["slot"] != 3.0 {
		t.Errorf("%v", slots)
	}
	w.get("/v1/endpoints/city/slots?limit=0").problem(400, "malformed")
	if p := w.post("/v1/endpoints/city/pause", "").status(200).json()["pause"]; p == nil {
		t.Error("not paused")
	}
	if p := w.post("/v1/endpoints/city/resume", "").status(200).json()["pause"]; p != nil {
		t.Error("still paused")
	}
	for _, path := range []string{"pause", "resume", "tick"} {
		w.post("/v1/endpoints/moon/"+path, "").problem(404, "not-found")
	}
	w.get("/v1/endpoints/moon/slots").problem(404, "not-found")
	for _, c := range []struct {
		err    error
		status int
		slug   string
	}{{context.Canceled, 503, "unavailable"}, {scheduler.ErrStopped, 503, "unavailable"},
		{fmt.Errorf("trial: %w", scheduler.ErrStarting), 503, "unavailable"}, {scheduler.ErrPaused, 409, "conflict"},
		{fmt.Errorf("tick: %w", scheduler.ErrBlackout), 409, "conflict"}, {scheduler.ErrCharged, 429, "busy"},
		{fmt.Errorf("tick: %w", registry.ErrReadOnly), 507, "storage-full"}} {
		w.m.tick = func(context.Context) (scheduler.Slot, error) { return scheduler.Slot{}, c.err }
		a := w.post("/v1/endpoints/city/tick", "").problem(c.status, c.slug)
		if (a.Header.Get("Retry-After") == "") != (c.status == 409) {
			t.Errorf("%v: Retry-After %q", c.err, a.Header.Get("Retry-After"))
		}
	}
}

func TestBackup(t *testing.T) {
	w := newWorld(t)
	if a := w.get("/v1/backup").status(200); string(a.body) != "the store" || !strings.HasPrefix(a.Header.Get("Content-Disposition"),
		"attachment") {
		t.Errorf("%s %v", a.body, a.Header)
	}
	if a := w.do("HEAD", "/v1/backup", "").status(200); len(a.body) > 0 {
		t.Error("HEAD copies the store")
	}
	w.m.backup = func(io.Writer) (int64, error) {
		w.get("/v1/backup").problem(429, "busy") // the second at the same time
		return 0, errors.New("no space")
	}
	w.get("/v1/backup").problem(500, "internal")
	// After the first byte the connection is closed on an error, so that a short copy is noticed.
	w.m.backup = func(out io.Writer) (int64, error) {
		io.WriteString(out, "half")
		return 4, errors.New("read error")
	}
	defer func() {
		if recover() == nil {
			t.Error("a backup that failed half-way ends like a whole one")
		}
	}()
	w.get("/v1/backup")
}

// A check of an endpoint that must not be asked now says so.
func TestCheckOfAnEndpointThatRests(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Check = func(context.Context, registry.Endpoint) (registry.Report, error) {
			return registry.Report{}, registry.Conflict("nothing was sent: the endpoint is paused")
		}
	})
	if a := w.post("/v1/endpoint-check", `{"url":"http://127.0.0.1:1/sparql"}`).problem(409, "conflict"); !strings.Contains(a.string("detail"),
		"paused") {
		t.Errorf("%s", a.body)
	}
}
