package ui

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/web"
)

// crowd returns a server with n queries, each with 63 remembered executions, a result and a few
// changes.
func crowd(b testing.TB, n int) http.Handler {
	b.Helper()
	db, err := store.Open(b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	reg, err := registry.Open(registry.Config{Queries: db.Queries, Endpoints: db.Endpoints})
	if err != nil {
		b.Fatal(err)
	}
	e, err := reg.CreateEndpoint(admin, registry.Endpoint{Name: "city", URL: "http://127.0.0.1:3030/sparql", Slot: "never", Policy: "rr"})
	if err != nil {
		b.Fatal(err)
	}
	results := make([]*diff.Result, 2)
	for i := range results {
		x := diff.NewBuilder(diff.Select, diff.Options{})
		x.SetVars([]string{"s", "o"})
		for k := range 20 {
			x.Row(iri(fmt.Sprint("s", k)), lit(fmt.Sprint(k*(i+1))))
		}
		if results[i], err = x.Finish(); err != nil {
			b.Fatal(err)
		}
	}
	var batch scheduler.Batch
	for i := range n {
		q := registry.Query{ID: fmt.Sprintf("q_%026d", i), Endpoint: "city",
			Text: fmt.Sprintf("PREFIX ex: <http://example.org/>\nSELECT ?s ?o WHERE { ?s ex:p%d ?o . ?s a ex:Thing ; ex:label ?label "+
				"FILTER(lang(?label) = 'en') }", i), Form: diff.Select, Limit: -1,
			CreatedAt: time.Now(), Holders: []registry.Holder{{Caller: "app", Name: fmt.Sprintf("Query number %d", i),
				Tags: []string{fmt.Sprint("tag", i%40)}, Since: time.Now()}}}
		if _, err := db.Queries.EditQuery(q.ID, func(x *registry.Query, _ bool) error { *x = q; return nil }); err != nil {
			b.Fatal(err)
		}
		s := policy.Stats{Last: 63, Executions: 63, Changes: uint64(i % 9), Hash: results[0].Hash(), Rows: 20,
			CheckedAt: time.Now().Add(-time.Duration(i) * time.Millisecond), ChangedAt: time.Now(), Policy: "rr",
			LastRun: policy.Run{Slot: 63, At: time.Now(), Elapsed: time.Millisecond, Outcome: registry.Changed}}
		for k := range 63 {
			s.Samples = append(s.Samples, policy.Sample{Slot: uint64(k + 1), Elapsed: time.Duration(i%50+1) * time.Millisecond,
				Changed: k%9 < i%9, Jaccard: .3})
		}
		batch.Outcomes = append(batch.Outcomes, scheduler.Outcome{Query: q.ID, Stats: s, Result: results[0],
			Delta: diff.Compare(nil, results[0])})
	}
	if _, err := db.Ledger.Record("city", batch); err != nil {
		b.Fatal(err)
	}
	daemon := scheduler.NewManager(scheduler.Config{Ledger: db.Ledger})
	if err := daemon.Add(e, &oracle{results: map[string]*diff.Result{}}); err != nil {
		b.Fatal(err)
	}
	gate, err := web.NewTokenGate(nil, db.Tokens, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	conf := configOf(b, reg, gate, db, daemon)
	conf.Rules = noRules{}
	pages, err := New(Config{Config: conf, Managing: managing(),
		Follow: func() (<-chan struct{}, func()) { return nil, func() {} }})
	if err != nil {
		b.Fatal(err)
	}
	conf.Pages = pages
	h, err := web.New(conf)
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// noRules are the alert rules of a server that has none.
type noRules struct{ allRules }

func (noRules) Totals() (registry.RuleTotals, error) { return registry.RuleTotals{}, nil }

func fetch(tb testing.TB, h http.Handler, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "http://127.0.0.1:8080"+path, nil)
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 200 {
		tb.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w
}

// BenchmarkPage renders pages of a server with many queries, including compression and reads of
// the store. KB counts bytes on the wire.
func BenchmarkPage(b *testing.B) {
	const n = 10_000
	h := crowd(b, n)
	for _, path := range []string{"/", "/queries", "/queries?sort=cost", "/queries?sort=name&page=200", "/queries?tag=tag7",
		"/queries?q=number+77", "/queries/q_00000000000000000000000007"} {
		b.Run(fmt.Sprintf("queries=%d%s", n, path), func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = fetch(b, h, path).Body.Len()
			}
			b.ReportMetric(float64(size)/1000, "KB")
		})
	}
}

// The first load of every page, with its style and script, stays below 100 KB.
func TestLongPagesAreSmall(t *testing.T) {
	h := crowd(t, 200)
	for _, path := range []string{"/", "/queries", "/queries/q_00000000000000000000000007"} {
		w := fetch(t, h, path)
		total := w.Body.Len()
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range strings.Split(string(page), `"`) {
			if strings.HasPrefix(s, "/ui/static/") {
				total += fetch(t, h, s).Body.Len()
			}
		}
		if t.Logf("%s: %d bytes", path, total); total > 100_000 {
			t.Errorf("%s takes %d bytes with style and script", path, total)
		}
	}
}
