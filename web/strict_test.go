package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
)

// Preconditions are evaluated for reading, too, on every representation.
func TestPreconditionsOfReading(t *testing.T) {
	w := newWorld(t)
	rows := w.register(selectText)
	w.m.publish(rows, table(t, [2]diff.Term{iri("a"), lit("x")}))
	triples := w.register(constructText)
	w.m.publish(triples, graph(t, [3]diff.Term{iri("a"), iri("p"), lit("x")}))
	for _, path := range []string{rows + "/results", rows + "/results.srj", rows + "/results.srx", rows + "/results.csv",
		rows + "/results.tsv", triples + "/results.nt", triples + "/results.ttl", triples + "/results.jsonld",
		rows + "/changes/latest", rows + "/changes.atom", "../changes.atom"} {
		path = strings.Replace("/v1/queries/"+path, "queries/../", "", 1)
		a := w.get(path).status(200)
		tag, modified := a.Header.Get("ETag"), a.Header.Get("Last-Modified")
		since, err := http.ParseTime(modified)
		if err != nil {
			t.Fatal(err)
		}
		before := since.Add(-1e9).Format(http.TimeFormat)
		for headers, want := range map[string]int{
			"If-Match: " + tag: 200, "If-Match: *": 200, `If-Match: "x", ` + tag: 200, `If-Match: "x"`: 412, "If-Match: W/" + tag: 412,
			"If-Unmodified-Since: " + modified: 200, "If-Unmodified-Since: " + before: 412,
			"If-Match: " + tag + "\nIf-Unmodified-Since: " + before: 200, // the first is the exact one
			"If-Match: \"x\"\nIf-None-Match: " + tag:                412, // and it is looked at first
			"If-Match: " + tag + "\nIf-None-Match: " + tag:          304,
		} {
			for _, method := range []string{"GET", "HEAD"} {
				a := w.do(method, path, "", strings.Split(headers, "\n")...)
				if a.StatusCode != want || want == 412 && a.Header.Get("ETag") != "" {
					t.Errorf("%s %s with %q: %d, want %d", method, path, headers, a.StatusCode, want)
				}
			}
		}
	}
}

// Every call requires an uncompressed body in UTF-8.
func TestBodiesAsTheyAre(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	for _, call := range []string{"POST /v1/queries", "POST /v1/queries/validate", "PATCH /v1/queries/" + id, "POST /v1/endpoints",
		"PATCH /v1/endpoints/city", "POST /v1/endpoints/city/hints",
		"POST /v1/tokens", "POST /v1/webhooks", "POST /v1/profiles"} {
		method, path, _ := strings.Cut(call, " ")
		for headers, want := range map[string]int{
			"Content-Type: application/json\nContent-Encoding: gzip": 415, "Content-Type: application/json\nContent-Encoding: br": 415,
			"Content-Type: application/json; charset=utf-16": 415, "Content-Type: application/json; charset=\"ISO-8859-1\"": 415,
			"Content-Type: application/json; charset=UTF-8": 400, "Content-Type: application/json; charset=\"utf-8\"; x=y": 400,
			"Content-Type: application/json;": 400, "Content-Type: Application/JSON\nContent-Encoding: identity": 400,
		} {
			a := w.do(method, path, "[", strings.Split(headers, "\n")...).status(want)
			if want == 415 {
				a.problem(415, "unsupported-media-type")
			}
			if strings.Contains(headers, "gzip") && a.Header.Get("Accept-Encoding") != "identity" {
				t.Errorf("%s: Accept-Encoding %q", call, a.Header.Get("Accept-Encoding"))
			}
		}
	}
}

// A repeated parameter is a mistake on every call, unless it is a list.
func TestRepeatedParameters(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	w.m.publish(id, table(t, [2]diff.Term{iri("a"), lit("x")}))
	for _, rt := range (&server{Config: w.config}).table() {
		if rt.need == "" {
			continue
		}
		path := strings.NewReplacer("{id}", id, "{name}", "city").Replace(rt.path)
		if a := w.do(rt.method, path+"?limit=5&limit=5", "").problem(400, "malformed"); !strings.Contains(string(a.body), "?limit") {
			t.Errorf("%s %s: %s", rt.method, path, a.body)
		}
	}
	w.get("/v1/queries?endpoint=city&endpoint=city").problem(400, "malformed")
	w.get("/v1/queries/"+id+"/changes?where=s:=:a&where=o:=:b&vars=s&vars=o", "Accept: text/event-stream").status(200)
}

// A cursor that no page returned is refused.
func TestMadeUpCursors(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	for _, list := range []string{"queries", "profiles", "subscriptions", "webhooks"} {
		for _, bad := range []string{"x", "aaaa", "0", "q_", "q_../../etc/passwd", "../q_aaaaaaaaaaaaaaaaaaaaaaaaaa",
			"Q_AAAAAAAAAAAAAAAAAAAAAAAAAA", "%00", "%ff", strings.Repeat("a_b", 200)} {
			w.get("/v1/"+list+"?cursor="+bad).problem(400, "malformed")
		}
	}
	w.get("/v1/queries?cursor=p_aaaaaaaaaaaaaaaaaaaaaaaa").problem(400, "malformed")
	w.get("/v1/queries?cursor=" + id).status(200)
	w.get("/v1/queries?cursor=").status(200)
	w.get("/v1/queries?cursor=q_00000000000000000000000000").status(200) // it may have ended meanwhile
}

// A setting whose default is stored as 0 cannot be set to 0.
func TestZeroIsNoDefault(t *testing.T) {
	w := newWorld(t)
	for setting, good := range map[string]string{`"budget":"0s"`: `"budget":"5s"`, `"timeout":"0s"`: `"timeout":"1s"`,
		`"timeout":"0ms"`: `"timeout":null`, `"concurrency":0`: `"concurrency":2`,
		`"profile_share":0.0`: `"profile_share":0.1`, `"max_bytes":0`: `"max_bytes":"1MiB"`, `"max_bytes":"0KiB"`: `"max_bytes":null`} {
		name, _, _ := strings.Cut(strings.Trim(setting, `"`), `"`)
		for _, a := range []*answer{w.post("/v1/endpoints", `{"name":"new","url":"http://127.0.0.1/",`+setting+`}`),
			w.do("PATCH", "/v1/endpoints/city", "{"+setting+"}", "Content-Type: application/json")} {
			if a.problem(422, "bad-endpoint"); !strings.Contains(string(a.body), `"pointer":"/`+name+`"`) {
				t.Errorf("%s: %s", setting, a.body)
			}
		}
		w.do("PATCH", "/v1/endpoints/city", "{"+good+"}", "Content-Type: application/json").status(200)
	}
}

// The problem of an unknown member suggests the intended one or lists all.
func TestUnknownMembers(t *testing.T) {
	w := newWorld(t)
	for _, x := range [][4]string{
		{"POST", "/v1/queries", `{"endpoint":"city","sparql":"ASK {}"}`, "the text of the query is the member query"},
		{"POST", "/v1/queries", `{"endpoint":"city","statement":"ASK {}"}`, "there are endpoint, query, name, tags, weight"},
		{"POST", "/v1/queries", `{"endpoint":"city","qeury":"ASK {}"}`, "did you mean query?"},
		{"POST", "/v1/queries", `{"endpoint":"city","Query":"ASK {}"}`, "did you mean query?"},
		{"PATCH", "/v1/queries/" + w.register(selectText), `{"tag":["a"]}`, "did you mean tags?"},
		{"PATCH", "/v1/endpoints/city", `{"bugdet":"1s"}`, "did you mean budget?"},
		{"PATCH", "/v1/endpoints/city", `{"auth":{"basic":{"usrname":"u"}}}`, "did you mean username?"},
		{"POST", "/v1/tokens", `{"nmae":"x"}`, "did you mean name?"},
		{"POST", "/v1/profiles", `{"itmes":[]}`, "did you mean items?"},
	} {
		a := w.do(x[0], x[1], x[2], "Content-Type: application/json").problem(400, "malformed")
		if !strings.Contains(a.string("detail"), x[3]) {
			t.Errorf("%s %s %s: %s", x[0], x[1], x[2], a.string("detail"))
		}
	}
}

// A parameter that a call does not have is refused, and the intended one is suggested. The
// parameters of the routes are those of the OpenAPI document.
func TestUnknownParameters(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	for path, want := range map[string]string{
		"/v1/queries?stat=live":                "did you mean state?",
		"/v1/queries/" + id + "?x=1":           "no parameter of this name",
		"/v1/queries/" + id + "/results.csv?z": "there are at, seq",
		"/v1/endpoints?limit=3":                "no parameter of this name",
	} {
		if a := w.get(path).problem(400, "malformed"); !strings.Contains(a.string("detail"), want) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	w.get("/metrics?x=1").status(200)
	for call, want := range map[string]string{
		typeJSON + " /v1/queries?max_staleness=1m":             "no parameter of this name beside a registration in JSON",
		typeJSON + " /v1/queries/validate?run=0&weight=2":      "there are run, whole",
		typeSPARQL + " /v1/queries?max_stalenes=1m":            "did you mean max_staleness?",
		typeSPARQL + " /v1/queries?query=ASK":                  "there are endpoint, name",
		typeJSON + " /v1/queries/" + id + "/refresh?urgency=x": "no parameter of this name",
	} {
		media, path, _ := strings.Cut(call, " ")
		body := map[string]string{typeJSON: `{"query":"ASK {}"}`, typeSPARQL: "ASK {}"}[media]
		if a := w.do("POST", path, body, "Content-Type: "+media).problem(400, "malformed"); !strings.Contains(a.string("detail"), want) ||
			!strings.Contains(string(a.body), `"pointer":"?`) {
			t.Errorf("%s: %s", call, a.body)
		}
	}
	paths := w.document()["paths"].(map[string]any)
	listed := map[string]string{}
	for path, item := range paths {
		for method, op := range item.(map[string]any) {
			var names []string
			for _, from := range []any{item, op} {
				m, _ := from.(map[string]any)
				list, _ := m["parameters"].([]any)
				for _, p := range list {
					p := p.(map[string]any)
					if ref, ok := p["$ref"].(string); ok {
						p = child(w.document(), "components", "parameters", strings.TrimPrefix(ref, "#/components/parameters/")).(map[string]any)
					}
					if p["in"] == "query" {
						names = append(names, p["name"].(string))
					}
				}
			}
			if len(names) > 0 && method != "parameters" && !strings.Contains(path, "/results.") {
				listed[strings.ToUpper(method)+" "+path] = strings.Join(names, " ")
			}
		}
	}
	s, err := newServer(w.config)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{}
	for _, rt := range s.routes {
		if rt.takes != "" && !strings.Contains(rt.path, "/results.") {
			taken[rt.method+" "+rt.path] = rt.takes
		}
	}
	if diff := cmp.Diff(listed, taken); diff != "" {
		t.Errorf("the OpenAPI document (-) and the table (+) differ:\n%s", diff)
	}
}

// The problem of a value of the wrong kind names the kind that is wanted.
func TestValuesOfTheWrongKind(t *testing.T) {
	w := newWorld(t)
	for _, x := range [][4]string{
		{"POST", "/v1/queries", `[]`, "an array is not allowed here: write an object"},
		{"POST", "/v1/queries", `{"query":5}`, "a number is not allowed here: write a string"},
		{"POST", "/v1/queries", `{"query":"ASK {}","tags":"a"}`, "a string is not allowed here: write an array"},
		{"POST", "/v1/queries", `{"query":"ASK {}","weight":"a"}`, "a string is not allowed here: write a number"},
		{"POST", "/v1/queries", `{"query":"ASK {}","weight":1e400}`, "this number is too large, or not of the kind that is wanted here"},
		{"POST", "/v1/queries", `{"query":"ASK {}","public":"yes"}`, "a string is not allowed here: write true or false"},
		{"POST", "/v1/queries", `{"query":"ASK {}","max_staleness":"5"}`, `"5" is not a duration such as 90s, 10m or 24h`},
		{"POST", "/v1/endpoints", `{"name":"x","concurrency":"two"}`, "a string is not allowed here: write a whole number"},
		{"POST", "/v1/endpoints", `{"name":"x","concurrency":1.5}`, "this number is too large, or not of the kind that is wanted here"},
		{"POST", "/v1/endpoints", `{"name":"x","headers":["a"]}`, "an array is not allowed here: write an object"},
		{"PATCH", "/v1/endpoints/city", `{"budget":5}`, `5 is not a duration such as "90s", "10m" or "24h"`},
	} {
		a := w.do(x[0], x[1], x[2], "Content-Type: application/json").problem(400, "malformed")
		if a.string("detail") != x[3] {
			t.Errorf("%s %s %s: %s", x[0], x[1], x[2], a.string("detail"))
		}
	}
	w.get("/v1/queries/"+w.register(selectText)+"/results.json").problem(404, "not-found")
	if a := w.get("/v1/queries/x/results.json").problem(404, "not-found"); a.string("detail") != "a result has no such format: "+
		"there are srj, srx, csv, tsv for rows, and nt, ttl, jsonld for graphs" {
		t.Error(a.string("detail"))
	}
}

// Invalid URLs and headers of an endpoint are refused.
func TestEndpointsThatCannotBe(t *testing.T) {
	w := newWorld(t)
	w.do("PATCH", "/v1/endpoints/city", `{"auth":null,"headers":null}`, "Content-Type: application/json").status(200)
	for member, want := range map[string]string{
		`"url":"http://127.0.0.1:99999/sparql"`: "/url", `"url":"http://127.0.0.1:0/sparql"`: "/url",
		`"url":"http://127.0.0.1/sparql#x"`: "/url", `"url":"http://127.0.0.1/sparql#"`: "/url",
		`"headers":{"Accept":"text/html"}`: "/headers", `"headers":{"user-agent":"x"}`: "/headers",
		`"headers":{"If-None-Match":"x"}`: "/headers", `"headers":{"Range":"x"}`: "/headers",
	} {
		a := w.do("PATCH", "/v1/endpoints/city", "{"+member+"}", "Content-Type: application/json").problem(422, "bad-endpoint")
		if !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %s", member, a.body)
		}
	}
	w.do("PATCH", "/v1/endpoints/city", `{"url":"http://127.0.0.1:65535/sparql?x=y","headers":{"X-Key":"a","Cookie":"b"}}`,
		"Content-Type: application/json").status(200)
}
