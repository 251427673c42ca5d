package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// seqs returns the numbers of a page of changes.
func (a *answer) seqs(key string) (out []float64) {
	a.t.Helper()
	for _, c := range a.status(200).json()["changes"].([]any) {
		out = append(out, c.(map[string]any)[key].(float64))
	}
	return out
}

// grow gives a query n changes.
func (w *world) grow(id string, n int) {
	var rows [][2]diff.Term
	for i := range n {
		rows = append(rows, [2]diff.Term{iri(fmt.Sprint(i)), lit("x")})
		w.m.publish(id, table(w.t, rows...))
	}
}

func TestQueryChanges(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	at := "/v1/queries/" + id + "/changes"
	if a := w.get(at); len(a.seqs("seq")) != 0 || a.string("next") != "Zq81:0" {
		t.Errorf("before the first result: %s", a.body)
	}
	w.grow(id, 5)
	a := w.get(at + "?after=Zq81:1&limit=2")
	if d := cmp.Diff([]float64{2, 3}, a.seqs("seq")); d != "" || a.string("next") != "Zq81:3" {
		t.Errorf("%s\n%s", d, a.body)
	}
	if a = w.get(at + "?after=Zq81:5"); len(a.seqs("seq")) != 0 || a.string("next") != "Zq81:5" {
		t.Errorf("at the end: %s", a.body)
	}
	for after, reason := range map[string]string{"Zq81:6": registry.Ahead, "old:1": registry.OtherEpoch} {
		if a := w.get(at+"?after="+after).problem(410, "gap"); a.string("reason") != reason {
			t.Errorf("%s: %s", after, a.body)
		}
	}
	for _, bad := range []string{"after=5", "after=:5", "after=e:x", "after=e:-1", "after=e:99999999999999999999", "limit=0"} {
		w.get(at+"?"+bad).problem(400, "malformed")
	}
	w.get(at, "Accept: text/html").problem(406, "not-acceptable")
	w.get("/v1/queries/missing/changes").problem(404, "not-found")
}

// Without after, the page begins with the oldest stored change.
func TestChangesFromOldest(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	w.grow(id, 9)
	for trimmed := range uint64(9) {
		w.m.trimmed[id] = trimmed
		got := w.get("/v1/queries/" + id + "/changes").seqs("seq")
		if len(got) != int(9-trimmed) || got[0] != float64(trimmed+1) {
			t.Errorf("trimmed up to %d: %v", trimmed, got)
		}
	}
	if a := w.get("/v1/queries/"+id+"/changes?after=Zq81:2").problem(410, "gap"); a.string("reason") != registry.TooOld {
		t.Errorf("%s", a.body)
	}
}

func TestLatestChange(t *testing.T) {
	w := newWorld(t)
	id := w.register(askText)
	at := "/v1/queries/" + id + "/changes/latest"
	w.get(at).problem(404, "no-result")
	w.m.publish(id, truthValue(t, true))
	w.m.publish(id, truthValue(t, false))
	a := w.get(at).status(200)
	if c := a.json(); c["seq"] != 2.0 || c["boolean"] != false || c["previous"] != true {
		t.Errorf("%s", a.body)
	}
	if a.Header.Get("ETag") != `"Zq81.2.change"` || !strings.HasSuffix(a.Header["Link"][1], at+`>; rel="self"`) {
		t.Errorf("%v", a.Header)
	}
	w.get(at, `If-None-Match: "Zq81.2.change"`).status(304)
	w.get(at, `If-None-Match: "Zq81.1.change"`).status(200)
	w.do("HEAD", at, "").status(200)
	w.get("/v1/queries/missing/changes/latest").problem(404, "not-found")
	if a = w.get(at); a.Header.Get("Last-Modified") != "Fri, 20 Nov 2026 09:00:00 GMT" {
		t.Errorf("%v", a.Header)
	}
}

// A page of large changes ends early, and the next page continues after it.
func TestLargeChanges(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	for i := range 4 {
		w.m.publish(id, table(t, [2]diff.Term{iri("a"), lit(fmt.Sprint(i, strings.Repeat("x", 3<<20)))}))
	}
	var met []float64
	after := ""
	for range 4 {
		a := w.get("/v1/changes?limit=1000" + after)
		if len(a.body) > 16<<20 {
			t.Errorf("a page of %d bytes", len(a.body))
		}
		met = append(met, a.seqs("offset")...)
		after = "&after=" + a.string("next")
	}
	if d := cmp.Diff([]float64{1, 2, 3, 4}, met); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// An error has no header of the answer that it replaces.
func TestErrorIsNoRepresentation(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.ChangeJSON = func(registry.Change) ([]byte, error) { return nil, errors.New("a broken change") }
	})
	id := w.register(askText)
	w.m.publish(id, truthValue(t, true))
	a := w.get("/v1/queries/"+id+"/changes/latest").problem(500, "internal")
	for _, name := range []string{"ETag", "Last-Modified", "Link"} {
		if a.Header.Get(name) != "" {
			t.Errorf("%s: %s", name, a.Header.Get(name))
		}
	}
}

func TestAllChanges(t *testing.T) {
	w := newWorld(t)
	if a := w.get("/v1/changes"); len(a.seqs("offset")) != 0 || a.string("next") != "Zq81:0" {
		t.Errorf("%s", a.body)
	}
	one, two := w.register(selectText, `"tags":["x"]`), w.register(constructText)
	for i := range 3 {
		w.grow(one, i+1)
		w.m.publish(two, graph(t, [3]diff.Term{iri(fmt.Sprint(i)), iri("p"), lit("o")}))
	}
	all := len(w.m.log)
	if got := w.get("/v1/changes").seqs("offset"); len(got) != all || got[0] != 1 {
		t.Errorf("%v", got)
	}
	// Pages with a filter contain every matching change once.
	var met []float64
	next := ""
	for range 20 {
		a := w.get("/v1/changes?limit=2&tag=x&endpoint=city" + next)
		met = append(met, a.seqs("offset")...)
		if now := "&after=" + a.string("next"); now != next {
			next = now
			continue
		}
		break
	}
	var want []float64
	for _, c := range w.m.log {
		if c.Query == one {
			want = append(want, float64(c.Offset))
		}
	}
	if d := cmp.Diff(want, met); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := w.get("/v1/changes?endpoint=moon"); len(got.seqs("offset")) != 0 || got.string("next") != fmt.Sprint("Zq81:", all) {
		t.Errorf("%s", got.body)
	}
	w.get("/v1/changes?after=old:1").problem(410, "gap")
	w.get("/v1/changes?after=1").problem(400, "malformed")
	w.get("/v1/changes?limit=-1").problem(400, "malformed")
	w.get("/v1/changes", "Accept: image/png").problem(406, "not-acceptable")
}

func TestStreams(t *testing.T) {
	var keep func(*registry.Change) bool
	w := newWorld(t, func(c *Config) {
		c.Followers = streams{all: func(w http.ResponseWriter, _ *http.Request, k func(*registry.Change) bool) {
			keep = k
			sse(w, "all")
		}}
	})
	id := w.register(selectText, `"name":"n"`, `"tags":["x"]`)
	stream := "Accept: text/event-stream"
	if a := w.get("/v1/queries/n/changes", stream).status(200); string(a.body) != "data: query "+id+"\n\n" {
		t.Errorf("%q", a.body)
	}
	w.get("/v1/changes?tag=x&endpoint=city", stream).status(200)
	for _, c := range []struct {
		ch   registry.Change
		want bool
	}{{registry.Change{Query: id, Endpoint: "city"}, true}, {registry.Change{Query: id, Endpoint: "moon"}, false},
		{registry.Change{Query: "gone", Endpoint: "city"}, false}} {
		if keep(&c.ch) != c.want {
			t.Errorf("keep %v is not %v", c.ch, c.want)
		}
	}
	for _, at := range []string{"/v1/changes", "/v1/queries/n/changes"} { // HEAD must not follow for ever
		if a := w.do("HEAD", at, "", stream).status(200); len(a.body) > 0 || a.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%q %v", a.body, a.Header)
		}
	}
	w.get("/v1/changes", "Accept: image/png").problem(406, "not-acceptable")
}

func TestChangeThatCannotBeWritten(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.ChangeJSON = func(registry.Change) ([]byte, error) { return nil, errors.New("broken") }
	})
	id := w.register(selectText)
	w.grow(id, 1)
	w.get("/v1/changes").problem(500, "internal")
	w.get("/v1/queries/"+id+"/changes").problem(500, "internal")
}

// A sharedHistory answers the same question with the same page, as a server does for a while.
type sharedHistory struct {
	History
	pages map[string][]registry.Change
}

func (h sharedHistory) After(query string, p registry.Position, limit int) (list []registry.Change, err error) {
	key := fmt.Sprint(query, p, limit)
	list, known := h.pages[key]
	if !known {
		if list, err = h.History.After(query, p, limit); err == nil {
			h.pages[key] = list
		}
	}
	return list, err
}

// A log that is trimmed between two readers is read from its oldest change on, although pages of before are still shared.
func TestChangesOfTrimmedLog(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.History = sharedHistory{c.History, map[string][]registry.Change{}} })
	id := w.register(selectText)
	w.grow(id, 9)
	w.get("/v1/queries/" + id + "/changes?limit=1").seqs("seq")
	w.m.trimmed[id] = 4
	if d := cmp.Diff([]float64{5, 6, 7, 8, 9}, w.get("/v1/queries/"+id+"/changes").seqs("seq")); d != "" {
		t.Error(d)
	}
}
