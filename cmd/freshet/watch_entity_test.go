package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web/api"
)

// Watches on the command line: what is refused, and what is shown of classes and
// categories. TestHowTo follows an entity.
func TestWatchCommands(t *testing.T) {
	w := newTown(t, "")
	w.Update(t, `PREFIX : <http://x/> INSERT DATA { :a a :C ; <http://purl.org/dc/terms/subject> :k . :b a :C . :a :knows :b . `+
		`:a <http://www.w3.org/2000/01/rdf-schema#label> "Anna"@de, "Ann"@en }`)
	for _, x := range []struct {
		args, want string
	}{
		{"watch-class http://x/C", "the instances of C\nat city: SELECT ?instance WHERE { ?instance " +
			"<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x/C> }\nnow 2 rows"},
		{"watch-category http://x/k", "the members of k\nat city: SELECT ?member WHERE { ?member " +
			"<http://purl.org/dc/terms/subject> <http://x/k> }\nnow 1 row"},
		{"watch-category http://x/b --property http://x/knows", "the members of b\nat city: SELECT ?member WHERE { ?member " +
			"<http://x/knows> <http://x/b> }\nnow 1 row"},
		{"watch-entity http://x/a --labels de --within http://x/", "all properties of Anna\n"},
		{"watch-entity http://x/a --incoming", "everything that refers to Ann\n"},
		{"watch-entity http://x/b --both --property http://x/knows", "knows of b, and everything that refers to b by knows\n"},
	} {
		if out := w.must(t, "", append(strings.Fields(x.args), "--preview")...); !strings.HasPrefix(out, "would watch "+x.want) {
			t.Errorf("%s shows\n%s, want %s", x.args, out, x.want)
		}
	}
	if out := w.must(t, "", "query", "list", "--json"); out != "" {
		t.Errorf("previews registered %s", out)
	}
	id := strings.TrimSpace(w.must(t, "", "watch-entity", "http://x/a", "--labels", "de,en", "--tag", "people", "--name", "anna",
		"--preview=false"))
	if out := w.must(t, "", "query", "list", "--tag", "watch"); id == "" || !strings.Contains(out, id) {
		t.Errorf("query list --tag watch prints\n%s", out)
	}
	for args, want := range map[string]string{
		"watch-entity Douglas":                         "absolute IRI",
		"watch-entity http://x/a --labels e_n":         "is not a language tag",
		"watch-entity http://x/a --endpoint moon":      "the endpoints are: city (--endpoint NAME)",
		"watch-entity http://x/a --max-staleness soon": "max_staleness",
		"watch-category Q5":                            "name one in properties",
		"watch-class http://x/C --property one":        "properties.0",
		"watch-entity":                                 "IRI is missing",
	} {
		exit := cli.ExitUsage
		if strings.HasPrefix(want, "the endpoints are") {
			exit = cli.ExitNotFound
		}
		if code, out, stderr := runCLI(t, w.Env, "", strings.Fields(args)...); code != exit || out != "" ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, %s, want %d, %q", args, code, out, stderr, exit, want)
		}
	}
}

// Five thousand watches need few requests.
func TestLongManyWatchesFewRequests(t *testing.T) {
	clitest.NeedEngine(t)
	bin := binary(t)
	engine := clitest.Start(t, bin, "sparql", "--listen", "127.0.0.1:0")
	at, err := url.Parse(engine.Url)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		requests.Add(1)
		r.SetURL(at)
		r.Out.URL.Path = at.Path
	}})
	t.Cleanup(proxy.Close)
	srv := clitest.Serve(t, bin, clitest.FreeAddr(t), t.TempDir(), "endpoints: [{name: e, url: \""+proxy.URL+
		"/sparql\", slot: never, policy: rr, merge: values, budget: 1h}]\n")
	w := town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": srv.Url}, Endpoint: engine.Url}}
	const entities = 1250
	registerAll(t, srv.Url, entities)
	w.Update(t, `INSERT DATA { <http://x.example/e7> <http://x.example/p> <http://x.example/e8> }`)
	for range 4 { // the first slots also find out which queries can be merged
		requests.Store(0)
		t.Logf("%s%d requests", w.must(t, "", "endpoint", "tick", "e"), requests.Load())
	}
	if n := requests.Load(); n == 0 || n > 4*entities/50 {
		t.Errorf("%d requests for %d watches, want at most 1 for 50", n, 4*entities)
	}
	// All are complete, and e7 has one row in each of its three watches, e8 one.
	seen, rows := 0, 0
	a := &remote{server: srv.Url, w: &cli.Env{Getenv: func(string) string { return "" }}}
	if err := each(t.Context(), a, "/v1/watches?limit=1000", "watches", func(v struct{ Query api.Query }) error {
		rows += v.Query.Rows
		if v.Query.State == "live" {
			seen++
		}
		return nil
	}); err != nil || seen != 4*entities || rows != 4 {
		t.Errorf("%d of %d watches are live with %d rows, want 4 rows: %v", seen, 4*entities, rows, err)
	}
}

// registerAll registers four watches for each of some entities.
func registerAll(t *testing.T, server string, entities int) {
	a := &remote{server: server, w: &cli.Env{Getenv: func(string) string { return "" }}}
	var all sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(entities); i = next.Add(1) {
				iri := fmt.Sprintf("http://x.example/e%d", i)
				for _, x := range []watch.Watch{{IRI: iri}, {IRI: iri, Direction: watch.Both},
					{IRI: iri, Properties: []string{"http://x.example/p"}}, {Kind: watch.Instances, IRI: fmt.Sprintf("Q%d", i)}} {
					asked := struct {
						watch.Watch
						Endpoint string `json:"endpoint"`
					}{x, "e"}
					if err := a.do(t.Context(), http.MethodPost, "/v1/watches", asked, nil); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// A server that restarts between the announcement of a change and its words does not end
// the command.
func TestSummariesOverRestart(t *testing.T) {
	tries := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch tries++; tries {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"type":"/problems/stopping","status":503}`)
		default:
			fmt.Fprint(w, `{"changes":[{"epoch":"e","seq":2,"summary":["birth place: Ulm → Neu-Ulm"]}]}`)
		}
	}))
	defer s.Close()
	var out printed
	a := &remote{server: s.URL, w: &cli.Env{Stdout: &out, Getenv: func(string) string { return "" }}}
	at, err := a.printSummaries(t.Context(), "q_1", registry.Position{Epoch: "e", Seq: 1}, registry.Position{Epoch: "e", Seq: 2})
	if err != nil || at.Seq != 2 || strings.Count(out.String(), "Neu-Ulm") != 1 {
		t.Errorf("%v after %d tries, %v\n%s", at, tries, err, out.String())
	}
}
