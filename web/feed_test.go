package web

import (
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
)

func TestFeeds(t *testing.T) {
	w, secrets := lockedWorld(t)
	w.token = secrets[registry.RoleApp]
	private, public := w.register(selectText), w.register(askText, `"public":true`)
	for _, path := range []string{"/v1/queries/" + private + "/changes.atom", "/v1/changes.atom"} {
		a := w.get(path).status(200)
		if a.Header.Get("Content-Type") != "application/atom+xml; charset=utf-8" || string(a.body) != "<feed/>" ||
			a.Header.Get("Last-Modified") == "" {
			t.Errorf("%s: %s %v", path, a.body, a.Header)
		}
		want := []string{`<http://freshet.example.org:8080/v1/hub>; rel="hub"`, `<http://freshet.example.org:8080` + path + `>; rel="self"`}
		if path == "/v1/changes.atom" { // no topic
			want = want[1:]
		}
		if got := a.Header.Values("Link"); !slices.Equal(got, want) {
			t.Errorf("%s: links %q, want %q", path, got, want)
		}
		if a := w.get(path, "If-None-Match: "+a.Header.Get("ETag")); a.StatusCode != 304 || len(a.body) > 0 ||
			len(a.Header.Values("Link")) != len(want) {
			t.Errorf("%s: %d %q", path, a.StatusCode, a.body)
		}
		w.get(path, "If-Modified-Since: "+a.Header.Get("Last-Modified")).status(304)
		if a := w.do("HEAD", path, "").status(200); len(a.body) > 0 {
			t.Errorf("%s: HEAD has a body", path)
		}
		w.get(path+"?archive=bad").problem(400, "bad-position")
		if a := w.get(path+"?archive=gone").problem(410, "gap"); a.string("reason") != registry.TooOld {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	w.get("/v1/queries/missing/changes.atom").problem(404, "not-found")
	w.token = ""
	w.get("/v1/queries/"+private+"/changes.atom").problem(401, "unauthorized")
	w.get("/v1/changes.atom").problem(401, "unauthorized")
	if a := w.get("/v1/queries/" + public + "/changes.atom").status(200); strings.Contains(a.Header.Get("Cache-Control"), "private") {
		t.Errorf("a public feed is %s", a.Header.Get("Cache-Control"))
	}
	w.token = secrets[registry.RoleApp]
	watched, hidden := w.register(`SELECT ?x { ?x ?y "1" }`, `"public":true,"tags":["watch"]`), w.register(`SELECT ?x { ?x ?y "2" }`,
		`"tags":["watch"]`)
	w.token = ""
	a := w.get("/v1/watches/" + watched + "/changes.atom").status(200)
	if strings.Contains(a.Header.Get("Cache-Control"), "private") {
		t.Errorf("the public feed of a watch is %s", a.Header.Get("Cache-Control"))
	}
	w.get("/v1/watches/"+hidden+"/changes.atom").problem(401, "unauthorized")
	w.get("/v1/watches/"+watched+"/changes").problem(401, "unauthorized")
}

// Parameters that only streams support are refused elsewhere.
func TestFiltersNeedStreams(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	for _, p := range []string{"min_jaccard=0.5", "min_rows=2", "vars=s", "where=s:=:x", "rate=5s"} {
		w.get("/v1/queries/"+id+"/changes?"+p).problem(400, "malformed")
		w.get("/v1/changes?"+p).problem(400, "malformed")
		w.get("/v1/queries/"+id+"/changes?"+p, "Accept: text/event-stream").status(200)
	}
	w.get("/sepa/subscribe").status(400)
}
