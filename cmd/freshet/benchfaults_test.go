package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/endpoint/local"
)

// A troubled endpoint is the embedded engine behind a handler that spoils some
// of its answers. It knows the revision by the counter that updates set.
type troubled struct {
	next   http.Handler
	faults map[spot]fault

	mu  sync.Mutex
	rev int
	met map[spot]int
}

// A spot is a query, by a part of its text, in a revision.
type spot struct {
	rev  int
	text string
}

type fault struct {
	outcome string
	spoil   func(w http.ResponseWriter, whole *httptest.ResponseRecorder)
}

var counted = regexp.MustCompile(`INSERT DATA[^"]*<http://x/n> "(\d+)"`)

func (e *troubled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	said := r.URL.Query()
	if form, err := url.ParseQuery(string(body)); err == nil && r.Method == http.MethodPost {
		said = form
	}
	whole := httptest.NewRecorder()
	e.next.ServeHTTP(whole, r)
	if f, ok := e.look(said.Get("query"), said.Get("update")); ok {
		f.spoil(w, whole)
		return
	}
	pass(w, whole, whole.Code, whole.Body.Bytes())
}

func (e *troubled) look(query, update string) (fault, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := counted.FindStringSubmatch(update); m != nil {
		e.rev, _ = strconv.Atoi(m[1])
	}
	for k, f := range e.faults {
		if query != "" && k.rev == e.rev && strings.Contains(query, k.text) {
			e.met[k]++
			return f, true
		}
	}
	return fault{}, false
}

func pass(w http.ResponseWriter, whole *httptest.ResponseRecorder, status int, body []byte) {
	for k, v := range whole.Header() {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// The ways in which endpoints fail to answer in full.
var (
	// The connection ends in the middle of the body.
	torn = fault{"partial", func(w http.ResponseWriter, whole *httptest.ResponseRecorder) {
		b := whole.Body.Bytes()
		for k, v := range whole.Header() {
			w.Header()[k] = v
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b[:len(b)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}}
	// All is well by HTTP, but the document has no end.
	endless = fault{"partial", func(w http.ResponseWriter, whole *httptest.ResponseRecorder) {
		b := whole.Body.Bytes()
		pass(w, whole, http.StatusOK, b[:len(b)-4])
	}}
	// A whole document of what there was when the time was up, as Virtuoso
	// gives it.
	anytime = fault{"partial", func(w http.ResponseWriter, whole *httptest.ResponseRecorder) {
		whole.Header().Set("X-SQL-State", "S1TAT")
		whole.Header().Set("X-SQL-Message", "anytime query: time is up")
		pass(w, whole, http.StatusOK, []byte(`{"head":{"vars":["n"]},"results":{"bindings":[]}}`))
	}}
	// A page for people, with status 200.
	page = fault{"partial", func(w http.ResponseWriter, whole *httptest.ResponseRecorder) {
		whole.Header().Set("Content-Type", "text/html")
		pass(w, whole, http.StatusOK, []byte("<html><body>Maintenance</body></html>"))
	}}
	fails = fault{"error", func(w http.ResponseWriter, whole *httptest.ResponseRecorder) {
		whole.Header().Set("Content-Type", "text/plain")
		pass(w, whole, http.StatusInternalServerError, []byte("out of memory"))
	}}
)

// Recorded over HTTP from an endpoint some of whose answers fail or are not
// whole, each of those is a gap with its reason, and none is a version: a result
// changes in the next revision that was answered in full, against the last one
// that was.
func TestBenchRecordTroubled(t *testing.T) {
	needEngine(t)
	const hours = 8 // each is a revision; in the third nothing is applied or asked
	args := writeHistory(t, hours)
	plain := filepath.Join(t.TempDir(), "plain.trace")
	if code, _, stderr := cli(t, nil, "", append([]string{"bench", "record", "--out", plain}, args...)...); code != exitOK {
		t.Fatal(stderr)
	}
	engine, err := local.Open(t.Context(), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	queries := []string{"<http://x/c> <http://x/n> ?n", "<http://x/name>", "CONSTRUCT"} // as writeHistory has them
	number, name, all := queries[0], queries[1], queries[2]
	e := &troubled{next: local.Handler(engine, local.HandlerOptions{AllowUpdate: true}), met: map[spot]int{}, faults: map[spot]fault{
		{0, all}:    fails, // not known at t0
		{1, number}: torn, {2, all}: endless, {2, name}: fails,
		{4, number}: anytime, {5, number}: fails, {6, all}: torn, {7, name}: page, {8, number}: anytime,
	}}
	s := httptest.NewServer(e)
	defer s.Close()
	out := filepath.Join(t.TempDir(), "troubled.trace")
	if code, _, stderr := cli(t, nil, "", append([]string{"bench", "record", "--out", out, "--endpoint", s.URL}, args...)...); code != exitOK {
		t.Fatal(stderr)
	}
	got, truth := loadVersions(t, out), loadVersions(t, plain)
	var gaps []bench.Gap
	want := &bench.Trace{}
	for i, s := range truth.Series {
		known := bench.Series{Query: s.Query}
		last, at := []int64(nil), 0
		for rev := range hours + 1 {
			for at+1 < len(s.Versions) && s.Versions[at+1].Rev <= rev {
				at++
			}
			if rev == 3 {
				continue
			}
			if f, ok := e.faults[spot{rev, queries[i]}]; ok {
				gaps = append(gaps, bench.Gap{Rev: rev, Query: s.Query, Outcome: f.outcome})
				continue
			}
			rows, since := s.Versions[at].Rows, rev
			if last == nil {
				since = 0 // what is known first counts as what was there at t0
			}
			if last == nil || !cmp.Equal(rows, last) {
				known.Versions, last = append(known.Versions, bench.Version{Rev: since, Rows: rows}), rows
			}
		}
		want.Series = append(want.Series, known)
	}
	if g, w := versionsOf(got), versionsOf(want); g != w {
		t.Errorf("versions\n%s\nwant\n%s", g, w)
	}
	sameGaps(t, got.Gaps, gaps)
	for k := range e.faults {
		if e.met[k] != 1 {
			t.Errorf("%q was asked %d times in revision %d, want once", k.text, e.met[k], k.rev)
		}
	}
}

func sameGaps(t *testing.T, got, want []bench.Gap) {
	t.Helper()
	type key struct{ rev, query int }
	left := map[key]string{}
	for _, g := range want {
		left[key{g.Rev, g.Query}] = g.Outcome
	}
	for _, g := range got {
		k := key{g.Rev, g.Query}
		if left[k] != g.Outcome || g.Error == "" {
			t.Errorf("gap %+v, want outcome %q and a reason", g, left[k])
		}
		delete(left, k)
	}
	for k, o := range left {
		t.Errorf("query %d in revision %d should be a gap, %s", k.query, k.rev, o)
	}
}
