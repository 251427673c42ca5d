package ui

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// history registers a query and gives it one version of its result per slot.
func (r *rig) history(name string, versions ...*diff.Result) registry.Query {
	r.t.Helper()
	r.endpoint("city")
	q := r.register("city", name, "PREFIX ex: <http://example.org/>\n# all of it\n"+selectText, "air")
	for _, v := range versions {
		r.oracle.set(q.ID, v)
		r.tick("city")
	}
	return q
}

func (r *rig) numbers(n ...int) *diff.Result {
	rows := make([][2]diff.Term, len(n))
	for i, x := range n {
		rows[i] = [2]diff.Term{iri(fmt.Sprintf("s%d", x)), {Kind: diff.Literal, Value: fmt.Sprint(x), Datatype: xsd + "integer"}}
	}
	return table(r.t, rows...)
}

func TestQueryPage(t *testing.T) {
	r := newRig(t)
	q := r.history("all numbers", r.numbers(1, 2), r.numbers(1, 2, 3), r.numbers(3, 4))
	a := r.get(queryPath(q.ID)).status(200).has("<h1>all numbers</h1>", ">live<", "Changed ", "2 rows, unordered", `aria-current="page"`,
		"+ 1 row added", "− 2 rows removed", "of 3 rows", "first result, 2 rows", "Jaccard distance 0.75", "ex:s4",
		`<td class="num"><span class="term "`,
		`<span class="k">PREFIX</span>`, `<span class="v">?s</span>`, `<span class="c"># all of it</span>`,
		"&lt;http://example.org/p&gt;", "It is 1st of 1 in the order of rr", "3 to 1 of 3", "Ran in 3 slots, changed in 2, did not run in 0.",
		`href="/v1/queries/`+q.ID+`/results.csv"`, `href="/metrics/results?query=`+q.ID+`"`, "Holders", ">ops<")
	if got := strings.Count(a.body, `%" cy="`); got != 3 {
		t.Errorf("%d marks for three changes", got)
	}
	// The query's name leads to the same page.
	r.get("/queries/all%20numbers").status(200).has("<h1>all numbers</h1>")
	for _, l := range regexp.MustCompile(`href="(/[^"#]*)`).FindAllStringSubmatch(a.body, -1) {
		r.get(html.UnescapeString(l[1])).status(200)
	}
}

// Any version can be shown, and any two can be compared in either order.
func TestVersions(t *testing.T) {
	r := newRig(t)
	q := r.history("n", r.numbers(1, 2), r.numbers(1, 2, 3), r.numbers(3, 4), r.numbers(1, 2, 3), r.numbers())
	at := queryPath(q.ID)
	result := func(a *response) string {
		_, s, _ := strings.Cut(a.body, `id="compare"`)
		s, _, _ = strings.Cut(s, "</section>")
		return s
	}
	terms := regexp.MustCompile(`>ex:s(\d)<`)
	for b, want := range map[int]string{1: "12", 2: "123", 3: "34", 4: "123"} {
		got := ""
		for _, m := range terms.FindAllStringSubmatch(result(r.get(fmt.Sprintf("%s?b=%d", at, b))), -1) {
			got += m[1]
		}
		if got != want {
			t.Errorf("version %d: %s, want %s", b, got, want)
		}
	}
	r.get(at).has("The result is empty")
	for _, c := range []struct{ a, b, added, removed string }{{"1", "3", "+ 2 rows only in 3", "− 2 rows only in 1"},
		{"3", "1", "+ 2 rows only in 1", "− 2 rows only in 3"}, {"1", "5", "+ 0 rows only in 5", "− 2 rows only in 1"}} {
		if s := result(r.get(at + "?b=" + c.b + "&a=" + c.a)); !strings.Contains(s, c.added) || !strings.Contains(s, c.removed) {
			t.Errorf("%s against %s: %s", c.b, c.a, s)
		}
	}
	r.get(at + "?b=4&a=2").has("Versions 2 and 4 are the same.")
	r.get(at + "?b=99&a=nonsense").status(200)
}

func TestChangePage(t *testing.T) {
	r := newRig(t)
	many := make([]int, 120)
	for i := range many {
		many[i] = i
	}
	q := r.history("n", r.numbers(), r.numbers(many...))
	at := queryPath(q.ID)
	r.get(at).has("+ 120 rows added", "and 115 more", `href="`+at+`/changes/2"`)
	r.get(at+"/changes/2").status(200).has("Change 2", `<h2 id="h-rows">`, "1 to 50 of 120", `rel="next"`)
	r.get(at+"/changes/2?row=101").has("101 to 120 of 120", `rel="prev"`).lacks(`rel="next"`)
	r.get(at+"/changes/3").status(404).has("There is no such change", "number 2")
	r.get(at + "/changes/x").status(404)
	r.get("/queries/q_missing").status(404).has("There is no query q_missing", "It may have ended", "Search the queries")
}

func TestOtherForms(t *testing.T) {
	r := newRig(t)
	r.endpoint("city")
	ask := r.register("city", "is it?", "ASK { ?s ?p ?o }")
	graph := r.register("city", "graph", "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }")
	yes := diff.NewBuilder(diff.Ask, diff.Options{})
	yes.SetBoolean(false)
	no, _ := yes.Finish()
	r.tick("city")
	r.oracle.set(ask.ID, no)
	b := diff.NewBuilder(diff.Construct, diff.Options{})
	b.Triple(iri("a"), iri("p"), diff.Term{Kind: diff.Literal, Value: "سلام", Lang: "ar"})
	g, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r.oracle.set(graph.ID, g)
	r.tick("city")
	r.get(queryPath(ask.ID)).has(`<p class="pad say"><b>false</b></p>`, "was true")
	r.get(queryPath(ask.ID) + "?b=1").has(`<p class="pad say"><b>true</b></p>`)
	r.get(queryPath(ask.ID) + "?b=2&a=1").has("false, was true")
	r.get(queryPath(graph.ID)).has("subject", "سلام", "@ar", "1 triple", "results.ttl")
}

// Untrusted text is escaped wherever it occurs and however long it is.
func TestHostileTerms(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("<i>ä", 300_000)
	evil := `"><script>alert(1)</script><svg onload=x>`
	q := r.history("n", table(t,
		[2]diff.Term{{Kind: diff.IRI, Value: "javascript:alert(1)"}, lit(evil)},
		[2]diff.Term{{Kind: diff.IRI, Value: "http://example.org/" + evil}, {Kind: diff.Literal, Value: "\u202eright to left\u2066", Lang: "he"}},
		[2]diff.Term{{Kind: diff.Blank, Value: "b0"}, lit(long)},
		[2]diff.Term{iri("t"), {Kind: diff.Literal, Value: evil, Datatype: "http://example.org/" + evil}}), r.numbers(1))
	for _, path := range []string{queryPath(q.ID) + "?b=1", queryPath(q.ID) + "/changes/1", queryPath(q.ID) + "/changes/2",
		queryPath(q.ID) + "?b=2&a=1"} {
		a := r.get(path).status(200).lacks("<script>alert", "<svg onload", `href="javascript:`, "<i>ä").has("&lt;script&gt;", "all 1.4",
			"right to left")
		if len(a.body) > 200_000 {
			t.Errorf("%s has %d bytes", path, len(a.body))
		}
		whole := regexp.MustCompile(`href="([^"]*)">all 1.4`).FindStringSubmatch(a.body)
		if whole == nil {
			t.Fatalf("%s: no way to see all", path)
		}
		text := r.get(html.UnescapeString(whole[1])).status(200)
		if text.body != long || !strings.HasPrefix(text.Header.Get("Content-Type"), "text/plain") ||
			text.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d bytes of %s", whole[1], len(text.body), text.Header.Get("Content-Type"))
		}
	}
	r.get(queryPath(q.ID) + "/result?b=1&row=99&col=0").status(404)
	r.get(queryPath(q.ID) + "/result?b=77&row=0&col=0").status(410)
}

func TestLongText(t *testing.T) {
	r := newRig(t)
	r.endpoint("city")
	text := "SELECT * { ?s ?p ?o } # " + strings.Repeat("<b>x</b> ", 20_000)
	q := r.register("city", "", text)
	a := r.get(queryPath(q.ID)).status(200).has("The text is long", "<h1>"+q.ID+"</h1>", "There is no result yet.",
		"Nothing has run yet").lacks("<b>x")
	if len(a.body) > 300_000 {
		t.Errorf("%d bytes", len(a.body))
	}
	if got := r.get(queryPath(q.ID) + "/text").status(200).body; got != text {
		t.Errorf("%d bytes of %d", len(got), len(text))
	}
}

// The lists of changes say in words what changed, on the overview and on the page of the query.
func TestChangesInWords(t *testing.T) {
	r := newRig(t)
	q := r.history("n", r.numbers(1), r.numbers(1, 2))
	for _, page := range []string{"/", queryPath(q.ID)} {
		r.get(page).has(`<span class="words">&#43; s2, 2</span>`)
	}
}

// The pages of a change name the edits of the data that may have caused it.
func TestEditsOfAChange(t *testing.T) {
	r := newRig(t)
	was, now := r.numbers(1), r.numbers(1, 2)
	q := r.history("n", was)
	s, err := r.store.Catalog.Stats(q.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.Hash, s.Rows, s.Changes = now.Hash(), now.Len(), s.Changes+1
	_, err = r.store.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{{Query: q.ID, Stats: s, Result: now,
		Delta: diff.Compare(was, now), Edits: []registry.DataEdit{{Text: "revision 2145 of Q42", Link: "https://x.example/2145"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{queryPath(q.ID), queryPath(q.ID) + "/changes/2"} {
		r.get(page).status(200).has(`possibly by <a href="https://x.example/2145">revision 2145 of Q42</a>`)
	}
	r.get(queryPath(q.ID) + "/changes/1").status(200).lacks("possibly by")
}

// A stale result is shown, and the page says why it is stale and since when.
func TestStaleQuery(t *testing.T) {
	r := newRig(t)
	q := r.history("n", r.numbers(1))
	r.oracle.fail("504 <em>Gateway</em> Timeout")
	r.tick("city")
	r.tick("city")
	r.get(queryPath(q.ID)).status(200).has(">stale<", "Stale: the result is of <time data-fixed", "504 &lt;em&gt;Gateway",
		"The last result is served as stale.", "ex:s1", "the last run failed")
	r.get("/queries").has(">stale<", "1 is stale.")
	r.get("/").has("No result is fresh.")
}

func TestActOnQuery(t *testing.T) {
	r := newRig(t)
	q := r.history("n", r.numbers(1))
	at := queryPath(q.ID)
	r.follow(r.post(at, "do", "pause")).has("The query is paused.", "Paused by anonymous", `value="resume"`).lacks(`value="pause"`)
	r.follow(r.post(at, "do", "resume")).has("The query is resumed.", `value="pause"`)
	r.follow(r.post(at, "do", "refresh")).has("The query runs in the next slot.")
	if got := mustQuery(t, r, q.ID).Refreshes; got != 1 {
		t.Errorf("%d refreshes are asked for", got)
	}
	r.post(at, "do", "drop").status(400)
	r.post("/queries/q_gone", "do", "pause").status(404)
	// The query is held by ops: an admin may end it, but has no registration to release or edit.
	r.get(at).lacks(">Edit query<")
	r.get(at + "/settings").status(403).has("You do not hold this query")
	r.get(at+"/release").has("You do not hold it.", "the log of 1 change", "End it for everybody").lacks(">Release and end it<")
	r.post(at + "/release").status(403)
	r.follow(r.post(at+"/release", "everybody", "1")).has("n has ended.")
	r.get(at).status(404)
}

func TestSettingsOfOnesOwn(t *testing.T) {
	ops, secret := token("ops", registry.RoleApp)
	r := newRig(t, ops)
	q := r.history("n", r.numbers(1))
	at := queryPath(q.ID)
	r.post("/signin", "token", secret, "next", "/").status(303)
	r.get(at+"/settings").status(200).has(`value="n"`, `value="air"`, `value="1"`)
	bad := r.post(at+"/settings", "name", `"><x>`, "tags", "a, b", "weight", "much", "max_staleness", "soon", "min_interval", "")
	bad.status(422).has("Write a number such as 0.5.", "Write a duration such as", `aria-invalid="true"`, `value="a, b"`, "&#34;&gt;&lt;x&gt;")
	r.post(at+"/settings", "name", "n", "weight", "-3", "max_staleness", "", "min_interval",
		"").status(422).has("Nothing was saved: one field needs a change.")
	r.follow(r.post(at+"/settings", "name", "better", "tags", " b ,a,, b", "weight", "2.5", "max_staleness", "1m 30s",
		"min_interval", "10s", "alone", "1", "public", "1")).
		has("The settings are saved.", "<h1>better</h1>", ">max_staleness</dt><dd>1\u202fmin 30\u202fs",
			">min_interval</dt><dd>10\u202fs", "2.5", ">alone</dt>", "anyone may read")
	h, _ := mustQuery(t, r, q.ID).Holder("ops")
	if h.Name != "better" || strings.Join(h.Tags, ",") != "a,b" || h.Weight != 2.5 ||
		time.Duration(h.MaxStaleness) != 90*time.Second || !h.Public {
		t.Errorf("%+v", h)
	}
	r.get(at+"/release").has("It has no other holder, so it ends.", "Release and end it").lacks("End it for everybody")
	r.follow(r.post(at+"/release")).has("better has ended.", "No query is registered yet.")
}

func mustQuery(t *testing.T, r *rig, id string) *registry.Query {
	t.Helper()
	q, err := r.reg.Query(id)
	if err != nil {
		t.Fatal(err)
	}
	return &q
}

// Highlighting does not change the text.
func TestHighlightKeepsTheText(t *testing.T) {
	for _, s := range []string{"", selectText, "SELECT ?x { ?x a <http://e/> ; ex:p 'it\\'s' , \"\"\"a\"b\"\"\" . FILTER(?x < " +
		"3.5 && ?y > 2) } # <end>\nLIMIT 3",
		"<", "\"", "'''", "?", "ü?ä<b>", "# no end", "'open\nnext", "\x00\xff", "<a b>", "a:b:c", "\\"} {
		if got := html.UnescapeString(regexp.MustCompile(`</?span[^>]*>`).ReplaceAllString(string(highlight(s)),
			"")); got != strings.ReplaceAll(s, "\x00", "\uFFFD") {
			t.Errorf("%q became %q", s, got)
		}
	}
	got := string(highlight(`SELECT ?x { ?x a ex:T ; ex:n "a#b"@en } # c`))
	want := `<span class="k">SELECT</span> <span class="v">?x</span> { <span class="v">?x</span> <span class="k">a</span> ex:T ` +
		`; ex:n <span class="s">&#34;a#b&#34;</span>@en } <span class="c"># c</span>`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A text that only looks like the start of an IRI is scanned once: each "<" ends the
// scan that began at the previous one.
func TestHighlightEndsAtTheNextBracket(t *testing.T) {
	if got, want := string(highlight("1<2&&1<ex:3>")), `<span class="s">1</span>&lt;<span class="s">2</span>&amp;&amp;<span `+
		`class="s">1</span><span class="i">&lt;ex:3&gt;</span>`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzHighlight(f *testing.F) {
	f.Add(selectText)
	f.Add("'''\"<>#?$\\ \n")
	f.Fuzz(func(t *testing.T, s string) {
		out := regexp.MustCompile(`</?span[^>]*>`).ReplaceAllString(string(highlight(s)), "")
		if strings.ContainsAny(out, "<>\"'") {
			t.Fatalf("%q is not escaped: %q", s, out)
		}
	})
}

// An open page receives a change, a failure and the next slot as the same fragments from which the
// page is built.
func TestStreams(t *testing.T) {
	r := newRig(t)
	q := r.history("<b>n</b>", r.numbers(1))
	at := regexp.MustCompile(`data-at="([^"]*)"`).FindStringSubmatch(r.get("/").body)[1]
	overview, one := r.stream("/ui/events?at="+at), r.stream("/ui/events"+queryPath(q.ID))
	r.oracle.set(q.ID, r.numbers(1, 2))
	r.tick("city")
	overview.until("add", func(e event) bool {
		return e.List == "stream" && strings.Contains(e.HTML, "&lt;b&gt;n&lt;/b&gt;") && strings.Contains(e.HTML, "of 2 rows") &&
			e.Max == shownChanges
	})
	one.until("swap", func(e event) bool { return e.ID == "changes" && strings.Contains(e.HTML, "1 row added") })
	one.until("swap", func(e event) bool { return e.ID == "compare" && strings.Contains(e.HTML, "ex:s2") })
	r.oracle.fail("gone")
	r.tick("city")
	overview.until("swap", func(e event) bool { return e.ID == "ep-city" && strings.Contains(e.HTML, "failing") })
	overview.until("say", func(e event) bool { return e.Text == "city does not answer" })
	if err := r.reg.Release(admin, q.ID, true); err != nil {
		t.Fatal(err)
	}
	r.hub.Wake(q.ID)
	one.until("end", func(event) bool { return true })
}

// A stream that was interrupted resumes at its position: nothing is lost or repeated.
func TestStreamGoesOn(t *testing.T) {
	r := newRig(t)
	q := r.history("n", r.numbers(1))
	head, _ := r.store.History.Head()
	for i := range 3 {
		r.oracle.set(q.ID, r.numbers(1, 10+i))
		r.tick("city")
	}
	s := r.stream("/ui/events?at="+head.Epoch+":0", "Last-Event-ID: "+head.String())
	n := 0
	for n < 3 {
		s.until("add", func(event) bool { n++; return true })
	}
	newest, _ := r.store.History.Head()
	s.until("id", func(e event) bool { return e.Text == newest.String() })
	if s.seen["add"] != 3 {
		t.Errorf("%d entries for three changes", s.seen["add"])
	}
}

func TestStreamsAreBounded(t *testing.T) {
	r := newRig(t)
	for range mostStreams {
		if _, ok := r.pages.streams.Take(registry.Anonymous); !ok {
			t.Fatal("there is no place")
		}
	}
	r.get("/ui/events").status(429)
}

// A listener reads a live stream.
type listener struct {
	t    *testing.T
	body io.Closer
	in   *bufio.Scanner
	seen map[string]int
}

func (r *rig) stream(path string, headers ...string) *listener {
	r.t.Helper()
	req, err := http.NewRequest("GET", r.server.URL+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := r.browser.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		r.t.Fatalf("%s: %s %v", path, res.Status, res.Header)
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 4<<20)
	return &listener{r.t, res.Body, in, map[string]int{}}
}

// until reads up to an event of a type for which f returns true.
func (l *listener) until(typ string, f func(event) bool) {
	l.t.Helper()
	over := time.AfterFunc(2*time.Minute, func() { l.body.Close() })
	defer over.Stop()
	name := ""
	for l.in.Scan() {
		line := l.in.Text()
		if s, ok := strings.CutPrefix(line, "event: "); ok {
			name = s
		} else if s, ok := strings.CutPrefix(line, "id: "); ok {
			if typ == "id" && f(event{Text: s}) {
				return
			}
		} else if s, ok := strings.CutPrefix(line, "data: "); ok {
			var e event
			if err := json.Unmarshal([]byte(s), &e); err != nil {
				l.t.Fatalf("%s: %v", line, err)
			}
			l.seen[name]++
			if name == typ && f(e) {
				return
			}
		}
	}
	l.t.Fatalf("the stream ended before %s: %v", typ, l.in.Err())
}

// The page of a query can edit its text: another query replaces it.
func TestEditText(t *testing.T) {
	r := newRig(t)
	q := r.history("n", r.numbers(1))
	at := queryPath(q.ID) + "/settings"
	reg, _, err := r.reg.Register(registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin},
		registry.Registration{Endpoint: q.Endpoint, Text: q.Text, Name: "mine"})
	if err != nil || reg.ID != q.ID {
		t.Fatal(err)
	}
	r.get(queryPath(q.ID)).has("Edit query")
	fields := r.get(at).has("Edit query", "makes a new query with its own history").fields()
	r.post(at, with(fields, "query", "SELECT ?s {")...).status(400)
	r.follow(r.post(at, with(fields, "query", "SELECT ?edited { ?edited ?p ?o }")...)).has("The edited query is registered.", "edited")
	next, err := r.reg.Resolve(registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin}, "mine")
	if err != nil || next.ID == q.ID || next.Text != "SELECT ?edited { ?edited ?p ?o }" {
		t.Errorf("%+v, %v", next, err)
	}
	if _, holds := mustQuery(t, r, q.ID).Holder(registry.Anonymous); holds {
		t.Error("the query before is still held")
	}
}

// manyFollowers lists more followers than a page looks at: first those of another query, then one of the query.
type manyFollowers struct {
	followers
	of *string
}

func (m manyFollowers) Subscriptions(after string, limit int) (list []registry.Subscription, err error) {
	n, _ := strconv.Atoi(after)
	for i := n + 1; i <= min(n+limit, followersSeen+1); i++ {
		s := registry.Subscription{ID: fmt.Sprintf("%05d", i), Way: registry.Webhook, Caller: "x", Query: "q_other", State: registry.Active}
		if i > followersSeen || *m.of != "" && i <= 2 {
			s.Query = cmp.Or(*m.of, s.Query)
		}
		list = append(list, s)
	}
	return list, nil
}

// A page that has not looked at all followers of the server does not say that it has.
func TestFollowersAreCountedInPart(t *testing.T) {
	of := ""
	r := newRigWith(t, func(r *rig, c *Config) { c.Subscriptions = manyFollowers{followers{r.store.Subscriptions}, &of} })
	r.endpoint("city")
	q := r.register("city", "s", selectText)
	r.get(queryPath(q.ID)).status(200).has("at least 0", "than it looks at").lacks("It has no live followers")
	of = q.ID
	r.get(queryPath(q.ID)).status(200).has("at least 2").lacks("It has no live followers", "than it looks at")
}
