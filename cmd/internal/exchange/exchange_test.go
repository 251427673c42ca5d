package exchange

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/store"
)

// Who exports is told how many subscriptions are not in it. Receivers of rules come with their rules.
func TestLeftOut(t *testing.T) {
	db, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for id, way := range map[string]registry.Way{"wh_1": registry.Webhook, "nt_1": registry.People, "al_1": registry.Alerts} {
		_, err := db.Subscriptions.EditSubscription(id, func(s *registry.Subscription, _ bool) error {
			*s = registry.Subscription{ID: id, Way: way, State: registry.Active}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := LeftOut(db); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// An import analyses texts like a registration does. It names the lines that could not be
// registered and imports the rest.
func TestImportAnalyses(t *testing.T) {
	db, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reg, err := registry.Open(registry.Config{Queries: db.Queries, Endpoints: db.Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	city := registry.Endpoint{Name: "city", URL: "http://127.0.0.1/"}.WithDefaults()
	if err := reg.ApplyFile([]registry.Endpoint{city}, nil); err != nil {
		t.Fatal(err)
	}
	line := func(edit func(q *registry.Query)) string {
		q, err := reg.Analyse(registry.Registration{Endpoint: "city", Text: "SELECT ?s { ?s ?p ?o } LIMIT 3"})
		if err != nil {
			t.Fatal(err)
		}
		q.Holders = []registry.Holder{{Caller: "a"}}
		edit(&q)
		b, _ := json.Marshal(Line{Query: &q})
		return string(b)
	}
	withID := func(q *registry.Query) { q.ID = registry.Identity(q.Endpoint, q.Normal, q.Ordered, nil, nil) }
	in := strings.Join([]string{
		line(func(q *registry.Query) { q.Text = "DELETE WHERE { ?s ?p ?o }" }),
		line(func(q *registry.Query) { q.Text = "SELECT * { SERVICE <http://x/> { ?s ?p ?o } }" }),
		line(func(q *registry.Query) { q.Text = "SELECT nothing" }),
		line(func(q *registry.Query) { q.ID = "q_another" }),
		line(func(q *registry.Query) { q.Endpoint = "nowhere"; withID(q) }),
		`{"token":{"name":"a b","role":"app"}}`,
		"{not JSON", `{}`, "",
		line(func(q *registry.Query) {
			q.Form, q.Limit, q.Constants, q.Pause = "ASK", 9, []string{"urn:x"}, &registry.Pause{By: "a", All: true}
		}),
		line(func(q *registry.Query) { q.Normal = "as another version wrote it"; withID(q) }),
	}, "\n")
	var said strings.Builder
	n, err := Import(db, strings.NewReader(in), &said)
	if err != nil || n != (Counts{Added: 2, Refused: 8}) {
		t.Errorf("%+v, %v\n%s", n, err, said.String())
	}
	for _, want := range []string{"line 1: query q_", "line 2: ", "allow_service", "line 3: ", "line 4: ", "line 5: ",
		"no endpoint nowhere", "line 6: ", "line 7: ", "line 8: "} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said.String())
		}
	}
	items, err := db.Queries.CountQueries()
	if err != nil || items != 2 {
		t.Fatalf("%d queries, %v", items, err)
	}
	q, err := reg.Analyse(registry.Registration{Endpoint: "city", Text: "SELECT ?s { ?s ?p ?o } LIMIT 3"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := db.Queries.Query(q.ID)
	if err != nil || got.Form != q.Form || got.Limit != 3 || len(got.Constants) != 0 || got.Pause == nil || got.Paused() == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// What registering would refuse is refused, and nothing counts as added that is not stored.
func TestImportRefuses(t *testing.T) {
	db, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	city := registry.Endpoint{Name: "city", URL: "http://127.0.0.1/"}.WithDefaults()
	query := func(text, name string, callers ...string) *registry.Query {
		t.Helper()
		reg, err := registry.Open(registry.Config{Queries: db.Queries, Endpoints: db.Endpoints})
		if err != nil {
			t.Fatal(err)
		}
		q, err := reg.Analyse(registry.Registration{Endpoint: "city", Text: text})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range callers {
			q.Holders = append(q.Holders, registry.Holder{Caller: c, Name: name})
		}
		return &q
	}
	profile := func(id, endpoint string, items ...registry.Item) *registry.Profile {
		return &registry.Profile{ID: id, Endpoint: endpoint, Owner: "a", Items: items}
	}
	item := registry.Item{Query: "q_x", When: registry.When{Changed: "q_x"}}
	endpoint := func(edit func(e *registry.Endpoint)) *registry.Endpoint {
		e := city
		e.Name = "other"
		edit(&e)
		return &e
	}
	add := func(l Line) (Counts, string) {
		t.Helper()
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		n, err := Import(db, strings.NewReader(string(b)), &said)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		return n, said.String()
	}
	if n, said := add(Line{Endpoint: &city}); n.Added != 1 {
		t.Fatal(n, said)
	}
	if n, said := add(Line{Query: query("ASK {}", "mine", "a", "b")}); n.Added != 1 {
		t.Fatal(n, said)
	}
	for _, x := range []struct {
		line Line
		want Counts
		says string
	}{
		{Line{Endpoint: endpoint(func(e *registry.Endpoint) { e.Slot = "now and then" })}, Counts{Refused: 1}, "endpoint other: "},
		{Line{Endpoint: endpoint(func(e *registry.Endpoint) { e.Policy = "none" })}, Counts{Refused: 1}, "endpoint other: "},
		{Line{Endpoint: endpoint(func(e *registry.Endpoint) { e.URL = "" })}, Counts{Refused: 1}, "endpoint other: "},
		{Line{Query: query("ASK { ?s ?p ?o }", "")}, Counts{Refused: 1}, "no holder"},
		{Line{Query: query("ASK { ?s ?p ?o }", "mine", "c", "b")}, Counts{Refused: 1}, `b calls q_`},
		{Line{Query: query("ASK {}", "mine", "a", "b")}, Counts{There: 1}, ""},
		{Line{Query: query("ASK { ?s ?p ?o }", "mine", "c")}, Counts{Added: 1}, ""},
		{Line{Profile: profile("p_x", "nowhere", item)}, Counts{Refused: 1}, "no endpoint nowhere"},
		{Line{Profile: profile("p_x", "city")}, Counts{Refused: 1}, "items"},
		{Line{Profile: profile("", "city", item)}, Counts{Refused: 1}, "an id"},
		{Line{Profile: profile("p_x", "city", item)}, Counts{Added: 1}, ""},
	} {
		if n, said := add(x.line); n != x.want || !strings.Contains(said, x.says) {
			t.Errorf("%+v, want %+v and %q: %s", n, x.want, x.says, said)
		}
	}
	if list, err := db.Endpoints.Endpoints(); err != nil || len(list) != 1 {
		t.Errorf("%d endpoints, %v", len(list), err)
	}
	if err := db.Check(); err != nil {
		t.Error(err)
	}
}

// An export says how often each query was executed and had changed, and an import keeps it.
func TestLearnt(t *testing.T) {
	db, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reg, err := registry.Open(registry.Config{Queries: db.Queries, Endpoints: db.Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	city := registry.Endpoint{Name: "city", URL: "http://127.0.0.1/"}.WithDefaults()
	if err := reg.ApplyFile([]registry.Endpoint{city}, nil); err != nil {
		t.Fatal(err)
	}
	caller := registry.Caller{Name: "a", Role: registry.RoleApp}
	q, _, err := reg.Register(caller, registry.Registration{Endpoint: "city", Text: "SELECT ?s { ?s ?p ?o } LIMIT 3"})
	if err != nil {
		t.Fatal(err)
	}
	b := diff.NewBuilder(diff.Ask, diff.Options{})
	if err := b.SetBoolean(true); err != nil {
		t.Fatal(err)
	}
	now, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	o := scheduler.Outcome{Query: q.ID, Result: now, Delta: diff.Compare(nil, now), Checked: q.CreatedAt.Add(48 * time.Hour)}
	o.Stats = policy.Stats{Last: 1, Executions: 41, Changes: 6, Hash: now.Hash(), CheckedAt: o.Checked}
	if _, err := db.Ledger.Record("city", scheduler.Batch{Space: 1, Outcomes: []scheduler.Outcome{o}}); err != nil {
		t.Fatal(err)
	}
	export := func(db *store.DB) (text string, learnt *registry.Learnt) {
		err := Export(db, func(l Line) error {
			if l.Query != nil {
				learnt = l.Query.Learnt
			}
			b, err := json.Marshal(l)
			text += string(b) + "\n"
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return text, learnt
	}
	want := registry.Learnt{Changes: 6, Executions: 40, Days: 2}
	text, learnt := export(db)
	if learnt == nil || *learnt != want {
		t.Fatalf("%+v in\n%s", learnt, text)
	}
	other, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if n, err := Import(other, strings.NewReader(text), io.Discard); err != nil || n.Refused > 0 {
		t.Fatal(n, err)
	}
	again, err := other.Queries.Query(q.ID)
	if err != nil || again.Learnt == nil || *again.Learnt != want {
		t.Errorf("%+v, %v", again.Learnt, err)
	}
	if same, _ := export(other); same != text {
		t.Errorf("exported again:\n%s\nwant\n%s", same, text)
	}
	for _, days := range []string{"-1", "36501", "1e308"} {
		third, err := store.Open(t.TempDir(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		n, err := Import(third, strings.NewReader(strings.Replace(text, `"days":2`, `"days":`+days, 1)), &said)
		if err != nil || n.Refused != 1 || !strings.Contains(said.String(), "learnt.days") {
			t.Errorf("%s days: %+v, %v, %s", days, n, err, said.String())
		}
		third.Close()
	}
}
