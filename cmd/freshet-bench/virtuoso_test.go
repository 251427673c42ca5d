//go:build virtuoso

package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/endpoint/virtuosotest"
)

// graph holds the data on Virtuoso.
const graph = "http://example.org/g"

// A history that is recorded on Virtuoso has the same changes as on the embedded
// engine, in the same revisions.
func TestBenchRecordVirtuoso(t *testing.T) {
	clitest.NeedEngine(t)
	args := writeHistory(t, 8)
	dir := t.TempDir()
	plain, there := filepath.Join(dir, "plain.trace"), filepath.Join(dir, "virtuoso.trace")
	if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", plain}, args...)...); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	v := virtuosotest.Start(t, virtuosotest.Options{})
	more := append([]string{"bench", "record", "--out", there, "--endpoint", v.URL, "--update-param", "query", "--graph", graph}, args...)
	if code, _, stderr := runCLI(t, nil, "", more...); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	whole := loadVersions(t, there)
	want := loadVersions(t, plain)
	for i, s := range want.Series {
		got := whole.Series[i]
		if len(got.Versions) != len(s.Versions) {
			t.Fatalf("query %d has %d versions, on the embedded engine %d", s.Query, len(got.Versions), len(s.Versions))
		}
		for k, w := range s.Versions {
			if g := got.Versions[k]; g.Rev != w.Rev || len(g.Rows) != len(w.Rows) {
				t.Errorf("query %d, version %d: revision %d with %d rows, on the embedded engine %d with %d", s.Query, k, g.Rev, len(g.Rows),
					w.Rev, len(w.Rows))
			}
		}
	}
	if len(whole.Gaps) > 0 {
		t.Errorf("gaps: %v", whole.Gaps)
	}
}

// A recording on Virtuoso that is killed repeatedly equals one that is not. Each
// changeset adds a blank node, which would show that it was applied twice. After every
// second kill the file also loses its last revision, as if the process had ended
// between applying and asking.
func TestBenchRecordVirtuosoKilled(t *testing.T) {
	clitest.NeedEngine(t)
	const hours = 12
	args := writeHistory(t, hours)
	for _, path := range glob(t, filepath.Join(args[1], "2020/01/01/*/000000.added.nt")) {
		appendTo(t, path, "_:b <http://x/in> \"hour\" .\n")
	}
	appendTo(t, args[5], `{"id":"blank","query":"SELECT (COUNT(*) AS ?n) { ?b <http://x/in> ?h }"}`+"\n")
	dir := t.TempDir()
	whole, killed := filepath.Join(dir, "whole.trace"), filepath.Join(dir, "killed.trace")
	if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", whole}, args...)...); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	v := virtuosotest.Start(t, virtuosotest.Options{})
	more := append([]string{"record", "--out", killed, "--endpoint", slowed(t, v.URL), "--update-param", "query", "--graph", graph}, args...)
	kills := killUntilDone(t, killed, more, func(kills int) {
		if kills%2 == 0 {
			appendTo(t, killed+".part", "\x64torn") // as a crash leaves what was being written
		}
	})
	if kills < 3 {
		t.Errorf("the recording was killed %d times only", kills)
	}
	got, want := loadVersions(t, killed), loadVersions(t, whole)
	if len(got.Gaps) > 0 {
		t.Errorf("gaps: %v", got.Gaps)
	}
	if g, w := countsOf(got), countsOf(want); g != w {
		t.Errorf("after %d kills on Virtuoso the trace has\n%s\nin one go on the embedded engine\n%s", kills, g, w)
	}
}

// slowed is an endpoint that delays the answers of another, so that even a busy
// machine kills a recording before it ends.
func slowed(t *testing.T, endpoint string) string {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: u.Scheme, Host: u.Host}) },
		ErrorLog: log.New(io.Discard, "", 0), // of requests that a kill ended
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + u.Path
}

// Virtuoso refuses literals that do not fit their datatype, and with them everything
// in the same request.
func TestBenchRecordVirtuosoRefuses(t *testing.T) {
	clitest.NeedEngine(t)
	args := writeHistory(t, 4)
	plain := filepath.Join(t.TempDir(), "plain.trace")
	if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", plain}, args...)...); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	addBadTriples(t, args)
	// With this it answers 500.
	appendTo(t, filepath.Join(args[1], "2020/01/01/00/000000.added.nt"),
		"<http://x/s> <http://x/year> \"-0001\"^^<http://www.w3.org/2001/XMLSchema#gYear> .\n")
	v := virtuosotest.Start(t, virtuosotest.Options{})
	recordsWithout(t, args, plain, 3, "--endpoint", v.URL, "--update-param", "query", "--graph", graph)
}

// Subscribers receive every change over Virtuoso too.
func TestBenchReplayVirtuoso(t *testing.T) {
	v := virtuosotest.Start(t, virtuosotest.Options{})
	hearsAll(t, "--endpoint", v.URL, "--update-param", "query", "--graph", graph)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil || len(list) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(list), err)
	}
	return list
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
