package atom_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/atom"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

const base = "http://fresh.example:8080"

// A feed holds the elements that RFC 4287 requires of a document, read strictly.
type feed struct {
	XMLName xml.Name  `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string    `xml:"http://www.w3.org/2005/Atom id"`
	Title   string    `xml:"http://www.w3.org/2005/Atom title"`
	Updated time.Time `xml:"http://www.w3.org/2005/Atom updated"`
	Author  string    `xml:"http://www.w3.org/2005/Atom author>name"`
	Archive *struct{} `xml:"http://purl.org/syndication/history/1.0 archive"`
	Links   []struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	} `xml:"http://www.w3.org/2005/Atom link"`
	Entries []struct {
		ID      string    `xml:"http://www.w3.org/2005/Atom id"`
		Title   string    `xml:"http://www.w3.org/2005/Atom title"`
		Updated time.Time `xml:"http://www.w3.org/2005/Atom updated"`
		Summary string    `xml:"http://www.w3.org/2005/Atom summary"`
		HTML    string    `xml:"http://www.w3.org/2005/Atom content"`
		Content string    `xml:"urn:freshet:atom change"`
		Links   []struct {
			Type string `xml:"type,attr"`
			Href string `xml:"href,attr"`
		} `xml:"http://www.w3.org/2005/Atom link"`
	} `xml:"http://www.w3.org/2005/Atom entry"`
}

var tagURI = regexp.MustCompile(`^tag:[a-z0-9.-]+,\d{4}:[A-Za-z0-9._~!$&'()*+,;=:@/?%-]+$`)

func parse(t *testing.T, d atom.Document) feed {
	t.Helper()
	var f feed
	if err := xml.Unmarshal(d.Body, &f); err != nil {
		t.Fatalf("%v\n%s", err, d.Body)
	}
	self := 0
	for _, l := range f.Links {
		if l.Rel == "self" {
			self++
			if l.Href != base+d.Self {
				t.Errorf("self is %s, want %s", l.Href, base+d.Self)
			}
		}
	}
	if self != 1 || (f.link("hub") == base+"/v1/hub") != d.Topic || f.link("hub") != "" && !d.Topic || !tagURI.MatchString(f.ID) ||
		f.Title == "" || f.Author == "" || f.Updated.IsZero() {
		t.Errorf("not a valid feed: %+v", f)
	}
	seen := map[string]bool{}
	for _, e := range f.Entries {
		if seen[e.ID] || !tagURI.MatchString(e.ID) || e.Title == "" || e.Updated.IsZero() || !json.Valid([]byte(e.Content)) {
			t.Errorf("not a valid entry: %+v", e)
		}
		seen[e.ID] = true
	}
	return f
}

func (f *feed) link(rel string) string {
	for _, l := range f.Links {
		if l.Rel == rel {
			return l.Href
		}
	}
	return ""
}

// seqs returns the positions in the contents of a feed's entries.
func (f *feed) seqs(t *testing.T) (seqs []uint64) {
	t.Helper()
	for _, e := range f.Entries {
		var c struct{ Seq uint64 }
		if err := json.Unmarshal([]byte(e.Content), &c); err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, c.Seq)
	}
	return seqs
}

func rows(values ...string) *diff.Result {
	b := diff.NewBuilder(diff.Select, diff.Options{})
	_ = b.SetVars([]string{"s"})
	for _, v := range values {
		if err := b.Row(diff.Term{Kind: diff.Literal, Value: v}); err != nil {
			panic(err)
		}
	}
	r, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return r
}

func setUp() (*notifytest.Log, *atom.Source) {
	log := notifytest.NewLog("store")
	return log, &atom.Source{Log: log, Head: log.Head, PublicURL: base,
		Title: func(q string) string { return q }, Named: func() string { return base },
		Tagged: func(query, tag string) bool { return strings.Contains(tag, query) }}
}

func record(log *notifytest.Log, id string, n int, values ...string) {
	log.Record(id, rows(values...), time.Unix(1_790_000_000+int64(n), 500))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A reader that follows prev-archive to its end gets every change once, and the bytes of an
// archive do not change.
func TestArchives(t *testing.T) {
	log, s := setUp()
	id := log.Add("q", diff.Select, false)
	q := must(log.Resolve(registry.Caller{}, "q"))
	q.CreatedAt = time.Unix(1_780_000_000, 0)
	kept := map[string]string{}
	for n := range 231 {
		if n > 0 {
			record(log, id, n, fmt.Sprint(n))
		}
		if n%23 != 0 && n != 50 && n != 100 {
			continue
		}
		d := must(s.Query(&q, nil, nil, nil))
		if again := must(s.Query(&q, nil, nil, nil)); string(again.Body) != string(d.Body) || again.ETag != d.ETag {
			t.Errorf("at %d: the same feed has other bytes", n)
		}
		f := parse(t, d)
		next := uint64(n)
		for {
			for _, seq := range f.seqs(t) {
				if seq > next+50 || seq < next && n > 0 {
					t.Fatalf("at %d: entry %d follows %d", n, seq, next)
				}
				next = min(next, seq) - 1
			}
			at := f.link("prev-archive")
			if at == "" {
				break
			}
			u := must(url.Parse(at))
			d = must(s.Query(&q, nil, nil, u.Query()))
			if was, there := kept[at]; there && was != string(d.Body) {
				t.Errorf("at %d: the archive %s has changed", n, at)
			}
			kept[at] = string(d.Body)
			if f = parse(t, d); f.Archive == nil || f.link("current") != base+"/v1/queries/"+id+"/changes.atom" || len(f.Entries) != 50 {
				t.Errorf("%s is no archive: %+v", at, f.Links)
			}
		}
		if next != 0 {
			t.Errorf("at %d: the entries end before %d", n, next)
		}
	}
	if len(kept) != 3 {
		t.Errorf("%d archives, want 3 of 50 entries", len(kept))
	}
}

func TestTrimmedAndRenumbered(t *testing.T) {
	log, s := setUp()
	id := log.Add("q", diff.Select, false)
	q := must(log.Resolve(registry.Caller{}, "q"))
	for n := range 120 {
		record(log, id, n, fmt.Sprint(n))
	}
	archive := must(url.Parse(parseLink(t, must(s.Query(&q, nil, nil, nil))))).Query()
	log.Trim(id, 7)
	f := parse(t, must(s.Query(&q, nil, nil, nil)))
	if got := f.seqs(t); len(got) != 7 || got[0] != 120 || f.link("prev-archive") != "" {
		t.Errorf("after trimming: %v %v", got, f.Links)
	}
	gap(t, s, &q, archive, registry.TooOld)
	log.Renumber(id, "new")
	gap(t, s, &q, archive, registry.OtherEpoch)
	gap(t, s, &q, url.Values{"archive": {"new:10000"}}, registry.Ahead)
	for _, bad := range []string{"x", "new:0", "new:7"} {
		var p *registry.Problem
		if _, err := s.Query(&q, nil, nil, url.Values{"archive": {bad}}); !errors.As(err, &p) || p.Kind != registry.KindBadPosition {
			t.Errorf("archive=%s: %v", bad, err)
		}
	}
}

func parseLink(t *testing.T, d atom.Document) string {
	f := parse(t, d)
	return f.link("prev-archive")
}

func gap(t *testing.T, s *atom.Source, q *registry.Query, archive url.Values, reason string) {
	t.Helper()
	var g *registry.GapError
	if _, err := s.Query(q, nil, nil, archive); !errors.As(err, &g) || g.Reason != reason {
		t.Errorf("%v: %v, want a gap: %s", archive, err, reason)
	}
}

// The feed of a tag has only the changes of its queries, with the same ids as in other
// feeds. Characters that XML does not allow are preserved.
func TestAll(t *testing.T) {
	log, s := setUp()
	a, b := log.Add("a", diff.Select, false), log.Add("b", diff.Select, false)
	strange := "<&>\"' \t\uFFFE\uFFFF]]>"
	for n := range 40 {
		record(log, a, n, fmt.Sprint(n))
		record(log, b, n, fmt.Sprint(n), strange)
	}
	record(log, b, 99, strings.Repeat("x", 40<<10))
	tag := "only " + b + " & more"
	f := parse(t, must(s.All(url.Values{"tag": {tag}, "endpoint": {"test"}})))
	if len(f.Entries) != 41 || !strings.Contains(f.Entries[0].Content, `"truncated":true`) || strings.Contains(fmt.Sprint(f.Entries), a) {
		t.Errorf("%d entries of the tag, %.300s", len(f.Entries), f.Entries[0].Content)
	}
	var c struct {
		Added struct {
			Results struct {
				Bindings []map[string]struct{ Value string }
			}
		}
	}
	last := f.Entries[len(f.Entries)-1]
	if err := json.Unmarshal([]byte(last.Content), &c); err != nil || !strings.Contains(fmt.Sprint(c), strange) {
		t.Errorf("%q does not come through: %v %+v", strange, err, c)
	}
	q := must(log.Resolve(registry.Caller{}, "b"))
	own := parse(t, must(s.Query(&q, nil, nil, nil)))
	if own.Entries[0].ID != f.Entries[0].ID {
		t.Errorf("one change has two ids: %s and %s", own.Entries[0].ID, f.Entries[0].ID)
	}
	if none := parse(t, must(s.All(url.Values{"tag": {"missing"}}))); len(none.Entries) != 0 {
		t.Errorf("an unused tag: %v", none.Entries)
	}
}

// A filtered feed has its own URL and the entries that pass, each compared on its own. An
// entry with a part of a change has another id.
func TestFiltered(t *testing.T) {
	log, s := setUp()
	id := log.Add("q", diff.Select, false)
	q := must(log.Resolve(registry.Caller{}, "q"))
	for n, values := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c", "d", "e"}, {"b", "c", "d", "e"}, {}} {
		record(log, id, n, values...)
	}
	plain := parse(t, must(s.Query(&q, nil, nil, nil)))
	ids := map[string]bool{}
	for _, e := range plain.Entries {
		ids[e.ID] = true
	}
	for _, c := range []struct {
		params string
		want   []uint64
		whole  bool
	}{
		{"min_rows=3", []uint64{5, 3, 1}, true}, // a first result always passes
		{"min_jaccard=0.9", []uint64{5, 1}, true},
		{"where=s:=:a", []uint64{4, 1}, false},
		{"vars=s&min_rows=4", []uint64{5, 1}, false},
	} {
		params := must(url.ParseQuery(c.params))
		d := must(s.Query(&q, nil, nil, params))
		f := parse(t, d)
		if got := f.seqs(t); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: entries %v, want %v", c.params, got, c.want)
		}
		self := must(url.Parse(f.link("self")))
		if again := must(s.Query(&q, nil, nil, self.Query())); string(again.Body) != string(d.Body) || d.Topic || f.link("hub") != "" {
			t.Errorf("%s: self %s leads elsewhere, or it is a topic: %v", c.params, self, f.Links)
		}
		for _, e := range f.Entries {
			if ids[e.ID] != c.whole || strings.Contains(e.Content, `"filtered":true`) == c.whole {
				t.Errorf("%s: %s %s", c.params, e.ID, e.Content)
			}
		}
		all := parse(t, must(s.All(params)))
		if got := all.seqs(t); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s of all: entries %v, want %v", c.params, got, c.want)
		}
	}
	if all := parse(t, must(s.All(nil))); plain.link("hub") == "" || all.link("hub") != "" {
		t.Error("the feed of a query is a topic, that of all is not")
	}
	ask := must(log.Resolve(registry.Caller{}, log.Add("ask", diff.Ask, false)))
	for _, bad := range []string{"rate=5s", "min_rows=x", "where=x"} {
		var p *registry.Problem
		if _, err := s.Query(&q, nil, nil, must(url.ParseQuery(bad))); !errors.As(err, &p) || p.Kind != registry.KindMalformed {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := s.Query(&ask, nil, nil, url.Values{"vars": {"s"}}); err == nil {
		t.Error("variables of an ASK query")
	}
}

// A feed is readable for people: titles and contents in words, HTML that data cannot break, and a link
// to the page of the change.
func TestFeedForPeople(t *testing.T) {
	log, s := setUp()
	s.Title = func(string) string { return "Free spaces" }
	id := log.Add("q", diff.Select, false)
	record(log, id, 0, "a")
	log.Explain(registry.DataEdit{Text: "revision 2145 of <Q42>", Link: "https://x.example/2145"}, registry.DataEdit{Text: "patch\x1b 7"})
	record(log, id, 1, "a", `<script>alert("x")</script> & more`)
	q := must(log.Resolve(registry.Caller{}, "q"))
	f, all := parse(t, must(s.Query(&q, nil, nil, nil))), parse(t, must(s.All(nil)))
	if f.Title != "Changes of Free spaces" || f.Entries[1].Title != "first result: 1 row" ||
		f.Entries[0].Title != `+ <script>alert("x")</script> & more` ||
		f.Entries[0].Summary != "1 row added" || all.Entries[1].Title != "Free spaces: first result: 1 row" {
		t.Errorf("%s: %q, %q, %q", f.Title, f.Entries[0].Title, f.Entries[1].Title, all.Entries[1].Title)
	}
	page := base + "/queries/" + id + "/changes/2"
	if h := f.Entries[0].HTML; !strings.Contains(h, "<li>&#43; &lt;script&gt;") || strings.Contains(h, "<script") ||
		!strings.Contains(h, `<a href="`+page+`">`) || !strings.Contains(h,
		`<p>possibly by <a href="https://x.example/2145">revision 2145 of &lt;Q42&gt;</a>, patch 7</p>`) {
		t.Errorf("the content is %s", h)
	}
	if l := f.Entries[0].Links; len(l) != 2 || l[0].Type != "text/html" || l[0].Href != page || l[1].Type != "application/json" {
		t.Errorf("links %v", l)
	}
	w := &watch.Watch{Kind: watch.Instances, IRI: "http://x.example/Dock"}
	d := must(s.Query(&q, w, func(string) string { return "dock" }, nil))
	if f := parse(t, d); !strings.Contains(f.Entries[0].HTML, `<p>possibly by <a href="https://x.example/2145">revision 2145`) ||
		f.Title != "Changes of the instances of dock" || d.Topic || d.Self != "/v1/watches/"+id+"/changes.atom" ||
		len(f.Entries) != 2 {
		t.Errorf("the feed of the watch: %+v", f)
	}
}
