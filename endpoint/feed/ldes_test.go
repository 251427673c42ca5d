package feed_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/registry"
	. "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/proof"
)

// Every member of the real streams is read once, whatever the relations of their pages are.
func TestRealLDES(t *testing.T) {
	testData(t, "ldes/mock-ldes.ttl")
	dir := filepath.Join(os.Getenv("FRESHET_TEST_DATA"), "feeds", "ldes")
	for _, name := range []string{"mock-ldes.ttl", "mock-ldes-linked-list.ttl", "mock-calendar-ldes.ttl", "mock-ldes-inbetween.ttl",
		"mock-ldes-reverse.ttl", "mock-ldes-minimal-view.ttl", "mock-ldes-atypical.ttl"} {
		files, _ := filepath.Glob(filepath.Join(dir, strings.TrimSuffix(name, ".ttl")+"-[0-9]*.ttl"))
		files = append(files, filepath.Join(dir, name))
		want := map[string]bool{}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range strings.Split(string(text), "\n") {
				if l = strings.TrimSpace(l); strings.HasPrefix(l, "tree:member ") {
					for _, m := range strings.FieldsFunc(strings.TrimPrefix(l, "tree:member "),
						func(r rune) bool { return strings.ContainsRune("<>,. ;", r) }) {
						want[m] = true
					}
				}
			}
		}
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			text, err := os.ReadFile(filepath.Join(dir, path.Base(r.URL.Path)))
			if err != nil {
				http.NotFound(w, r)
				return
			}
			if strings.HasPrefix(string(text), "# immutable") {
				w.Header().Set("Cache-Control", "public, immutable")
			}
			w.Header().Set("Content-Type", "text/turtle")
			_, _ = w.Write(text)
		})
		d := Definition{Kind: LDES, URL: s.URL + "/" + name}
		b, err := caughtUp(t, d, "") // begins now
		if err != nil || len(b.Events) > 0 {
			t.Errorf("%s: %d events, %v", name, len(b.Events), err)
		}
		d.Since = begin.AddDate(-10, 0, 0)
		b, err = caughtUp(t, d, "")
		got, entities := map[string]bool{}, map[string]bool{}
		for _, e := range b.Events {
			entities[e.Entity] = true
		}
		for _, e := range b.Events {
			m, of, _ := strings.Cut(strings.TrimPrefix(e.Edit.Text, "version "), " of ")
			if got[strings.TrimPrefix(m, s.URL+"/")] {
				t.Errorf("%s: %s comes twice", name, m)
			}
			got[strings.TrimPrefix(m, s.URL+"/")] = true
			for _, c := range []struct {
				p    sparql.Pattern
				want Reach
			}{
				{sparql.Pattern{Subject: "<" + m + ">", Predicate: "<http://example.org/prop2>", Object: `"value`}, Matched},
				{sparql.Pattern{Subject: "<" + of + ">", Object: `"value`}, Matched},
				{sparql.Pattern{Subject: "<" + of + ">", Predicate: "<http://example.org/old>"}, Possible},
				{sparql.Pattern{Subject: "<http://example.org/x>"}, Possible}, // perhaps a part of the version before
				{sparql.Pattern{Subject: "<" + another(entities, of) + ">"}, None},
			} {
				if r := e.Reach([]sparql.Pattern{c.p}); r != c.want {
					t.Errorf("%s: %s: %+v: %d, want %d", name, m, c.p, r, c.want)
				}
			}
		}
		if err != nil || len(got) != len(want) || len(want) < 6 || b.Gap != "" {
			t.Errorf("%s: %d of %d members, gap %q, %v", name, len(got), len(want), b.Gap, err)
		}
		n := len(s.requests)
		if b, err = caughtUp(t, d, b.Cursor); err != nil || len(b.Events) > 0 || b.Gap != "" {
			t.Errorf("%s again: %d events, gap %q, %v", name, len(b.Events), b.Gap, err)
		}
		for _, r := range s.requests[n:] {
			if r.URL.Path == "/mock-ldes-0.ttl" && len(s.requests)-n > 3 {
				t.Errorf("%s: an immutable page is asked for again: %d requests", name, len(s.requests)-n)
			}
		}
	}
}

// another returns one of the IRIs that is not the given one.
func another(list map[string]bool, iri string) string {
	for other := range list {
		if other != iri {
			return other
		}
	}
	return ""
}

// A pages serves a stream in memory.
type pages struct {
	mu   sync.Mutex
	text map[string]string
	gone map[string]bool
}

func (p *pages) serve(t *testing.T) *server {
	return serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		text, ok := p.text[r.URL.Path]
		etag := fmt.Sprintf(`"%d"`, len(text))
		switch {
		case p.gone[r.URL.Path]:
			w.WriteHeader(http.StatusGone)
			return
		case !ok:
			http.NotFound(w, r)
			return
		case r.Header.Get("If-None-Match") == etag:
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", etag)
		w.Header().Set("Content-Type", "text/turtle")
		fmt.Fprint(w, "@prefix ldes: <https://w3id.org/ldes#> . @prefix tree: <https://w3id.org/tree#> . @prefix ex: "+
			"<http://example.org/> . </s> a ldes:EventStream ; ldes:versionOfPath ex:of ; ldes:timestampPath ex:at ; "+
			"ldes:transactionPath ex:tx ; ldes:transactionFinalizedPath ex:done .\n"+text)
	})
}

func member(n int, rest string) string {
	return fmt.Sprintf("</s> tree:member </m%d> . </m%d> ex:of </e> ; ex:value %d ; ex:at \"2020-01-01T00:00:00Z\" %s .\n", n, n, n, rest)
}

func texts(b Batch) (list []string) {
	for _, e := range b.Events {
		m, _, _ := strings.Cut(e.Edit.Text, " of ")
		list = append(list, path.Base(m))
	}
	slices.Sort(list)
	return list
}

func TestLDES(t *testing.T) {
	link := func(from, to string) string {
		return fmt.Sprintf("<%s> tree:relation [ tree:node <%s> ] .\n", from, to)
	}
	p := &pages{gone: map[string]bool{}, text: map[string]string{
		"/s": link("/s", "/a") + "</s> tree:view </s>, <http://elsewhere.example/x> .\n",
		"/a": link("/a", "/s") + link("/a", "/b") + member(1, "") + "</a> ldes:immutable true .\n", // a circle
		"/b": member(2, "; ex:sub [ ex:x 1 ]"),
	}}
	s := p.serve(t)
	d := Definition{Kind: LDES, URL: s.URL + "/s"}
	step := func(b Batch, want string, gap string) Batch {
		t.Helper()
		b, err := caughtUp(t, d, b.Cursor)
		if got := strings.Join(texts(b), " "); err != nil || got != want || !strings.Contains(b.Gap, gap) || gap == "" && b.Gap != "" {
			t.Errorf("members %q, want %q; gap %q; %v", got, want, b.Gap, err)
		}
		return b
	}
	b := step(Batch{}, "", "")
	for _, r := range s.requests {
		if r.Host != strings.TrimPrefix(s.URL, "http://") {
			t.Errorf("%s is asked", r.Host)
		}
	}
	p.text["/b"] += member(3, "") // an old time does not matter
	b = step(b, "m3", "")
	b = step(b, "", "")
	if e := b.Events; len(e) > 0 {
		t.Error(e)
	}
	p.text["/b"] += link("/b", "/c") + link("/b", "/d")
	p.text["/c"] = member(4, "") + member(5, "")
	p.gone["/d"] = true
	b = step(b, "m4 m5", "removed before it was read")
	b = step(b, "", "") // it is still linked
	p.gone["/c"] = true // its end may have been missed
	b = step(b, "", "removed before it was read to its end")
	p.text["/a"] += member(6, "") // it was immutable
	b = step(step(b, "m1 m6", "although it is immutable"), "", "")
	p.text["/b"] += member(7, "; ex:tx </t>")
	b = step(b, "m7", "")
	p.text["/e"] = member(8, "; ex:tx </t> ; ex:done true")
	p.text["/b"] += link("/b", "/e")
	b = step(b, "m7 m8", "")
	b = step(b, "m7", "") // once more, as the transaction has ended
	b = step(b, "", "")
	p.text["/b"] = "<x> <y"
	if _, err := caughtUp(t, d, b.Cursor); err == nil || !strings.Contains(err.Error(), "/b: ") {
		t.Errorf("%v", err)
	}
}

// What the root says about a stream holds for all pages.
func TestDescribedByTheRoot(t *testing.T) {
	file := func(text string) string {
		return "@prefix ldes: <https://w3id.org/ldes#> . @prefix tree: <https://w3id.org/tree#> . @prefix ex: <http://example.org/> .\n" + text
	}
	text := map[string]string{
		"/s": file("</s> a ldes:EventStream ; ldes:versionOfPath ex:of ; ldes:timestampPath ex:at ; ldes:transactionPath ex:tx ; " +
			"ldes:transactionFinalizedPath ex:done . </s> tree:relation [ tree:node </a> ] ."),
		"/a": file(member(1, "")),
	}
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/turtle")
		fmt.Fprint(w, text[r.URL.Path])
	})
	d := Definition{Kind: LDES, URL: s.URL + "/s"}
	start, err := caughtUp(t, d, "")
	if err != nil {
		t.Fatal(err)
	}
	text["/a"] += member(2, "; ex:tx </t>")
	b, err := caughtUp(t, d, start.Cursor)
	if err != nil || len(b.Events) != 1 || b.Events[0].Entity != s.URL+"/e" || b.Events[0].All {
		t.Fatalf("%+v, %v", b.Events, err)
	}
	if r := b.Events[0].Reach([]sparql.Pattern{{Subject: "<" + s.URL + "/e>", Predicate: "<http://example.org/old>"}}); r != Possible {
		t.Errorf("the version before: %d", r)
	}
	text["/a"] += member(3, "; ex:tx </t> ; ex:done true")
	if b, err = caughtUp(t, d, b.Cursor); err != nil || strings.Join(texts(b), " ") != "m3" && strings.Join(texts(b), " ") != "m2 m3" {
		t.Errorf("%v, %v", texts(b), err)
	}
	// A stream that nothing describes, and a member whose triples are elsewhere, may have changed anything.
	d.URL = s.URL + "/a"
	if b, err = caughtUp(t, d, ""); err != nil {
		t.Fatal(err)
	}
	text["/a"] += member(4, "")
	if b, err = caughtUp(t, d, b.Cursor); err != nil || len(b.Events) != 1 || !b.Events[0].All {
		t.Errorf("not described: %+v, %v", b.Events, err)
	}
	text["/a"] += "</s> tree:member </m5> .\n"
	d.URL = s.URL + "/s"
	if b, err = caughtUp(t, d, start.Cursor); err != nil || !slices.ContainsFunc(b.Events, func(e Event) bool {
		return e.All &&
			strings.HasSuffix(e.Edit.Text, "/m5")
	}) {
		t.Errorf("no triples: %+v, %v", b.Events, err)
	}
	for _, to := range []string{"https://elsewhere.example/x", strings.Replace(s.URL, "http:", "https:", 1) + "/b"} {
		for _, how := range []string{"</s> tree:relation [ tree:node <" + to + "> ] .", "</s> tree:view <" + to + "> ."} {
			text["/s"] = file(how)
			if _, err = caughtUp(t, d, ""); err == nil || !strings.Contains(err.Error(), to) || !strings.Contains(err.Error(), "set url") {
				t.Errorf("%s: %v", how, err)
			}
		}
	}
}

// A member that comes before others with blank nodes does not make these new.
func TestBlankNodesOfMembers(t *testing.T) {
	row := func(n, value int) string {
		return member(n, fmt.Sprintf("; ex:row [ ex:cell [ ex:x %d ] ; ex:y [ ] ], [ ex:x 2 ]", value))
	}
	p := &pages{text: map[string]string{"/s": row(1, 1) + row(2, 1)}}
	d := Definition{Kind: LDES, URL: p.serve(t).URL + "/s"}
	b, err := caughtUp(t, d, "")
	if err != nil {
		t.Fatal(err)
	}
	p.text["/s"] = row(3, 1) + row(1, 1) + row(2, 11)
	if b, err = caughtUp(t, d, b.Cursor); err != nil || strings.Join(texts(b), " ") != "m2 m3" {
		t.Errorf("%v, %v", texts(b), err)
	}
}

// Members that differ in a language or datatype only are different ones, and one that comes as often as never before is new.
func TestMembersThatAreAlike(t *testing.T) {
	named := func(label string) string {
		return "</s> tree:member </m1> . </m1> ex:of </e> ; ex:label " + label + " .\n"
	}
	version := func(values ...int) (text string) {
		for _, n := range values {
			text += fmt.Sprintf("</s> tree:member [ ex:of </e> ; ex:value %d ; ex:sub [ ex:x 1 ] ] .\n", n)
		}
		return text
	}
	twice := named(`"chat"`) + "</view> tree:member </m1> .\n"
	xsd := func(kind string) string { return "\"1\"^^<http://www.w3.org/2001/XMLSchema#" + kind + ">" }
	p := &pages{text: map[string]string{"/s": named(`"chat"@en`)}}
	d := Definition{Kind: LDES, URL: p.serve(t).URL + "/s"}
	b, err := caughtUp(t, d, "")
	for i, c := range []struct {
		text   string
		events int
	}{
		{named(`"chat"@fr`), 1}, {named(`"chat"@FR`), 0}, {named(`"chat"`), 1}, {named(`"chat"^^<http://www.w3.org/2001/XMLSchema#string>`), 0},
		{twice, 0}, {named(xsd("integer")), 1}, {named("1"), 0}, {named(xsd("decimal")), 1},
		{version(5), 1}, {version(5, 6), 1}, {version(5, 6, 5), 1}, {version(6, 5, 5), 0}, {version(5), 0}, {version(5, 5), 1},
	} {
		if err != nil {
			t.Fatal(err)
		}
		p.text["/s"] = c.text + strings.Repeat(" ", 300*(i+1)) // lengths are ETags
		if b, err = caughtUp(t, d, b.Cursor); len(b.Events) != c.events || b.Gap != "" {
			t.Errorf("%s: %d events, want %d, gap %q", c.text, len(b.Events), c.events, b.Gap)
		}
		if old := (sparql.Pattern{Subject: "<http://x/part>"}); c.events > 0 && reach(b, old) != Possible {
			t.Errorf("%s: what it had before is not removed", c.text)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// What an older version of Freshet knew of a page counts as long as the page is the same: by its text, or by its ETag. The
// members of a page that is another one are new.
func TestPagesReadByAnOlderVersion(t *testing.T) {
	texts := map[string]string{"/s": member(1, "") + "</s> tree:relation [ tree:node </full> ] .\n", "/b": member(2, "")}
	fulls := 0
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		text := texts[r.URL.Path]
		if r.URL.Path == "/b" && r.Header.Get("If-None-Match") != "" {
			t.Error("an old page is not asked for whole")
		}
		if r.URL.Path == "/full" {
			if fulls++; r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Cache-Control", "immutable")
			text = member(3, fmt.Sprintf("; ex:x [ ex:y 1 ] . # label %d", fulls))
		}
		w.Header().Set("Content-Type", "text/turtle")
		fmt.Fprint(w, "@prefix ldes: <https://w3id.org/ldes#> . @prefix tree: <https://w3id.org/tree#> . @prefix ex: <http://example.org/> . "+
			"</s> ldes:timestampPath ex:at ; tree:relation [ tree:node </b> ] .\n"+text)
	})
	d := Definition{Kind: LDES, URL: s.URL + "/s", Every: registry.Duration(time.Millisecond)}
	first, err := caughtUp(t, d, "")
	if err != nil || !strings.Contains(first.Cursor, `"whole":true`) {
		t.Fatal(first.Cursor, err)
	}
	old := strings.ReplaceAll(first.Cursor, `"whole":true`, `"part":false`)
	old = regexp.MustCompile(`"members":\[\d+\]`).ReplaceAllString(old, `"members":[7]`)
	b, err := caughtUp(t, d, old)
	if err != nil || len(b.Events) > 0 || b.Gap != "" || fulls != 2 {
		t.Errorf("the same pages: %v, gap %q, the full one was asked for %d times, %v", b.Events, b.Gap, fulls, err)
	}
	texts["/b"] += member(4, "")
	lost := sparql.Pattern{Subject: "<http://x/>"}
	if b, err = caughtUp(t, d, b.Cursor); err != nil || len(b.Events) != 1 || reach(b, lost) != None {
		t.Errorf("a new member: %+v, %v", b.Events, err)
	}
	b, err = caughtUp(t, d, old)
	if err != nil || len(b.Events) != 2 || b.Gap != "" || reach(b, lost) != Possible {
		t.Errorf("another page: %+v, gap %q, %v", b.Events, b.Gap, err)
	}
}

// The events of many pages are handed over together, and those before a page that fails, too.
func TestPagesTogether(t *testing.T) {
	p := &pages{gone: map[string]bool{}, text: map[string]string{"/s": ""}}
	for n := range 9 {
		p.text["/s"] += fmt.Sprintf("</s> tree:relation [ tree:node </p%d> ] .\n", n)
		p.text[fmt.Sprintf("/p%d", n)] = member(n, "")
	}
	source, err := feed.Open(Definition{Kind: LDES, URL: p.serve(t).URL + "/s", Since: begin.AddDate(-10, 0, 0)}, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end := errors.New("end")
	follow := func() (events []int, err error) {
		return events, source.Follow(t.Context(), "", func(b Batch) error {
			if events = append(events, len(b.Events)); len(b.Events) == 0 {
				return end
			}
			return nil
		})
	}
	if events, err := follow(); !errors.Is(err, end) || !slices.Equal(events, []int{9, 0}) {
		t.Errorf("batches of %d events, %v", events, err)
	}
	p.text["/p7"] = "<bad"
	if events, err := follow(); err == nil || !strings.Contains(err.Error(), "/p7") || !slices.Equal(events, []int{7}) {
		t.Errorf("batches of %d events, %v", events, err)
	}
}

// A stream says how often its pages are asked for, unless the definition does, and pages are asked for in turn.
func TestPollingInterval(t *testing.T) {
	var at []time.Time
	relations := ""
	for n := range 5 {
		relations += fmt.Sprintf("<s> tree:relation [ tree:node <p%d> ] .\n", n)
	}
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		at = append(at, time.Now())
		w.Header().Set("Content-Type", "text/turtle")
		if r.URL.Path == "/s" {
			fmt.Fprint(w, "@prefix ldes: <https://w3id.org/ldes#> . @prefix tree: <https://w3id.org/tree#> . <s> ldes:timestampPath "+
				"<at> ; ldes:pollingInterval 900 .\n"+relations)
		}
	})
	b, err := caughtUp(t, Definition{Kind: LDES, URL: s.URL + "/s"}, "")
	if err != nil || len(at) != 6 || at[5].Sub(at[0]) < 90*time.Millisecond {
		t.Errorf("%d requests, %v", len(at), err)
	}
	if !strings.Contains(b.Cursor, `"every":240`) {
		t.Errorf("the cursor is %s", b.Cursor)
	}
	// A feed that may be silent for less than that is asked more often, so that it is believed in between.
	var f proof.Feed
	began := time.Now()
	takeAll(t, Definition{Kind: LDES, URL: s.URL + "/s", Silence: registry.Duration(time.Second)}, &f, 3)
	if time.Since(began) > 5*time.Second {
		t.Error("it is asked every 240 seconds")
	}
}
