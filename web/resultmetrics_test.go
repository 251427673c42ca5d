package web

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/gauge"
)

// counted is a result with numbers: a name, a count.
func counted(t *testing.T, rows ...[2]string) *diff.Result {
	var all [][2]diff.Term
	for _, r := range rows {
		all = append(all, [2]diff.Term{lit(r[0]), {Kind: diff.Literal, Value: r[1], Datatype: "http://www.w3.org/2001/XMLSchema#integer"}})
	}
	return table(t, all...)
}

func TestResultMetrics(t *testing.T) {
	w := newWorld(t)
	shops := w.register(selectText, `"name":"shops","tags":["metrics"]`)
	w.register("SELECT * {?s ?p ?o}", `"name":"later"`)
	unnamed := w.register("SELECT * {?s ?p 1}")
	w.m.publish(shops, counted(t, [2]string{"Ulm", "12"}, [2]string{"Bonn", "7"}))
	w.m.publish(unnamed, counted(t, [2]string{"x", "1"}))
	vars := strings.Fields("s o")
	s := string(w.get("/metrics/results").status(200).body)
	holder := `holder="` + registry.Anonymous + `"`
	for _, want := range []string{
		`freshet_result{column="` + vars[1] + `",` + holder + `,query="shops",` + vars[0] + `="Ulm"} 12`,
		`freshet_result{column="` + vars[1] + `",` + holder + `,query="shops",` + vars[0] + `="Bonn"} 7`,
		`freshet_result_rows{` + holder + `,query="shops"} 2`,
		`freshet_result_stale{` + holder + `,query="shops"} 0`,
		`freshet_result_stale{` + holder + `,query="later"} 1`,
		`freshet_result_checked_timestamp_seconds{` + holder + `,query="shops"} `,
		`freshet_result_changed_timestamp_seconds{` + holder + `,query="shops"} `,
		"freshet_result_series_left_out 0",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in\n%s", want, s)
		}
	}
	if strings.Contains(s, `"x"`) || strings.Contains(s, `rows{`+holder+`,query="later"`) {
		t.Errorf("a query without a name or result:\n%s", s)
	}
	for target, want := range map[string]string{
		"?query=" + unnamed:             `query="` + unnamed + `",s="x"} 1`,
		"?tag=metrics":                  `query="shops"`,
		"?query=shops&label=o":          `freshet_result_rows_left_out{` + holder + `,query="shops",reason="no_number"} 2`,
		"?query=shops&limit=1":          `freshet_result_rows_left_out{` + holder + `,query="shops",reason="limit"} 1`,
		"?query=shops&query=" + unnamed: `query="shops"`,
	} {
		if s := string(w.get("/metrics/results" + target).status(200).body); !strings.Contains(s, want) {
			t.Errorf("%s: no %s in\n%s", target, want, s)
		}
	}
	if s := string(w.get("/metrics/results?tag=none").status(200).body); strings.Contains(s, "shops") {
		t.Errorf("a query without the tag:\n%s", s)
	}
	w.get("/metrics/results?query=none").problem(404, "not-found")
	w.get("/metrics/results?limit=0").problem(400, "malformed")
	w.get("/metrics/results?query=shops", "Authorization", "Bearer "+strings.Repeat("x", 20)).problem(401, "unauthorized")
}

// A result is marked as stale while its query is not live, with the time of the last
// answer.
func TestResultMetricsShowStaleness(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"shops"`)
	w.m.publish(id, counted(t, [2]string{"Ulm", "12"}))
	for _, state := range registry.States() {
		st := w.m.status[id]
		st.State = state
		w.m.status[id] = st
		want := "0"
		if state != registry.Live {
			want = "1"
		}
		s := string(w.get("/metrics/results").status(200).body)
		if !strings.Contains(s, `freshet_result_stale{holder="`+registry.Anonymous+`",query="shops"} `+want) ||
			!strings.Contains(s, `="Ulm"} 12`) {
			t.Errorf("%s: %s", state, s)
		}
	}
}

// historyDuring calls a function whenever a result is read.
type historyDuring struct {
	History
	during func()
}

func (h historyDuring) Current(id string, withResult bool) (registry.Status, *diff.Result, error) {
	h.during()
	return h.History.Current(id, withResult)
}

// A token has some of the scrapes that read results at a time, and the rest are for others. One too many is told to come back.
func TestResultScrapesAreFew(t *testing.T) {
	var w *world
	var secrets map[registry.Role]string
	var chain []registry.Role // the next scrapes, each while those before read results
	busy := map[registry.Role]int{}
	scrape := func(role registry.Role) {
		w.token = secrets[role]
		if a := w.get("/metrics/results"); a.StatusCode != 200 {
			busy[role]++
			if a.problem(429, "busy"); a.Header.Get("Retry-After") != "5" {
				t.Error("429 without Retry-After")
			}
		}
	}
	w, secrets = lockedWorld(t, func(c *Config) {
		c.History = historyDuring{c.History, func() {
			for len(chain) > 0 {
				next := chain[0]
				chain = chain[1:]
				scrape(next)
			}
		}}
	})
	w.token = secrets[registry.RoleApp]
	w.m.publish(w.register(selectText, `"name":"shops"`), counted(t, [2]string{"Ulm", "12"}))
	const read, app, admin = registry.RoleRead, registry.RoleApp, registry.RoleAdmin
	for range 2 { // all places are free again
		clear(busy)
		chain = []registry.Role{read, read, app, app, admin}
		if scrape(read); busy[read] != 1 || busy[app] != 0 || busy[admin] != 1 {
			t.Errorf("refused: %v", busy)
		}
	}
}

// discarding is a response whose body is thrown away.
type discarding struct {
	header http.Header
	status int
	size   int
}

func (d *discarding) Header() http.Header { return d.header }

func (d *discarding) WriteHeader(status int) { d.status = status }

func (d *discarding) Write(b []byte) (int, error) {
	d.size += len(b)
	return len(b), nil
}

// allocated returns the bytes that a function allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// manySeries is a world with 10,000 series of 100 queries, and their results.
func manySeries(t *testing.T) (*world, []*diff.Result) {
	t.Helper()
	w := newWorld(t)
	var results []*diff.Result
	for i := range 100 {
		var rows [][2]string
		for j := range 100 {
			rows = append(rows, [2]string{fmt.Sprintf("a place with the number %d", j), strconv.Itoa(i*j + 1)})
		}
		r := counted(t, rows...)
		results = append(results, r)
		w.m.publish(w.register(fmt.Sprintf("SELECT ?s ?o { ?s <http://x/%d> ?o }", i), fmt.Sprintf(`"name":"q%d"`, i)), r)
	}
	return w, results
}

// A scrape is sent while it is read: 10,000 series allocate less than 4 MB beyond what
// reading the results takes. It runs without the race detector, under which pools drop memory by chance.
func TestLongResultScrapeAllocatesLittle(t *testing.T) {
	w, results := manySeries(t)
	for _, encoding := range []string{"identity", "gzip"} {
		reading := allocated(func() {
			for _, r := range results {
				gauge.Read(r, usualGaugeRows, nil)
			}
		})
		d := &discarding{header: http.Header{}}
		r := httptest.NewRequest("GET", "http://freshet.example.org:8080/metrics/results", nil)
		r.Header.Set("Accept-Encoding", encoding)
		scrape := allocated(func() { w.h.ServeHTTP(d, r) })
		t.Logf("%s: %d bytes sent; %d bytes allocated, %d of them to read the results", encoding, d.size, scrape, reading)
		if d.status != 200 || d.size < 10_000 || scrape-reading > 4<<20 {
			t.Errorf("%s: status %d, %d bytes sent; %d bytes allocated beyond the %d of reading", encoding, d.status, d.size,
				scrape-reading, reading)
		}
	}
}

// The text is what another program reads: labels and numbers of every kind come back, each
// family is in one piece, and the compressed answer is the same.
func TestResultScrapeIsRead(t *testing.T) {
	w := newWorld(t)
	odd := "a \\ \"b\"\nc é"
	double := func(s string) diff.Term {
		return diff.Term{Kind: diff.Literal, Value: s, Datatype: "http://www.w3.org/2001/XMLSchema#double"}
	}
	for _, name := range []string{"one", "two"} {
		w.m.publish(w.register("SELECT ?s ?o { ?s <http://x/"+name+"> ?o }", `"name":"`+name+`"`),
			table(t, [2]diff.Term{lit(odd), double("-1.5e-7")},
				[2]diff.Term{lit("most"), double("INF")}, [2]diff.Term{lit("none"), double("NaN")}))
	}
	a := w.get("/metrics/results", "Accept-Encoding: gzip").status(200)
	if a.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("%v", a.Header)
	}
	z, err := gzip.NewReader(strings.NewReader(string(a.body)))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(z)
	plain := w.get("/metrics/results").status(200)
	if err != nil || string(unpacked) != string(plain.body) || plain.Header.Get("Content-Encoding") != "" ||
		plain.Header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("%v, %v\n%s\n%s", err, plain.Header, unpacked, plain.body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation) // refuses a family in two pieces
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(plain.body)))
	if err != nil {
		t.Fatalf("%v\n%s", err, plain.body)
	}
	got := map[string]int{}
	for _, m := range families[gaugeName].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "s" {
				got[fmt.Sprint(l.GetValue(), " ", m.GetGauge().GetValue())]++
			}
		}
	}
	if len(got) != 3 || got[odd+" -1.5e-07"] != 2 || got["most +Inf"] != 2 || got["none NaN"] != 2 {
		t.Errorf("%v", got)
	}
}

// failingHistory fails to read results from the second one on.
type failingHistory struct {
	History
	left *int
}

func (h failingHistory) Current(id string, withResult bool) (registry.Status, *diff.Result, error) {
	if *h.left--; *h.left < 0 {
		return registry.Status{}, nil, errors.New("the disk is broken")
	}
	return h.History.Current(id, withResult)
}

// A scrape whose results cannot be read to the end is no complete answer: it fails with a
// status, or its connection ends once something was sent.
func TestResultScrapeFails(t *testing.T) {
	left := 0
	w := newWorld(t, func(c *Config) { c.History = failingHistory{c.History, &left} })
	var rows [][2]string
	for j := range 1000 {
		rows = append(rows, [2]string{fmt.Sprintf("a place with the number %d", j), "1"})
	}
	for i := range 2 {
		w.m.publish(w.register(fmt.Sprintf("SELECT ?s ?o { ?s <http://x/%d> ?o }", i), fmt.Sprintf(`"name":"q%d"`, i)), counted(t, rows...))
	}
	w.get("/metrics/results").status(500)
	left = 1
	server := httptest.NewServer(w.h)
	defer server.Close()
	req, err := http.NewRequest("GET", server.URL+"/metrics/results", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "freshet.example.org:8080"
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil || resp.StatusCode != 200 {
		t.Errorf("%s with %d bytes: %v", resp.Status, len(b), err)
	}
}
