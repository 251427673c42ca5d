package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// A server that redirects, such as a proxy from http to https, is never asked for less than the command wants.
func TestRedirectsAreErrors(t *testing.T) {
	asked := 0
	secure := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		io.WriteString(w, `{}`)
	}))
	defer secure.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, secure.URL+r.RequestURI, http.StatusMovedPermanently)
	}))
	defer plain.Close()
	login := httptest.NewServer(http.RedirectHandler("/login", http.StatusFound))
	defer login.Close()
	says := "answers 301 Moved Permanently to " + secure.URL + ": name that with --server"
	for _, line := range []string{"query pause x", "query rm x", "endpoint set city budget=5s", "webhook replay wh_1", "query list",
		"backup " + filepath.Join(t.TempDir(), "b.db"), "health", "results x"} {
		code, out, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": plain.URL}, "", strings.Fields(line)...)
		if code != cli.ExitFailure || out != "" || !strings.Contains(stderr, plain.URL+" "+says) {
			t.Errorf("%s behind a redirect: exit code %d, prints %q, says %q", line, code, out, stderr)
		}
	}
	if asked > 0 {
		t.Errorf("%d requests were sent on", asked)
	}
	_, _, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": login.URL}, "", "query", "pause", "x")
	if want := "answers 302 Found to " + login.URL + "/login: is it a Freshet server?"; !strings.Contains(stderr, want) {
		t.Errorf("at a page for signing in it says %q, want %q", stderr, want)
	}
}

// What a webhook is after a replay is printed with --json.
func TestReplayAsJSON(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"id":"wh_1"}`) }))
	defer s.Close()
	code, out, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": s.URL}, "", "webhook", "replay", "wh_1", "--json")
	if code != cli.ExitOK || out != `{"id":"wh_1"}`+"\n" || stderr != "" {
		t.Errorf("exit code %d, prints %q, says %q", code, out, stderr)
	}
}

// A page of another program is neither a success nor a backup.
func TestPagesAreNoAnswers(t *testing.T) {
	kind := "text/html"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, "<!doctype html><title>Welcome</title>"+strings.Repeat("<p>More", 100))
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "freshet.db")
	if err := os.WriteFile(file, []byte("the good one"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"webhook replay wh_1", "query pause x", "query rm x", "cluster drain n1", "backup " + file,
		"query list", "query list --json"} {
		code, _, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": s.URL}, "", strings.Fields(line)...)
		if code != cli.ExitFailure || !strings.Contains(stderr, "is it a Freshet server?") {
			t.Errorf("%s: exit code %d, says %q", line, code, stderr)
		}
	}
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"hello":"world"}`) }))
	defer list.Close()
	code, _, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": list.URL}, "", "query", "list")
	if code != cli.ExitFailure || !strings.Contains(stderr, "is it a Freshet server?") {
		t.Errorf("a list of another program: exit code %d, says %q", code, stderr)
	}
	kind = "application/octet-stream"
	code, _, stderr = runCLI(t, map[string]string{"FRESHET_SERVER": s.URL}, "", "backup", file)
	if b, err := os.ReadFile(file); code != cli.ExitFailure || !strings.Contains(stderr, "is it a Freshet server?") ||
		string(b) != "the good one" {
		t.Errorf("a backup of a page: exit code %d, says %q, the file has %.20q, %v", code, stderr, b, err)
	}
}
