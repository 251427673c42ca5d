package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/endpoint/local"
)

// A troubled endpoint is the embedded engine behind a handler that spoils some of its
// answers. It reads the revision from the counter in updates.
type troubled struct {
	next   http.Handler
	faults map[spot]fault

	mu  sync.Mutex
	rev int
	met map[spot]int
}

// A spot is a query in a revision. A part of its text identifies the query.
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

// The faults of endpoints that give incomplete answers.
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
	// The HTTP response is complete, but the document has no end.
	endless = fault{"partial", func(w http.ResponseWriter, whole *httptest.ResponseRecorder) {
		b := whole.Body.Bytes()
		pass(w, whole, http.StatusOK, b[:len(b)-4])
	}}
	// A complete document with the rows found until the time was up, as from Virtuoso.
	anytime = fault{"partial", func(w http.ResponseWriter, whole *httptest.ResponseRecorder) {
		whole.Header().Set("X-SQL-State", "S1TAT")
		whole.Header().Set("X-SQL-Message", "anytime query: time is up")
		pass(w, whole, http.StatusOK, []byte(`{"head":{"vars":["n"]},"results":{"bindings":[]}}`))
	}}
	// An HTML page with status 200.
	page = fault{"partial", func(w http.ResponseWriter, whole *httptest.ResponseRecorder) {
		whole.Header().Set("Content-Type", "text/html")
		pass(w, whole, http.StatusOK, []byte("<html><body>Maintenance</body></html>"))
	}}
	fails = fault{"error", func(w http.ResponseWriter, whole *httptest.ResponseRecorder) {
		whole.Header().Set("Content-Type", "text/plain")
		pass(w, whole, http.StatusInternalServerError, []byte("out of memory"))
	}}
)

// Answers that fail or are incomplete become gaps with a reason, never versions. A
// result changes in the next revision with a complete answer, compared with the last
// complete one.
func TestBenchRecordTroubled(t *testing.T) {
	clitest.NeedEngine(t)
	const hours = 8 // each is a revision; in the third nothing is applied or asked
	args := writeHistory(t, hours)
	plain := filepath.Join(t.TempDir(), "plain.trace")
	if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", plain}, args...)...); code != cli.ExitOK {
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
	if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", out, "--endpoint", s.URL},
		args...)...); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	got, truth := loadVersions(t, out), loadVersions(t, plain)
	var gaps []trace.Gap
	want := &trace.Trace{}
	for i, s := range truth.Series {
		known := trace.Series{Query: s.Query}
		last, at := []int64(nil), 0
		for rev := range hours + 1 {
			for at+1 < len(s.Versions) && s.Versions[at+1].Rev <= rev {
				at++
			}
			if rev == 3 {
				continue
			}
			if f, ok := e.faults[spot{rev, queries[i]}]; ok {
				gaps = append(gaps, trace.Gap{Rev: rev, Query: s.Query, Outcome: f.outcome})
				continue
			}
			rows, since := s.Versions[at].Rows, rev
			if last == nil {
				since = 0 // what is known first counts as what was there at t0
			}
			if last == nil || !cmp.Equal(rows, last) {
				known.Versions, last = append(known.Versions, trace.Version{Rev: since, Rows: rows}), rows
			}
		}
		want.Series = append(want.Series, known)
	}
	if g, w := versionsOf(got), versionsOf(want); g != w {
		t.Errorf("versions\n%s\nwant\n%s", g, w)
	}
	sameGaps(t, got.Gaps, gaps)
	e.mu.Lock()
	defer e.mu.Unlock()
	for k := range e.faults {
		if e.met[k] != 1 {
			t.Errorf("%q was asked %d times in revision %d, want once", k.text, e.met[k], k.rev)
		}
	}
}

func sameGaps(t *testing.T, got, want []trace.Gap) {
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

// An endpoint that refuses updates because of single triples gets all other triples.
// The refused ones are reported.
func TestBenchRecordRefusedTriples(t *testing.T) {
	clitest.NeedEngine(t)
	args := writeHistory(t, 4)
	plain := filepath.Join(t.TempDir(), "plain.trace")
	if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", plain}, args...)...); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	addBadTriples(t, args)
	engine, err := local.Open(t.Context(), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	next := local.Handler(engine, local.HandlerOptions{AllowUpdate: true})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if form, err := url.ParseQuery(string(body)); err == nil && strings.Contains(form.Get("update"), "#VALUE!") {
			http.Error(w, "invalid floating point value", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	}))
	defer s.Close()
	recordsWithout(t, args, plain, 2, "--endpoint", s.URL)
}

// A recording deletes no data that it finds, and adds nothing to it.
func TestBenchRecordNotEmpty(t *testing.T) {
	clitest.NeedEngine(t)
	args := writeHistory(t, 3)
	engine, err := local.Open(t.Context(), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	s := httptest.NewServer(local.Handler(engine, local.HandlerOptions{AllowUpdate: true}))
	defer s.Close()
	for _, x := range []struct{ graph, says string }{
		{"http://x/g", ""}, {"http://x/g", "http://x/g holds 2 triples already"}, {"", ""},
		{"", "the endpoint's default graph holds 2 triples already"},
	} {
		out := filepath.Join(t.TempDir(), "t.trace")
		code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", out, "--endpoint", s.URL, "--graph", x.graph},
			args...)...)
		if x.says == "" && code != cli.ExitOK || x.says != "" && (code != cli.ExitUsage || !strings.Contains(stderr, x.says)) {
			t.Errorf("graph %q: code %d, says %q, want %q", x.graph, code, stderr, x.says)
		}
	}
}

// A recording that was interrupted continues with the same trace, whatever the endpoint's
// data are then: part of a revision, a later one, or nothing.
func TestBenchRecordContinues(t *testing.T) {
	clitest.NeedEngine(t)
	args := writeHistory(t, 8)
	plain, out := filepath.Join(t.TempDir(), "plain.trace"), filepath.Join(t.TempDir(), "again.trace")
	if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", plain}, args...)...); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	engine, err := local.Open(t.Context(), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	next, down := local.Handler(engine, local.HandlerOptions{AllowUpdate: true}), true
	var sizes []int64 // of the file, one for each revision
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		form, _ := url.ParseQuery(string(body))
		if m := counted.FindStringSubmatch(form.Get("update")); m != nil && down {
			if m[1] == "6" {
				http.Error(w, "down", http.StatusServiceUnavailable)
				return
			}
			if st, err := os.Stat(out + ".part"); err == nil {
				sizes = append(sizes, st.Size())
			}
		}
		next.ServeHTTP(w, r)
	}))
	defer s.Close()
	record := append([]string{"bench", "record", "--out", out, "--endpoint", s.URL}, args...)
	if code, _, _ := runCLI(t, nil, "", record...); code == cli.ExitOK {
		t.Fatal("recorded in spite of a failing update")
	}
	down = false
	part, err := os.ReadFile(out + ".part")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		left   []byte
		update string
	}{
		{part[:sizes[2]], "INSERT DATA { <http://x/other> <http://x/n> 99 }"},
		{append(slices.Clone(part), "\x64torn"...), "INSERT DATA { <http://x/other> <http://x/n> 99 }"},
		{part, "DROP ALL"},
	} {
		if err := errors.Join(os.RemoveAll(out), os.WriteFile(out+".part", x.left, 0o600), engine.Update(t.Context(), x.update)); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := runCLI(t, nil, "", record...); code != cli.ExitOK {
			t.Fatal(stderr)
		}
		if g, w := versionsOf(loadVersions(t, out)), versionsOf(loadVersions(t, plain)); g != w {
			t.Errorf("recorded\n%s\nwant\n%s", g, w)
		}
	}
}

// addBadTriples adds invalid number literals to the base and to a changeset of a
// history.
func addBadTriples(t *testing.T, args []string) {
	t.Helper()
	const bad = `<http://x/s%d> <http://x/long> "#VALUE!"^^<http://www.w3.org/2001/XMLSchema#float> .` + "\n"
	for i, path := range []string{args[3], filepath.Join(args[1], "2020/01/01/01/000000.added.nt")} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(fmt.Appendf(nil, bad, i), before...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// recordsWithout records a history with bad triples. The changes must be those of the
// history without them.
func recordsWithout(t *testing.T, args []string, plain string, bad int, more ...string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "sifted.trace")
	code, _, stderr := runCLI(t, nil, "", append(append([]string{"bench", "record", "--out", out}, more...), args...)...)
	if code != cli.ExitOK || strings.Count(stderr, "left out") != bad {
		t.Fatalf("code %d, stderr\n%s\nwant %d triples left out", code, stderr, bad)
	}
	if got, want := loadVersions(t, out), loadVersions(t, plain); countsOf(got) != countsOf(want) {
		t.Errorf("recorded\n%s\nwithout bad triples\n%s", countsOf(got), countsOf(want))
	}
}

// countsOf lists the revisions in which results changed, with their sizes. Row ids
// differ between engines, which write literals differently.
func countsOf(tr *trace.Trace) string {
	var b strings.Builder
	for _, s := range tr.Series {
		for _, v := range s.Versions {
			fmt.Fprintln(&b, s.Query, v.Rev, len(v.Rows))
		}
	}
	return b.String()
}
