package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// past publishes five states of a query, a minute apart, and returns them.
func (w *world) past(id string) (states []*diff.Result) {
	for i := range 5 {
		r := table(w.t, [2]diff.Term{iri("a"), lit(fmt.Sprint(i))}, [2]diff.Term{iri("b"), lit("same")})
		w.m.now = morning.Add(time.Duration(i) * time.Minute)
		w.m.publish(id, r)
		states = append(states, r)
	}
	w.m.now = morning.Add(time.Hour)
	return states
}

// A state is served by its number, its position and every time at which it was current, in
// all formats, with the bytes that it had.
func TestPastResults(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	at := "/v1/queries/" + id
	w.get(at+"/results?seq=1").problem(404, "no-result")
	states := w.past(id)
	third := string(states[2].Document())
	for _, address := range []string{"?seq=3", "?seq=Zq81:3", "?at=2026-11-20T09:02:00.25Z", "?at=2026-11-20T09:02:30Z",
		"?at=2026-11-20T09:03:00.249Z",
		"?at=2026-11-20T10:02:30%2B01:00", "?at=2026-11-20T09:03", "?at=2026-11-20+09:02:59", ".srj?seq=3"} {
		a := w.get(at + "/results" + address).status(200)
		if string(a.body) != third || a.Header.Get("ETag") != `"Zq81.3.srj"` || a.Header.Get("Memento-Datetime") != "Fri, 20 Nov "+
			"2026 09:02:00 GMT" {
			t.Errorf("%s: %s %v", address, a.body, a.Header)
		}
	}
	for _, suffix := range []string{"srj", "srx", "csv", "tsv"} {
		var want bytes.Buffer
		if err := Represent(&want, states[1], suffix, ""); err != nil {
			t.Fatal(err)
		}
		if a := w.get(at + "/results." + suffix + "?seq=2").status(200); !bytes.Equal(a.body, want.Bytes()) ||
			a.Header.Get("Content-Type") != contentType(suffix) {
			t.Errorf("%s: %s", suffix, a.body)
		}
	}
	if a := w.get(at+"/results?seq=2", "Accept: text/csv").status(200); !strings.HasPrefix(string(a.body), "s,") {
		t.Errorf("%s", a.body)
	}
	for address, want := range map[string]string{
		"?seq=6": "404 not-found", "?seq=0": "404 no-result", "?at=2026-11-20T08:00:00Z": "404 no-result", "?seq=other:3": "410 gap",
		"?at=yesterday": "400 malformed", "?seq=-1": "400 malformed", "?seq=2026-11-20T09:00:00Z": "400 malformed",
		"?at=2026-11-20T10:02:00Z":      "400 malformed",
		"?at=2026-11-20T09:02:00 01:00": "400 malformed", "?seq=1&at=2026-11-20": "400 malformed", "?seq=18446744073709551616": "400 malformed",
	} {
		status, kind, _ := strings.Cut(want, " ")
		var code int
		fmt.Sscan(status, &code)
		w.get(at+"/results"+strings.ReplaceAll(address, " ", "+")).problem(code, kind)
	}
	w.get(at + "/results?at=2026-11-20T10:00:30Z").status(200) // a clock that is a little ahead
	w.m.trimmed[id] = 2
	w.get(at+"/results?seq=2").problem(410, "gap")
	a := w.get(at+"/results?at=2026-11-20T09:00:30Z").problem(410, "gap")
	if !strings.Contains(string(a.body), "retention.changes") {
		t.Errorf("%s", a.body)
	}
}

// A state that is not kept any more is refused as gone in every format, and the oldest one
// that is kept is served.
func TestPastGone(t *testing.T) {
	w := newWorld(t)
	rows, triples := w.register(selectText), w.register(constructText)
	w.past(rows)
	for i := range 5 {
		w.m.now = morning.Add(time.Duration(i) * time.Minute)
		w.m.publish(triples, graph(t, [3]diff.Term{iri("a"), iri("p"), lit(fmt.Sprint(i))}))
	}
	w.m.now = morning.Add(time.Hour)
	for id, suffixes := range map[string][]string{rows: {"srj", "srx", "csv", "tsv"}, triples: {"nt", "ttl", "jsonld"}} {
		for _, suffix := range suffixes {
			at := "/v1/queries/" + id + "/results." + suffix
			w.m.trimmed[id] = 0
			w.get(at + "?seq=2").status(200)
			w.m.trimmed[id] = 2
			for _, address := range []string{"?seq=2", "?seq=Zq81:1", "?at=2026-11-20T09:01:30Z"} {
				a := w.get(at+address).problem(410, "gap")
				if a.string("reason") != registry.TooOld || a.Header.Get("Content-Type") != "application/problem+json" ||
					a.Header.Get("Memento-Datetime") != "" {
					t.Errorf("%s%s: %s %v", suffix, address, a.body, a.Header)
				}
			}
			if a := w.get(at + "?seq=3").status(200); a.Header.Get("Content-Type") != contentType(suffix) {
				t.Errorf("%s: %v", suffix, a.Header)
			}
		}
	}
}

// Validators and caching: a state that its address names for ever is immutable, unless it is
// the newest.
func TestPastConditional(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	w.past(id)
	at := "/v1/queries/" + id + "/results"
	for address, want := range map[string]string{"?seq=Zq81:3": "private, max-age=86400, immutable",
		"?seq=Zq81:5": "private, no-cache", "?seq=3": "private, no-cache", "?at=2026-11-20T09:02:30Z": "private, no-cache"} {
		a := w.get(at + address).status(200)
		if got := a.Header.Get("Cache-Control"); got != want {
			t.Errorf("%s: %s", address, got)
		}
		tag := a.Header.Get("ETag")
		if b := w.get(at+address, "If-None-Match: "+tag).status(304); b.Header.Get("ETag") != tag || len(b.body) > 0 ||
			b.Header.Get("Memento-Datetime") == "" {
			t.Errorf("%s: %v", address, b.Header)
		}
		w.get(at+address, `If-Match: "x"`).problem(412, "precondition-failed")
	}
	head := w.do("HEAD", at+"?seq=3", "").status(200)
	if full := w.get(at + "?seq=3"); len(head.body) > 0 || head.ContentLength != int64(len(full.body)) ||
		head.Header.Get("Memento-Datetime") == "" {
		t.Errorf("HEAD: %d %v", len(head.body), head.Header)
	}
}

var linkPart = regexp.MustCompile(`<([^>]*)>((?:; [a-z]+="[^"]*")*)`)

// links parses Link fields: relation → address.
func links(lines ...string) map[string]string {
	found := map[string]string{}
	for _, m := range linkPart.FindAllStringSubmatch(strings.Join(lines, ", "), -1) {
		rel := regexp.MustCompile(`rel="([^"]*)"`).FindStringSubmatch(m[2])[1]
		for r := range strings.FieldsSeq(rel) {
			if r != "memento" || rel == "memento" {
				found[r] = m[1]
			}
		}
	}
	return found
}

// A Memento client goes from the result to a state near a time, and from there to all others.
func TestMemento(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	states := w.past(id)
	base := "http://freshet.example.org:8080"
	original := base + "/v1/queries/" + id + "/results"
	path := strings.TrimPrefix(original, base)

	now := w.get(path).status(200)
	l := links(now.Header["Link"]...)
	if l["original"] != original || l["timegate"] != original || l["timemap"] != base+"/v1/queries/"+id+"/timemap" ||
		now.Header.Get("Memento-Datetime") != "" || !strings.Contains(now.Header.Get("Vary"), "Accept-Datetime") {
		t.Fatalf("%v", now.Header)
	}
	for when, seq := range map[string]int{"09:02:00": 3, "09:02:59": 3, "09:01:59": 2, "08:00:00": 1, "23:00:00": 5} {
		a := w.get(path, "Accept-Datetime: Fri, 20 Nov 2026 "+when+" GMT").status(200)
		if !bytes.Equal(a.body, states[seq-1].Document()) || a.Header.Get("Content-Location") != fmt.Sprintf("%s?seq=Zq81%%3A%d",
			original, seq) || !strings.Contains(a.Header.Get("Vary"), "Accept-Datetime") {
			t.Errorf("%s: %s %v", when, a.body, a.Header)
		}
		// The datetime of a memento leads back to it.
		again := w.get(path, "Accept-Datetime: "+a.Header.Get("Memento-Datetime"))
		if again.Header.Get("Content-Location") != a.Header.Get("Content-Location") {
			t.Errorf("%s leads to %s", a.Header.Get("Memento-Datetime"), again.Header.Get("Content-Location"))
		}
	}
	w.get(path, "Accept-Datetime: last week").problem(400, "malformed")

	// Walking from the first memento to the last.
	a := w.get(path + "?seq=3").status(200)
	seen := []string{}
	for next := links(a.Header["Link"]...)["first"]; next != ""; {
		b := w.get(strings.TrimPrefix(next, base)).status(200)
		seen = append(seen, string(b.body))
		next = links(b.Header["Link"]...)["next"]
	}
	want := []string{}
	for _, s := range states {
		want = append(want, string(s.Document()))
	}
	if !slices.Equal(seen, want) {
		t.Errorf("walked over %q", seen)
	}

	// The TimeMap lists them, page by page.
	count, pages := 0, 0
	for next := path[:len(path)-len("results")] + "timemap?format=csv&limit=2"; next != ""; pages++ {
		a := w.get(next).status(200)
		if a.Header.Get("Content-Type") != "application/link-format" {
			t.Fatalf("%v", a.Header)
		}
		for _, m := range linkPart.FindAllStringSubmatch(string(a.body), -1) {
			if strings.Contains(m[2], "memento") {
				if count++; !strings.HasPrefix(m[1], original+".csv?seq=") || !strings.Contains(m[2], "datetime=") {
					t.Errorf("%s", m[0])
				}
				w.get(strings.TrimPrefix(m[1], base)).status(200)
			}
		}
		next = strings.TrimPrefix(links(string(a.body))["timemap"], base)
	}
	if count != 5 || pages != 3 {
		t.Errorf("%d mementos on %d pages", count, pages)
	}
	w.get("/v1/queries/"+id+"/timemap?format=nt").problem(400, "malformed")
	w.get("/v1/queries/"+id+"/timemap?after=other:3").problem(410, "gap")
}

// A difference leads from one state to the other.
func TestNetChange(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	at := "/v1/queries/" + id + "/changes/diff"
	w.get(at+"?from=1").problem(404, "no-result")
	states := w.past(id)
	for i := range states {
		for j := i; j < len(states); j++ {
			q := url.Values{"from": {fmt.Sprint(i + 1)}, "to": {states5(j)}}
			a := w.get(at + "?" + q.Encode()).status(200)
			var n struct {
				From, To       api.Version
				Hash           string
				Added, Removed json.RawMessage
			}
			if err := json.Unmarshal(a.body, &n); err != nil {
				t.Fatal(err)
			}
			d := diff.Delta{Form: diff.Select, NewHash: n.Hash}
			if err := d.SetAdded(n.Added); err != nil {
				t.Fatal(err)
			}
			if err := d.SetRemoved(n.Removed); err != nil {
				t.Fatal(err)
			}
			if got, err := d.Apply(states[i]); err != nil || !bytes.Equal(got.Document(), states[j].Document()) {
				t.Errorf("%d to %d: %v", i+1, j+1, err)
			}
		}
	}
	a := w.get(at + "?from=2").status(200) // up to the newest
	if a.Header.Get("ETag") != `"Zq81.2-5.diff"` {
		t.Errorf("%v", a.Header)
	}
	w.get(at+"?from=2", `If-None-Match: "Zq81.2-5.diff"`).status(304)
	w.get(at+"?from=2", `If-Match: "Zq81.2-5.diff"`).status(200)
	w.get(at+"?from=2", `If-Match: "Zq81.2-4.diff"`).problem(412, "precondition-failed")
	w.get(at+"?from=2", "If-Unmodified-Since: Fri, 20 Nov 2026 09:04:00 GMT").status(200)
	w.get(at+"?from=2", "If-Unmodified-Since: Fri, 20 Nov 2026 09:03:59 GMT").problem(412, "precondition-failed")
	w.get(at+"?from=3&to=2").problem(400, "malformed")
	w.get(at).problem(400, "malformed")
	w.get(at+"?from=1&to=2027-01-01").problem(400, "malformed")
	w.get(at+"?from=1&to=9").problem(404, "not-found")
	w.m.trimmed[id] = 2
	w.get(at+"?from=1").problem(410, "gap")
}

// The newest state is found although the clock was ahead when it, or every state, came.
func TestNewestStateOfClockAhead(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	w.past(id)
	for _, back := range []time.Duration{3 * time.Minute, -time.Hour} {
		w.m.now = morning.Add(back)
		if a := w.get("/v1/queries/" + id + "/changes/diff?from=1").status(200); a.Header.Get("ETag") != `"Zq81.1-5.diff"` {
			t.Errorf("%s: %v", back, a.Header)
		}
		if a := w.get("/v1/queries/" + id + "/timemap").status(200); !strings.Contains(string(a.body), "seq=Zq81%3A5>; rel=\"last") {
			t.Errorf("%s: %s", back, a.body)
		}
	}
}

// states5 names a state of world.past by a time for every second one.
func states5(i int) string {
	if i%2 == 0 {
		return morning.Add(time.Duration(i)*time.Minute + 30*time.Second).Format(time.RFC3339)
	}
	return fmt.Sprint("Zq81:", i+1)
}
