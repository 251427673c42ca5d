package ui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// A visitor pastes an address, sees what is covered, watches it, and reads its changes in
// words.
func TestWatchPages(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	r.endpoint("wikidata")
	fact := func(property, value string) *diff.Result {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		if err := b.SetVars([]string{"property", "value"}); err != nil {
			t.Fatal(err)
		}
		if err := b.Row(diff.Term{Kind: diff.IRI, Value: "http://x.example/" + property}, diff.Term{Kind: diff.Literal,
			Value: value}); err != nil {
			t.Fatal(err)
		}
		x, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const text = `SELECT ?property ?value WHERE { <http://www.wikidata.org/entity/Q42> ?property ?value ` +
		`FILTER(STRSTARTS(STR(?property), "http://www.wikidata.org/prop/direct/")) }`
	q, err := r.reg.Analyse(registry.Registration{Endpoint: "wikidata", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	r.oracle.set(q.ID, fact("birthPlace", "Ulm"))
	r.get("/queries").has(`href="/watch"`)
	r.get("/watch?iri=Q42").status(200).has(`>Q42</textarea>`, "Watch a link")
	page := []string{"link", "https://www.wikidata.org/wiki/Q42", "labels", "de, en", "name", "adams"}
	r.post("/watch", append(page, "do", "look")...).status(200).has("all properties of Q42", "at wikidata", "1 row now",
		"birthPlace: Ulm", "Nothing is saved yet.", "STRSTARTS", `value="adams"`)
	if _, err := r.reg.Query(q.ID); err == nil {
		t.Fatal("looking registers the watch")
	}
	r.follow(r.post("/watch", page...)).status(200).has("It is watched.", "Changes of all properties of Q42", "Nothing yet.")
	r.tick("wikidata")
	r.oracle.set(q.ID, fact("birthPlace", "Neu-Ulm"))
	r.tick("wikidata")
	r.get("/watches/adams").status(200).has("birthPlace: Ulm → Neu-Ulm", "first result: 1 row", queryPath(q.ID)+"/changes/2")
	r.get(queryPath(q.ID)).status(200).has(`href="/watches/` + q.ID)
	for _, city := range []string{"Berlin", "Bern", "Princeton"} { // more than a page of the log holds
		r.oracle.set(q.ID, fact("birthPlace", city+strings.Repeat(" x", 1<<20)))
		r.tick("wikidata")
	}
	r.get("/watches/adams").status(200).has("Bern x", "→ Princeton x")
	for _, endpoint := range []string{"city", "wikidata"} { // both know it: the visitor chooses, and sees where
		known, err := r.reg.Analyse(registry.Registration{Endpoint: endpoint, Text: "ASK { { <http://x.example/a> ?a ?b } UNION { " +
			"?c ?d <http://x.example/a> } }"})
		if err != nil {
			t.Fatal(err)
		}
		r.oracle.set(known.ID, yes(t))
	}
	doubt := r.post("/watch", "link", "http://x.example/a").status(422).has("Choose one: city, wikidata")
	if at := strings.Index(doubt.body, "f-endpoint"); at < 0 || at > strings.Index(doubt.body, "More settings") {
		t.Error("the endpoint is folded away")
	}
	other := r.register("city", "other", "ASK { ?a ?b ?c }")
	r.get("/watches/" + other.ID).status(404).has("This query is no watch")
	r.get(queryPath(other.ID)).status(200).lacks("/watches/")
	r.oracle.partial("cut off")
	r.post("/watch", append(page, "do", "look")...).status(200).has("A trial run brought no result.", "Cut off.")
}

func yes(t *testing.T) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Ask, diff.Options{})
	err := b.SetBoolean(true)
	x, e := b.Finish()
	if err != nil || e != nil {
		t.Fatal(err, e)
	}
	return x
}

const catsLink = "https://query.wikidata.org/#%23title%3ACats%0A" +
	"SELECT%20%3Fs%20%3Fo%20%7B%20%3Fs%20wdt%3AP31%20wd%3AQ146%20%3B%20rdfs%3Alabel%20%3Fo%20%7D"

// On an empty server an admin pastes a link, adds the endpoint that it names, sees the first rows, and
// watches them. The first page leads there.
func TestLinkOnEmptyServer(t *testing.T) {
	probes := 0
	ops, secret := token("ops", registry.RoleAdmin)
	r := newRigWith(t, func(r *rig, c *Config) {
		r.adds = true
		c.Probe = func(context.Context, registry.Endpoint) (time.Duration, error) {
			probes++
			return time.Millisecond, nil
		}
	}, ops)
	r.post("/signin", "token", secret, "next", "/").status(303)
	r.get("/").status(200).has("Paste a link", `action="/watch"`, `name="link"`, "Name an endpoint")
	r.post("/watch", "link", catsLink, "labels", "en", "do", "look").status(200).has("This server does not ask Wikidata Query "+
		"Service yet", "Freshet knows it", "Add it, and see", "It is added as wikidata")
	if all, err := r.reg.Endpoints(); err != nil || len(all) != 0 {
		t.Fatalf("looking adds %v %v", all, err)
	}
	r.oracle.usual = cats(t)
	a := r.post("/watch", "link", catsLink, "labels", "en", "do", "add").status(200).has("“Cats”", "at wikidata, 1 row now",
		"Tardar Sauce", "Watch it", `value="cats"`).lacks("A trial run brought no result", "does not ask")
	e, err := r.reg.Endpoint("wikidata")
	if err != nil || e.URL != "https://query.wikidata.org/sparql" || e.MinGap == 0 || probes != 1 {
		t.Fatalf("the endpoint is %+v %v after %d probes:\n%s", e, err, probes, a.main())
	}
	r.follow(r.post("/watch", "link", catsLink, "labels", "en", "name", "cats")).status(200).has("It is watched.", "Changes of “Cats”")
	r.tick("wikidata")
	r.get("/watches/cats").status(200).has("first result: 1 row")
}

// The page of a watch leads to the edits of the data that may have caused a change.
func TestEditsOfAWatch(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.endpoint("wikidata")
	r.follow(r.post("/watch", "link", catsLink, "labels", "en", "name", "cats")).status(200)
	q, err := r.reg.Resolve(admin, "cats")
	if err != nil {
		t.Fatal(err)
	}
	now := cats(t)
	_, err = r.store.Ledger.Record("wikidata", scheduler.Batch{Outcomes: []scheduler.Outcome{{Query: q.ID, Result: now,
		Stats: policy.Stats{Hash: now.Hash(), Rows: now.Len(), Changes: 1, Executions: 1}, Delta: diff.Compare(nil, now),
		Edits: []registry.DataEdit{{Text: "revision 2145 of Q42", Link: "https://x.example/2145"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	r.get("/watches/cats").status(200).has("first result: 1 row", `possibly by <a href="https://x.example/2145">revision 2145 of Q42</a>`)
}

func cats(t *testing.T) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	err := b.SetVars([]string{"s", "o"})
	err = errors.Join(err, b.Row(diff.Term{Kind: diff.IRI, Value: "http://www.wikidata.org/entity/Q6834672"},
		diff.Term{Kind: diff.Literal, Value: "Tardar Sauce"}))
	x, e := b.Finish()
	if err = errors.Join(err, e); err != nil {
		t.Fatal(err)
	}
	return x
}

// Where no contact is needed, none is asked for. Enter in a field of the form only looks.
func TestLinkPageTellsWhatIsNeeded(t *testing.T) {
	ops, secret := token("ops", registry.RoleAdmin)
	r := newRigWith(t, func(r *rig, c *Config) { r.contact, c.NoContact = true, true }, ops)
	r.post("/signin", "token", secret, "next", "/").status(303)
	const query = "/sparql?query=ASK%7B%3Fa%20%3Fb%20%3Fc%7D"
	const note = "This server has no contact."
	r.post("/watch", "link", "http://192.0.2.1"+query, "do", "look").status(200).has("Add it, and see", note)
	a := r.post("/watch", "link", "http://127.0.0.1:3030"+query, "do", "look").status(200).has("Add it, and see").lacks(note)
	_, form, _ := strings.Cut(a.body, `action="/watch"`)
	_, first, _ := strings.Cut(form, "<button")
	if first, _, _ = strings.Cut(first, ">"); !strings.Contains(first, `value="look"`) {
		t.Errorf("Enter presses <button%s>", first)
	}
}

func TestLinkPages(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	r.post("/watch", "link", catsLink, "do", "look").status(200).has("This server does not ask Wikidata Query Service yet",
		"Only an admin can add it", "someone whose token has the role admin").lacks("Add it, and see")
	r.post("/watch", "link", catsLink, "do", "add").status(403)
	r.post("/watch", "link", "https://data.example.org/sparql?query=ASK%7B%3Fa%20%3Fb%20%3Fc%7D", "do",
		"look").status(200).has("does not ask https://data.example.org/sparql yet", "a check of up to 20 requests")
	r.endpoint("wikidata")
	seen := r.post("/watch", "link", catsLink, "labels", "en", "do", "look").status(200).has("“Cats”", "at wikidata", "0 rows now",
		"is asked by hand", "PREFIX wdt:", "Nothing is saved yet.", `value="cats"`, `name="to"`)
	if strings.Contains(seen.body, "a prefix that is not declared") || strings.Contains(seen.body, "no PREFIX for") {
		t.Error("the prefixes of Wikidata are not known")
	}
	watched := r.post("/watch", "link", catsLink, "labels", "en", "name", "cats", "to", "webhook http://127.0.0.1:9/alerts")
	watched.status(201).has("Copy the secret of http://127.0.0.1:9/alerts now")
	r.get("/rules/cats").status(200).has("changed", "“Cats”: ?added added")
	r.get("/watches/cats").status(200).has("Changes of “Cats”")
	q, err := r.reg.Resolve(admin, "cats")
	if err != nil || !strings.Contains(q.Text, "PREFIX wd: <http://www.wikidata.org/entity/>") {
		t.Fatalf("%+v %v", q, err)
	}
	for link, words := range map[string][]string{
		"":                       {"There is nothing to watch", "Paste a link"},
		"https://w.wiki/3kD":     {"Open it in a browser and copy the address"},
		"SELECT ?x { ?x ?y":      {"Neither a link nor a query"},
		"https://u:p@x.example/": {"user name or a password"},
		"ASK { SERVICE <http://other.example/> { ?a ?b ?c } }": {"own_services"},
	} {
		a := r.post("/watch", "link", link, "endpoint", "city", "do", "look").status(422)
		for _, w := range words {
			if !strings.Contains(strings.ToLower(a.body), strings.ToLower(w)) {
				t.Errorf("%q has no %q:\n%s", link, w, a.main())
			}
		}
		if !strings.Contains(a.body, `id="f-link-e"`) {
			t.Errorf("%q is not the error of the field:\n%s", link, a.main())
		}
	}
	r.post("/watch", "link", strings.Repeat("x", 2<<20)).status(413)
}

// The endpoint of a site is offered although another one is there, unless the visitor chooses that or the
// site's endpoint is there under another name.
func TestLinkOfSite(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.endpoint("city")
	page := []string{"link", "https://www.wikidata.org/wiki/Q42", "labels", "en", "do", "look"}
	r.post("/watch", page...).status(200).has("This server does not ask Wikidata Query Service yet",
		"It is added as wikidata").lacks("at city")
	r.post("/watch", append(page, "endpoint", "city")...).status(200).has("at city").lacks("does not ask")
	if _, err := r.reg.CreateEndpoint(admin, registry.Endpoint{Name: "wd", URL: "https://query.wikidata.org/sparql", Slot: "never",
		Policy: "rr"}); err != nil {
		t.Fatal(err)
	}
	r.post("/watch", page...).status(200).has("at wd").lacks("does not ask")
}

// A second service of a host is added beside the first one, under a free name. One that is taken meanwhile is
// no error of the watch's name.
func TestLinkOfSecondService(t *testing.T) {
	var meanwhile func()
	ops, secret := token("ops", registry.RoleAdmin)
	r := newRigWith(t, func(_ *rig, c *Config) {
		c.Check = func(context.Context, registry.Endpoint) (registry.Report, error) {
			meanwhile()
			return registry.Report{Answers: true}, nil
		}
	}, ops)
	r.post("/signin", "token", secret, "next", "/").status(303)
	r.endpoint("data.example.org")
	page := []string{"link", "http://data.example.org/coins/sparql?query=ASK%7B%3Fa%20%3Fb%20%3Fc%7D", "labels", "en"}
	r.post("/watch", append(page, "do", "look")...).status(200).has("It is added as data.example.org-coins")
	meanwhile = func() { r.endpoint("data.example.org-coins") }
	a := r.post("/watch", append(page, "do", "add")...).status(409).has("data.example.org-coins")
	if strings.Contains(a.body, `id="f-name-e"`) {
		t.Errorf("the endpoint's name is taken for the watch's:\n%s", a.main())
	}
	meanwhile = func() {}
	r.post("/watch", append(page, "do", "add")...).status(200)
	if e, err := r.reg.Endpoint("data.example.org-coins-2"); err != nil || e.URL != "http://data.example.org/coins/sparql" {
		t.Errorf("added %+v %v", e, err)
	}
}

// A file with a query is a link, too. It takes the endpoint from its decorators.
func TestLinkFromFile(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	const text = "#+ summary: Free garages\n#+ endpoint: http://127.0.0.1:3030/sparql\nSELECT ?s ?o { ?s ?p ?o }"
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	file, err := m.CreateFormFile("file", "free.rq")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(file, text); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"link": "", "do": "look", "labels": "en"} {
		if err := m.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	m.Close()
	req, err := http.NewRequest("POST", r.server.URL+"/watch", &body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", m.FormDataContentType())
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := r.browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || !strings.Contains(string(b), "“Free garages”") || !strings.Contains(string(b),
		"at city") || !strings.Contains(string(b), `value="free-garages"`) {
		t.Errorf("%s %v\n%s", res.Status, err, b)
	}
}

// A watch that is refused because of one of its receivers leaves nothing behind, neither another receiver
// nor a rule.
func TestRefusedWatchLeavesNothing(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	d := &told{}
	r.pages.Receivers = d
	watch := func(notify, to string) *response {
		return r.post("/watch", "link", "http://x.example/a", "endpoint", "city", "notify", notify, "to", to)
	}
	watch("https://ntfy.sh/city", "webhook ftp://nowhere/").status(422).has("nly http and https are called")
	if len(d.made) != 0 {
		t.Errorf("a receiver is left: %+v", d.made)
	}
	watch("https://other.example/", "webhook http://127.0.0.1:1/").status(422).has("address cannot be used")
	rules, err := r.pages.Rules.Rules("", 10)
	if err != nil || len(rules) != 0 {
		t.Errorf("a rule is left: %+v %v", rules, err)
	}
	// Nor does a visitor hold what only others held before.
	q, _, err := r.reg.Register(admin, registry.Registration{Endpoint: "city", Text: selectText})
	if err != nil {
		t.Fatal(err)
	}
	again := func() *response {
		return r.post("/watch", "link", selectText, "endpoint", "city", "notify", "https://other.example/").status(422)
	}
	again()
	if q, err = r.reg.Query(q.ID); err != nil || len(q.Holders) != 1 {
		t.Errorf("%+v %v", q.Holders, err)
	}
	r.post("/watch", "link", selectText, "endpoint", "city").status(303)
	again()
	if q, err = r.reg.Query(q.ID); err != nil || len(q.Holders) != 2 {
		t.Errorf("what the visitor held before is released: %+v %v", q.Holders, err)
	}
}

// A refused form has what was typed, also if nothing was looked at before.
func TestRefusedWatchKeepsTheForm(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	r.pages.Receivers = &told{}
	a := r.post("/watch", "link", selectText, "endpoint", "city", "notify", "https://other.example/", "digest", "08:00", "zone",
		"Europe/Berlin", "quiet", "22:00-07:00", "most", "6", "to", "webhook http://127.0.0.1:9/alerts").status(422)
	a.has(`value="https://other.example/"`, `value="08:00"`, `value="Europe/Berlin"`, `value="22:00-07:00"`, `value="6"`,
		">webhook http://127.0.0.1:9/alerts</textarea>", `id="f-notify-e"`, `href="#f-notify">Send to</a>`)
	r.get("/watch").lacks(`name="notify"`, `name="to"`)
}

// People write an e-mail address as they do elsewhere, and read no names of settings.
func TestEmailAsPeopleWriteIt(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	d := &told{}
	r.pages.Receivers = d
	q := r.register("city", "q", "ASK { ?s ?p ?o }")
	r.get(queryPath(q.ID)).has("An e-mail address such as you@example.org", ">Send to</label>", ">How often</label>", ">Time zone</label>",
		">At most in an hour</label>", ">Quiet hours</label>")
	for _, typed := range []string{"you@example.org", " you@example.org ", "mailto:you@example.org"} {
		r.post(queryPath(q.ID)+"/notify", "notify", typed, "do", "test")
	}
	if want := "mailto:you@example.org"; len(d.tested) != 3 || d.tested[0] != want || d.tested[1] != want || d.tested[2] != want {
		t.Errorf("%q", d.tested)
	}
	list := receivers("you@example.org\nemail ops@example.org\nhttps://u@ntfy.sh/x")
	if want := []registry.Receiver{{Kind: registry.Notify, Address: "mailto:you@example.org"}, {Kind: "email", Address: "ops@example.org"},
		{Kind: registry.Notify, Address: "https://u@ntfy.sh/x"}}; !slices.Equal(list, want) {
		t.Errorf("%+v", list)
	}
}

// A form that is sent twice makes one rule. Its name says what is watched.
func TestWatchTwice(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	r.endpoint("wikidata")
	send := func(to string) *response {
		return r.post("/watch", "link", "https://www.wikidata.org/wiki/Q42", "labels", "en", "to", to)
	}
	const hook, other = "webhook http://127.0.0.1:9/alerts", "webhook http://127.0.0.1:9/other"
	send(hook).status(201).has("Copy the secret of http://127.0.0.1:9/alerts now")
	r.follow(send(hook)).status(200).has("It is watched, and its changes are sent.")
	send(other).status(201)
	rules, err := r.pages.Rules.Rules("", 10)
	names := map[string]bool{}
	for _, x := range rules {
		names[x.Name] = true
	}
	if err != nil || len(rules) != 2 || !names["all-properties-of-Q42"] {
		t.Errorf("%+v %v", rules, err)
	}
}

// The page of a watch says how current it is, what is wrong and who paused it, as the page of its query does.
func TestWatchShowsItsState(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.endpoint("city")
	r.oracle.fail("no route to host")
	r.follow(r.post("/watch", "link", selectText, "endpoint", "city", "name", "spaces")).status(200).has("It has no result yet.",
		`data-events="/ui/events/watches/`)
	r.tick("city")
	r.get("/watches/spaces").has("no route to host", "There is no result yet.")
	r.oracle.fail("")
	r.tick("city")
	r.get("/watches/spaces").has("Changed ", ", checked ").lacks("no route to host")
	r.oracle.fail("no route to host")
	r.tick("city")
	r.get("/watches/spaces").has("Stale: the result is of ", "no route to host", "The last result is served as stale.")
	q, err := r.reg.Resolve(admin, "spaces")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.reg.Pause(admin, q.ID); err != nil {
		t.Fatal(err)
	}
	r.get("/watches/spaces").has("Paused by ops for all holders")
}

// Where nothing is asked or sent, the page does not say that it is.
func TestWatchThatIsPaused(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	d := &told{state: registry.SubscriptionPaused}
	r.pages.Receivers = d
	send := func(more ...string) *response {
		return r.follow(r.post("/watch", append([]string{"link", selectText, "endpoint", "city", "name", "spaces"}, more...)...)).status(200).
			lacks("and its changes are sent")
	}
	send("notify", "https://ntfy.sh/city").has("It is watched, but nothing is sent: the receiver is paused.", `href="/deliveries"`)
	d.state = registry.Active
	r.post("/watch", "link", selectText, "endpoint", "city", "name", "spaces", "to", "webhook http://127.0.0.1:9/alerts").status(201)
	rule, err := r.pages.Rules.Rule(registry.Caller{Name: "shop", Role: registry.RoleApp}, "spaces")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.pages.Rules.SetPaused(t.Context(), rule.ID, true); err != nil {
		t.Fatal(err)
	}
	send("to", "webhook http://127.0.0.1:9/alerts").has("It is watched, but nothing is sent: the rule is paused.")
	q, err := r.reg.Resolve(registry.Caller{Name: "shop", Role: registry.RoleApp}, "spaces")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.reg.Pause(registry.Caller{Name: "shop", Role: registry.RoleApp}, q.ID); err != nil {
		t.Fatal(err)
	}
	send("notify", "https://ntfy.sh/city").has("It is watched, but nothing is asked: the query is paused.", queryPath(q.ID)+`">its page`)
}
