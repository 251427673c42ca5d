package registry_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/registrytest"
	"github.com/freshet/freshet/store"
)

var (
	alice = registry.Caller{Name: "alice", Role: registry.RoleApp}
	bob   = registry.Caller{Name: "bob", Role: registry.RoleApp}
	admin = registry.Caller{Name: "ops", Role: registry.RoleAdmin}
)

// A rig is a registry on a real store, with a clock that does not advance.
type rig struct {
	*registry.Registry
	store *store.DB
	now   time.Time
	conf  registry.Config
}

func newRig(t *testing.T, limits registry.Limits) *rig {
	t.Helper()
	db, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{store: db, now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	r.conf = registry.Config{Queries: db.Queries, Endpoints: db.Endpoints, Limits: limits, Now: func() time.Time { return r.now }}
	r.reopen(t)
	if err := r.ApplyFile([]registry.Endpoint{{Name: "city", URL: "http://127.0.0.1:3030/sparql"}}, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// reopen restarts the registry on the same store.
func (r *rig) reopen(t *testing.T) {
	t.Helper()
	var err error
	if r.Registry, err = registry.Open(registrytest.Twice(r.conf)); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) must(t *testing.T, c registry.Caller, reg registry.Registration) registry.Query {
	t.Helper()
	q, _, err := r.Register(c, reg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func problem(t *testing.T, err error) *registry.Problem {
	t.Helper()
	p, ok := errors.AsType[*registry.Problem](err)
	if !ok {
		t.Fatalf("error %v, want a problem", err)
	}
	return p
}

// The same question asked twice is one query, with the largest weight, the
// smallest intervals and the union of tags.
func TestSameQuestionIsOneQuery(t *testing.T) {
	r := newRig(t, registry.Limits{})
	a, created, err := r.Register(alice, registry.Registration{Endpoint: "city", Name: "things", Tags: []string{"b", "a"}, Weight: 2,
		Text: "PREFIX x: <http://x/> SELECT ?s { ?s a x:T } # mine", MaxStaleness: registry.Duration(time.Hour),
		MinInterval: registry.Duration(time.Minute)})
	if err != nil || !created {
		t.Fatalf("created %v, error %v", created, err)
	}
	b, created, err := r.Register(bob, registry.Registration{Endpoint: "city", Name: "others", Tags: []string{"c", "a"}, Weight: 5,
		Text: "select $s { $s a <http://x/T> }", MaxStaleness: registry.Duration(time.Minute), MinInterval: registry.Duration(time.Second)})
	if err != nil || created {
		t.Fatalf("created %v, error %v", created, err)
	}
	if a.ID != b.ID {
		t.Fatalf("ids %s and %s", a.ID, b.ID)
	}
	// The byte order mark of a file is not sent, because endpoints refuse it.
	if m, err := r.Analyse(registry.Registration{Endpoint: "city", Text: "\ufeff" + a.Text}); err != nil || m.ID != a.ID || m.Text != a.Text {
		t.Errorf("with a byte order mark: %q, %v", m.Text, err)
	}
	if b.Text != a.Text {
		t.Errorf("text is %q, want the one registered first", b.Text)
	}
	type force struct {
		Weight                    float64
		MaxStaleness, MinInterval time.Duration
		Tags                      []string
	}
	want := force{5, time.Minute, time.Second, []string{"a", "b", "c"}}
	if d := cmp.Diff(want, force{b.Weight(), b.MaxStaleness(), b.MinInterval(), b.Tags()}); d != "" {
		t.Errorf("in force (-want +got):\n%s", d)
	}
	for _, x := range []struct {
		c    registry.Caller
		name string
	}{{alice, "things"}, {bob, "others"}, {admin, "things"}} {
		if got := b.NameFor(x.c.Name); got != x.name {
			t.Errorf("name for %s is %q, want %q", x.c.Name, got, x.name)
		}
		if got, err := r.Resolve(x.c, x.name); err != nil || got.ID != a.ID {
			t.Errorf("resolve %s for %s: %s, %v", x.name, x.c.Name, got.ID, err)
		}
	}
}

// Everything that identifies a query makes another query.
func TestDifferentQuestions(t *testing.T) {
	r := newRig(t, registry.Limits{})
	if _, err := r.CreateEndpoint(admin, registry.Endpoint{Name: "other", URL: "http://127.0.0.1:3031/sparql"}); err != nil {
		t.Fatal(err)
	}
	const text = "SELECT ?s { ?s ?p ?o }"
	yes := true
	ids := map[string]string{}
	for name, reg := range map[string]registry.Registration{
		"plain":         {Endpoint: "city", Text: text},
		"other text":    {Endpoint: "city", Text: "SELECT ?o { ?s ?p ?o }"},
		"other place":   {Endpoint: "other", Text: text},
		"ordered":       {Endpoint: "city", Text: text, Ordered: &yes},
		"default graph": {Endpoint: "city", Text: text, DefaultGraphURI: []string{"http://g/1"}},
		"named graph":   {Endpoint: "city", Text: text, NamedGraphURI: []string{"http://g/1"}},
		"two graphs":    {Endpoint: "city", Text: text, DefaultGraphURI: []string{"http://g/1", "http://g/2"}},
	} {
		q := r.must(t, alice, reg)
		if other, taken := ids[q.ID]; taken {
			t.Errorf("%s and %s are one query", name, other)
		}
		ids[q.ID] = name
	}
	a := r.must(t, alice, registry.Registration{Endpoint: "city", Text: text, DefaultGraphURI: []string{"http://g/2", "http://g/1",
		"http://g/2"}})
	if ids[a.ID] != "two graphs" {
		t.Error("the order of graphs makes another query")
	}
}

func TestOrderedByDefault(t *testing.T) {
	r := newRig(t, registry.Limits{})
	no := false
	for _, x := range []struct {
		text    string
		ordered *bool
		want    bool
	}{
		{"SELECT ?s { ?s ?p ?o }", nil, false},
		{"SELECT ?s { ?s ?p ?o } ORDER BY ?s", nil, true},
		{"SELECT ?s { ?s ?p ?o } ORDER BY ?s", &no, false},
		{"SELECT ?s { { SELECT ?s { ?s ?p ?o } ORDER BY ?s LIMIT 3 } }", nil, false},
		{"CONSTRUCT WHERE { ?s ?p ?o } ORDER BY ?s", nil, false},
	} {
		q, err := r.Analyse(registry.Registration{Endpoint: "city", Text: x.text, Ordered: x.ordered})
		if err != nil || q.Ordered != x.want {
			t.Errorf("%s: ordered %v, want %v (%v)", x.text, q.Ordered, x.want, err)
		}
	}
}

// An endpoint's own services may be called, as an IRI or with a prefix that the
// endpoint declares. Others, including variables, are refused.
func TestOwnServices(t *testing.T) {
	r := newRig(t, registry.Limits{})
	_, err := r.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error {
		e.OwnServices = []string{"wikibase:label", "http://wikiba.se/ontology#label"}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		`SELECT * { ?s ?p ?o SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } }`:                        true,
		`PREFIX w: <http://wikiba.se/ontology#> SELECT * { ?s ?p ?o SERVICE w:label { ?a ?b ?c } }`:                      true,
		`SELECT * { ?s ?p ?o SERVICE SILENT <http://wikiba.se/ontology#label> { ?a ?b ?c } }`:                            true,
		`PREFIX wikibase: <http://evil.example/> SELECT * { SERVICE wikibase:label { ?s ?p ?o } }`:                       false,
		`SELECT * { SERVICE wikibase:label { ?a ?b ?c } SERVICE <http://evil.example/> { ?s ?p ?o } }`:                   false,
		`PREFIX wikibase: <http://evil.example/./> SELECT * { SERVICE wikibase:label { ?s ?p ?o } }`:                     false,
		`PREFIX wikibase: <//evil.example/> SELECT * { SERVICE SILENT wikibase:label { ?s ?p ?o } }`:                     false,
		`BASE <http://evil.example/> PREFIX wikibase: <> SELECT * { SERVICE wikibase:label { ?s ?p ?o } }`:               false,
		`BASE <http://x.example/> SELECT * { SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } }`:        true,
		`SELECT * { BIND(<http://evil.example/> AS ?x) SERVICE ?x { ?s ?p ?o } }`:                                        false,
		`SELECT * { SERVICE <http://wikiba.se/ontology#labels> { ?s ?p ?o } }`:                                           false,
		`SELECT (bif:HTTP_GET("http://e/") AS ?x) { SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } }`: false,
	} {
		q, err := r.Analyse(registry.Registration{Endpoint: "city", Text: text})
		switch {
		case !ok && (err == nil || problem(t, err).Kind != registry.KindServiceRefused):
			t.Errorf("%s: %v, want service-refused", text, err)
		case ok && err != nil:
			t.Errorf("%s: %v", text, err)
		case ok && slices.ContainsFunc(q.Warnings, func(w registry.Warning) bool { return w.Code == "service" }):
			t.Errorf("%s: warns that another endpoint is asked", text)
		}
	}
	for _, bad := range []string{"label", "<http://wikiba.se/ontology#label>", "?x", "http://a b", ""} {
		if _, err := r.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error { e.OwnServices = []string{bad}; return nil }); err == nil {
			t.Errorf("own_services takes %q", bad)
		}
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t, registry.Limits{})
	yes, later, muchLater := true, r.now.Add(time.Hour), r.now.Add(2*time.Hour)
	for _, x := range []struct {
		name    string
		caller  registry.Caller
		reg     registry.Registration
		kind    registry.Kind
		pointer string
	}{
		{"update", alice, registry.Registration{Text: "DELETE WHERE { ?s ?p ?o }"}, "update-refused", "/query"},
		{"empty", alice, registry.Registration{Text: " \n"}, "bad-query", "/query"},
		{"broken", alice, registry.Registration{Text: "SELECT ?s { ?s ?p ?o"}, "bad-query", "/query"},
		{"not UTF-8", alice, registry.Registration{Text: "SELECT ?s { ?s ?p '\xff' }"}, "bad-query", "/query"},
		{"service", alice, registry.Registration{Text: "SELECT * { SERVICE <http://e/> { ?s ?p ?o } }"}, "service-refused", "/query"},
		{"function that fetches", alice, registry.Registration{Text: `SELECT (bif:HTTP_GET("http://e/") AS ?x) {}`}, "service-refused", "/query"},
		{"pragma that fetches", alice, registry.Registration{Text: `define get:soft "soft" SELECT * { ?s ?p ?o }`}, "service-refused", "/query"},
		{"endpoint", alice, registry.Registration{Endpoint: "nowhere", Text: "ASK {}"}, "unknown-endpoint", "/endpoint"},
		{"order of a graph", alice, registry.Registration{Text: "CONSTRUCT WHERE { ?s ?p ?o }", Ordered: &yes}, "bad-setting", "/ordered"},
		{"weight", alice, registry.Registration{Text: "ASK {}", Weight: -1}, "bad-setting", "/weight"},
		{"urgency", alice, registry.Registration{Text: "ASK {}", Urgency: "exp,2"}, "bad-setting", "/urgency"},
		{"life", alice, registry.Registration{Text: "ASK {}", Life: "window"}, "bad-setting", "/life"},
		{"name like an id", alice, registry.Registration{Text: "ASK {}", Name: "q_abc"}, "bad-setting", "/name"},
		{"name with a line end", alice, registry.Registration{Text: "ASK {}", Name: "a\r\nb"}, "bad-setting", "/name"},
		{"empty tag", alice, registry.Registration{Text: "ASK {}", Tags: []string{"a", ""}}, "bad-setting", "/tags/1"},
		{"relative graph", alice, registry.Registration{Text: "ASK {}", DefaultGraphURI: []string{"g"}}, "bad-setting", "/default_graph_uri/0"},
		{"ends before it begins", alice, registry.Registration{Text: "ASK {}", From: &muchLater, Until: &later}, "bad-setting", "/until"},
		{"is over already", alice, registry.Registration{Text: "ASK {}", Until: &r.now}, "bad-setting", "/until"},
		{"role", registry.Caller{Name: "r", Role: registry.RoleRead}, registry.Registration{Text: "ASK {}"}, "forbidden", ""},
	} {
		_, _, err := r.Register(x.caller, x.reg)
		p := problem(t, err)
		if p.Kind != x.kind {
			t.Errorf("%s: %s, want %s", x.name, p.Kind, x.kind)
		}
		if x.pointer != "" && (len(p.Errors) != 1 || p.Errors[0].Pointer != x.pointer) {
			t.Errorf("%s: errors %v, want one at %s", x.name, p.Errors, x.pointer)
		}
	}
	if n, err := r.store.Queries.CountQueries(); err != nil || n != 0 {
		t.Errorf("%d queries are stored after refusals (%v)", n, err)
	}
}

// A query is deleted when its last holder releases it, and not before.
func TestRelease(t *testing.T) {
	r := newRig(t, registry.Limits{})
	q := r.must(t, alice, registry.Registration{Text: "ASK {}"})
	r.must(t, bob, registry.Registration{Text: "ASK {}"})
	if p := problem(t, r.Release(admin, q.ID, false)); p.Kind != registry.KindForbidden {
		t.Errorf("release of what one does not hold: %s", p.Kind)
	}
	if p := problem(t, r.Release(bob, q.ID, true)); p.Kind != registry.KindForbidden {
		t.Errorf("force without the role: %s", p.Kind)
	}
	if err := r.Release(alice, q.ID, false); err != nil {
		t.Fatal(err)
	}
	if left, err := r.Query(q.ID); err != nil || len(left.Holders) != 1 || left.Holders[0].Caller != "bob" {
		t.Fatalf("after alice let go: %v, %v", left.Holders, err)
	}
	if err := r.Release(admin, q.ID, true); err != nil {
		t.Fatal(err)
	}
	if p := problem(t, func() error { _, err := r.Query(q.ID); return err }()); p.Kind != registry.KindNotFound {
		t.Errorf("after the last one: %s", p.Kind)
	}
}

// Only holders and admins may refresh, pause or resume a query.
func TestPauseAndRefreshRights(t *testing.T) {
	r := newRig(t, registry.Limits{})
	q := r.must(t, alice, registry.Registration{Text: "ASK {}"})
	if _, err := r.Pause(bob, q.ID); problem(t, err).Kind != registry.KindForbidden {
		t.Errorf("pause by a stranger: %v", err)
	}
	got, err := r.Pause(alice, q.ID)
	if err != nil || got.Paused() == nil || got.Paused().By != "alice" || !got.Paused().At.Equal(r.now) {
		t.Fatalf("pause %+v, %v", got.Paused(), err)
	}
	if got, err = r.Resume(admin, q.ID); err != nil || got.Paused() != nil {
		t.Errorf("resume: %+v, %v", got.Paused(), err)
	}
	for want := uint64(1); want <= 2; want++ {
		if got, err = r.Refresh(alice, q.ID); err != nil || got.Refreshes != want {
			t.Errorf("refresh requests %d, want %d (%v)", got.Refreshes, want, err)
		}
	}
}

func TestLimitOfQueries(t *testing.T) {
	r := newRig(t, registry.Limits{Queries: 1})
	r.must(t, alice, registry.Registration{Text: "ASK {}"})
	r.must(t, bob, registry.Registration{Text: "ASK {}"}) // the same question costs nothing
	_, _, err := r.Register(alice, registry.Registration{Text: "ASK { ?s ?p ?o }"})
	if p := problem(t, err); p.Kind != registry.KindLimit {
		t.Errorf("over the limit: %v", p)
	}
}

// Concurrent registrations do not exceed the limit.
func TestLimitOfQueriesAtOnce(t *testing.T) {
	const limit = 5
	r := newRig(t, registry.Limits{Queries: limit})
	var made, refused atomic.Int64
	var callers sync.WaitGroup
	for n := range 8 * limit {
		callers.Go(func() {
			_, created, err := r.Register(alice, registry.Registration{Endpoint: "city", Text: fmt.Sprintf("ASK { <urn:%d> ?p ?o }", n)})
			var p *registry.Problem
			switch {
			case err == nil && created:
				made.Add(1)
			case errors.As(err, &p) && p.Kind == registry.KindLimit:
				refused.Add(1)
			default:
				t.Errorf("created %t, error %v", created, err)
			}
		})
	}
	callers.Wait()
	if n, err := r.store.Queries.CountQueries(); err != nil || n != limit || made.Load() != limit || refused.Load() != 7*limit {
		t.Errorf("%d queries, %d made and %d refused (error %v), the limit is %d", n, made.Load(), refused.Load(), err, limit)
	}
}

// A patch edits the fields it names, for the caller only.
func TestPatch(t *testing.T) {
	r := newRig(t, registry.Limits{})
	q := r.must(t, alice, registry.Registration{Text: "ASK {}", Name: "a", Tags: []string{"x"}, Weight: 3})
	r.must(t, bob, registry.Registration{Text: "ASK {}", Name: "b"})
	w, tags := 4.0, []string{"z", "y"}
	got, err := r.Patch(alice, q.ID, registry.Patch{Weight: &w, Tags: &tags})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := got.Holder("alice")
	b, _ := got.Holder("bob")
	if a.Name != "a" || a.Weight != 4 || !slices.Equal(a.Tags, []string{"y", "z"}) || b.Name != "b" || b.Weight != 0 {
		t.Errorf("alice %+v, bob %+v", a, b)
	}
	if _, err := r.Patch(admin, q.ID, registry.Patch{Weight: &w}); problem(t, err).Kind != registry.KindForbidden {
		t.Errorf("patch of what one does not hold: %v", err)
	}
	until, none := r.now.Add(time.Hour), time.Time{}
	if got, err = r.Patch(alice, q.ID, registry.Patch{Until: &until}); err != nil || got.Active(r.now.Add(2*time.Hour)) != true {
		t.Errorf("bob asks for executions without end: %v, %v", got.Holders, err)
	}
	if _, err := r.Patch(alice, q.ID, registry.Patch{Until: &r.now}); problem(t, err).Kind != registry.KindBadSetting {
		t.Errorf("an end that is over: %v", err)
	}
	got, err = r.Patch(alice, q.ID, registry.Patch{Until: &none})
	if a, _ := got.Holder("alice"); err != nil || a.Until != nil {
		t.Errorf("until is %v after its removal (%v)", a.Until, err)
	}
	bad := strings.Repeat("n", 200)
	if _, err := r.Patch(alice, q.ID, registry.Patch{Name: &bad}); problem(t, err).Kind != registry.KindBadSetting {
		t.Errorf("a bad name: %v", err)
	}
}

// Registrations of live subscriptions end a day after the last disconnection,
// even over a restart. An explicit registration stays.
func TestLiveHolds(t *testing.T) {
	r := newRig(t, registry.Limits{})
	follow := func() (registry.Query, func()) {
		q, done, err := r.Follow(t.Context(), alice, "", "ASK {}")
		if err != nil {
			t.Fatal(err)
		}
		return q, done
	}
	there := func(q registry.Query) bool {
		if err := r.Sweep(); err != nil {
			t.Fatal(err)
		}
		_, err := r.store.Queries.Query(q.ID)
		return err == nil
	}
	q, done := follow()
	_, second := follow()
	done()
	r.now = r.now.Add(48 * time.Hour)
	if !there(q) {
		t.Fatal("released while somebody is connected")
	}
	second()
	r.now = r.now.Add(23 * time.Hour)
	if !there(q) {
		t.Fatal("released before a day was over")
	}
	_, done = follow()
	r.now = r.now.Add(2 * time.Hour)
	if !there(q) {
		t.Fatal("released although the client came back")
	}
	r.reopen(t) // as after kill -9: done was never called
	r.now = r.now.Add(23 * time.Hour)
	if !there(q) {
		t.Fatal("released before a day since the restart was over")
	}
	done()
	r.now = r.now.Add(25 * time.Hour)
	if there(q) {
		t.Fatal("not released after a day")
	}

	q = r.must(t, alice, registry.Registration{Text: "ASK {}"})
	_, done = follow()
	done()
	r.now = r.now.Add(100 * time.Hour)
	if !there(q) {
		t.Error("a registration made explicitly ended with a subscription")
	}
}

// after is a store that calls a function after its next edit.
type after struct {
	registry.QueryStore
	next *func()
}

func (s after) EditQueries(n registry.Names, edit func(*registry.Query, []*registry.Query, bool) error) (registry.Query, error) {
	q, err := s.QueryStore.EditQueries(n, edit)
	if do := *s.next; do != nil {
		*s.next = nil
		do()
	}
	return q, err
}

// A connection that ends between the registration of the next one and its first moment leaves the day of grace whole.
func TestConnectionEndsBeforeTheNext(t *testing.T) {
	r := newRig(t, registry.Limits{})
	var next func()
	r.conf.Queries = after{r.store.Queries, &next}
	var err error
	if r.Registry, err = registry.Open(r.conf); err != nil {
		t.Fatal(err)
	}
	follow := func() (registry.Query, func()) {
		t.Helper()
		q, done, err := r.Follow(t.Context(), alice, "", "ASK {}")
		if err != nil {
			t.Fatal(err)
		}
		return q, done
	}
	there := func(q registry.Query) bool {
		t.Helper()
		if err := r.Sweep(); err != nil {
			t.Fatal(err)
		}
		_, err := r.store.Queries.Query(q.ID)
		return err == nil
	}
	_, next = follow()
	q, done := follow()
	for range 2 {
		r.now = r.now.Add(30 * time.Hour)
		if !there(q) {
			t.Fatal("released while somebody is connected")
		}
	}
	done()
	r.now = r.now.Add(23 * time.Hour)
	if !there(q) {
		t.Fatal("released before a day was over")
	}
	r.now = r.now.Add(2 * time.Hour)
	if there(q) {
		t.Error("not released after a day")
	}
}

// The file overrides an edit by the API only if its value changed.
func TestFileAgainstAPI(t *testing.T) {
	r := newRig(t, registry.Limits{})
	file := registry.Endpoint{Name: "city", URL: "http://127.0.0.1:3030/sparql"}
	edit := func(f func(*registry.Endpoint)) {
		t.Helper()
		if _, err := r.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error { f(e); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	edit(func(e *registry.Endpoint) { e.Budget = registry.Duration(3 * time.Second); e.MaxRows = 7 })
	file.Concurrency = 4
	if err := r.ApplyFile([]registry.Endpoint{file}, nil); err != nil {
		t.Fatal(err)
	}
	e, err := r.Endpoint("city")
	if err != nil {
		t.Fatal(err)
	}
	if e.Budget != registry.Duration(3*time.Second) || e.MaxRows != 7 || e.Concurrency != 4 {
		t.Errorf("budget %v, max_rows %d, concurrency %d; want the API's 3s and 7 and the file's 4", e.Budget, e.MaxRows, e.Concurrency)
	}
	file.Budget = registry.Duration(8 * time.Second)
	if err := r.ApplyFile([]registry.Endpoint{file}, nil); err != nil {
		t.Fatal(err)
	}
	if e, err = r.Endpoint("city"); err != nil || e.Budget != file.Budget || e.MaxRows != 7 {
		t.Errorf("budget %v, max_rows %d (%v); want the file's 8s, which is new, and the API's 7", e.Budget, e.MaxRows, err)
	}
}

// A file with one bad endpoint changes none.
func TestBadFileChangesNothing(t *testing.T) {
	r := newRig(t, registry.Limits{})
	before, err := r.Endpoint("city")
	if err != nil {
		t.Fatal(err)
	}
	err = r.ApplyFile([]registry.Endpoint{
		{Name: "city", URL: "http://127.0.0.1:3030/sparql", Budget: registry.Duration(time.Second)},
		{Name: "other", URL: "http://127.0.0.1:3031/sparql", Concurrency: 1000},
	}, nil)
	if err == nil {
		t.Fatal("a concurrency of 1000 is accepted")
	}
	if after, err := r.Endpoint("city"); err != nil || after.Budget != before.Budget {
		t.Errorf("budget %v after a bad file, want %v (%v)", after.Budget, before.Budget, err)
	}
}

func TestEndpointChecks(t *testing.T) {
	good := registry.Endpoint{Name: "city", URL: "http://127.0.0.1:3030/sparql"}.WithDefaults()
	if err := registry.CheckEndpoint(good, nil); err != nil {
		t.Fatal(err)
	}
	for pointer, spoil := range map[string]func(*registry.Endpoint){
		"/name":          func(e *registry.Endpoint) { e.Name = "a/b" },
		"/url":           func(e *registry.Endpoint) { e.URL = "ftp://x/" },
		"/budget":        func(e *registry.Endpoint) { e.Budget = -1 },
		"/concurrency":   func(e *registry.Endpoint) { e.Concurrency = 1000 },
		"/timeout_param": func(e *registry.Endpoint) { e.TimeoutParam = "query" },
		"/timeout":       func(e *registry.Endpoint) { e.Timeout = 0 },
		"/profile_share": func(e *registry.Endpoint) { e.ProfileShare = 1.5 },
		"/merge":         func(e *registry.Endpoint) { e.Merge = "always" },
		"/max_rows":      func(e *registry.Endpoint) { e.MaxRows = -1 },
		"/headers":       func(e *registry.Endpoint) { e.Headers = map[string]string{"X": "a\r\nb: c"} },
		"/auth":          func(e *registry.Endpoint) { e.Auth.Bearer = &registry.Bearer{} },
		"":               func(e *registry.Endpoint) { e.Slot = "wrong" }, // no setting is named
		"/policy":        func(e *registry.Endpoint) { e.Policy = "wrong" },
	} {
		e := good
		spoil(&e)
		err := registry.CheckEndpoint(e, func(e registry.Endpoint) error {
			if e.Slot == "wrong" {
				return errors.New("not a slot")
			}
			if e.Policy == "wrong" {
				return fmt.Errorf("endpoint: %w", &registry.SettingError{Setting: "policy", Err: errors.New("not a policy")})
			}
			return nil
		})
		p := problem(t, err)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %v", pointer, p.Errors)
		}
	}
	withUser := good
	withUser.URL = "http://u:p@127.0.0.1/"
	if err := registry.CheckEndpoint(withUser, nil); err == nil || strings.Contains(err.Error(), "u:p") {
		t.Errorf("credentials in the URL: %v", err)
	}
}

func TestMaskedHidesSecrets(t *testing.T) {
	e := registry.Endpoint{Headers: map[string]string{"X-Key": "secret1"}, Auth: registry.Auth{
		Basic: &registry.Password{Username: "u", Password: "secret2"}, Bearer: &registry.Bearer{Token: "secret3"}}}
	m := e.Masked()
	if m.Headers["X-Key"] == "secret1" || m.Auth.Basic.Password == "secret2" || m.Auth.Bearer.Token == "secret3" {
		t.Errorf("masked: %+v", m)
	}
	if e.Headers["X-Key"] != "secret1" || e.Auth.Basic.Password != "secret2" || e.Auth.Bearer.Token != "secret3" {
		t.Error("masking changed the original")
	}
}

// What is known about a new query is stored with it, and stays as it is when it is registered again.
func TestKnown(t *testing.T) {
	r := newRig(t, registry.Limits{})
	known := &registry.Learnt{Changes: 3, Executions: 40, Days: 9, Source: "https://source.example/"}
	r.conf.Known = func(e registry.Endpoint, q *registry.Query) *registry.Learnt {
		if e.Name != "city" || q.Text != "ASK { ?a ?b 1 }" {
			return nil
		}
		return known
	}
	r.reopen(t)
	caller := registry.Caller{Name: "a", Role: registry.RoleApp}
	if q := r.must(t, caller, registry.Registration{Text: "ASK { ?a ?b 2 }"}); q.Learnt != nil {
		t.Errorf("%+v", q.Learnt)
	}
	first := r.must(t, caller, registry.Registration{Text: "ASK { ?a ?b 1 }"})
	known = nil
	again := r.must(t, registry.Caller{Name: "b", Role: registry.RoleApp}, registry.Registration{Text: "ASK { ?a ?b 1 }"})
	for _, q := range []registry.Query{first, again} {
		if q.Learnt == nil || q.Learnt.Executions != 40 {
			t.Errorf("%+v", q.Learnt)
		}
	}
	// Its own executions are worth more than those of others, which Plus leaves out.
	if own := first.Learnt.Plus(1, 7, 2); *own != (registry.Learnt{Changes: 1, Executions: 7, Days: 2}) {
		t.Errorf("%+v", own)
	}
}

// removing is a store at which an endpoint is removed just before each edit.
type removing struct {
	registry.QueryStore
	registry.ProfileStore
	remove func()
}

func (s removing) EditQueries(n registry.Names, edit func(*registry.Query, []*registry.Query, bool) error) (registry.Query, error) {
	s.remove()
	return s.QueryStore.EditQueries(n, edit)
}

func (s removing) EditProfile(id string, b registry.Bounds, edit func(*registry.Profile, bool) error) (registry.Profile, error) {
	s.remove()
	return s.ProfileStore.EditProfile(id, b, edit)
}

// What is registered while its endpoint is removed is refused, and nothing of it is stored.
func TestEndpointIsRemovedMeanwhile(t *testing.T) {
	r := newRig(t, registry.Limits{})
	q := r.must(t, alice, registry.Registration{Text: "ASK {}"})
	s := removing{r.store.Queries, r.store.Profiles, func() {
		if err := r.DeleteEndpoint("city", nil); err != nil {
			t.Fatal(err)
		}
	}}
	c := r.conf
	c.Queries, c.Profiles = s, s
	late, err := registry.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, err error) {
		t.Helper()
		if p := problem(t, err); p.Kind != registry.KindUnknownEndpoint {
			t.Errorf("%s: %v", what, err)
		}
		if n, err := r.store.Queries.CountQueries(); n != 0 || err != nil {
			t.Errorf("%s: %d queries are stored, %v", what, n, err)
		}
		if err := r.ApplyFile([]registry.Endpoint{{Name: "city", URL: "http://127.0.0.1:3030/sparql"}}, nil); err != nil {
			t.Fatal(err)
		}
		if n, err := r.store.Queries.CountQueries(); n != 0 || err != nil {
			t.Errorf("%s: %d queries at the new endpoint, %v", what, n, err)
		}
	}
	_, _, err = late.CreateProfile(alice, registry.ProfileRequest{Items: []registry.Item{{Query: q.ID,
		When: registry.When{Every: registry.Span{Time: time.Hour}, Slack: registry.Span{Time: time.Minute}}}}})
	expect("a profile", err)
	if list, _, err := r.store.Rounds.ListProfiles(registry.ProfileFilter{}, "", 10); len(list) != 0 || err != nil {
		t.Errorf("%d profiles, %v", len(list), err)
	}
	_, _, err = late.Register(alice, registry.Registration{Endpoint: "city", Text: "ASK {}"})
	expect("a query", err)
	_, _, err = late.Follow(t.Context(), alice, "city", "ASK {}")
	expect("a live subscription", err)
}
