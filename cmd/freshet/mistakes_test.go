package main

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/web/api"
)

// What a person mistypes is answered with what was meant.
func TestMistakesAreAnswered(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "come back at noon", http.StatusServiceUnavailable)
	}))
	defer busy.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"title":"A token is required","status":401,"detail":"send a valid token as \"Authorization: Bearer …\""}`))
	}))
	defer closed.Close()
	for _, x := range []struct {
		line string
		env  map[string]string
		code int
		want string
	}{
		{"serv", nil, cli.ExitUsage, "did you mean serve?"},
		{"query lst", nil, cli.ExitUsage, "did you mean list?"},
		{"serve --lisen 127.0.0.1:0", nil, cli.ExitUsage, "did you mean --listen?"},
		{"query list --srver x", nil, cli.ExitUsage, "did you mean --server?"},
		{"serve --endpoint wikidata", nil, cli.ExitUsage, "freshet endpoint add --pack wikidata"},
		{"serve --endpoint wikdata", nil, cli.ExitUsage, "freshet endpoint add --pack wikidata"},
		{"serve --endpoint city", nil, cli.ExitUsage, `takes NAME=URL, not "city", such as coins=http`},
		{"serve --endpoint city", nil, cli.ExitUsage, "there are packs: commons, dbpedia, "},
		{"hint city --from 2015-11-16-16-000000 --once", nil, cli.ExitUsage, "--from: give it with --changesets"},
		{"hint city --touched http://x/a --once", nil, cli.ExitUsage, "--once: give it with --changesets"},
		{"hint city --every 10s", nil, cli.ExitUsage, "--every: give it with --changesets"},
		{"hint city --changesets=", nil, cli.ExitUsage, "--changesets: name a directory or a URL"},
		{"query list --server " + strings.Replace(plain.URL, "http:", "https:", 1), nil, cli.ExitUnreachable,
			"write http:// in place of https://"},
		{"health --server " + strings.Replace(secure.URL, "https:", "http:", 1), nil, cli.ExitUsage,
			"the server speaks TLS: write https:// in place of http://"},
		{"health --server " + busy.URL, nil, cli.ExitFailure, "503 Service Unavailable: come back at noon\n"},
		{"query list --server " + closed.URL, nil, cli.ExitAuth, "set FRESHET_TOKEN"},
		{"query list --server " + closed.URL, map[string]string{"FRESHET_TOKEN": "x"}, cli.ExitAuth,
			"does not know the token from FRESHET_TOKEN"},
	} {
		code, _, stderr := runCLI(t, x.env, "", strings.Fields(x.line)...)
		if code != x.code || !strings.Contains(stderr, x.want) {
			t.Errorf("%s: exit code %d, want %d, %s, want %q", x.line, code, x.code, stderr, x.want)
		}
	}
}

// The file of a profile is a JSON object.
func TestProfileFilesThatAreNone(t *testing.T) {
	for _, stdin := range []string{"null", "[1]", "{"} {
		code, _, stderr := runCLI(t, nil, stdin, "profile", "add", "--item", "x every 5m", "-")
		if code != cli.ExitUsage || !strings.Contains(stderr, "- is no JSON object") {
			t.Errorf("%s: exit code %d, says %q", stdin, code, stderr)
		}
	}
	code, _, stderr := runCLI(t, nil, "", "profile", "add", "/nonexistent.json")
	if code != cli.ExitUsage || strings.Contains(stderr, "query") || !strings.Contains(stderr, "open /nonexistent.json") {
		t.Errorf("exit code %d, says %q", code, stderr)
	}
}

// A variable that has no effect is named.
func TestUnknownVariablesAreNamed(t *testing.T) {
	var stderr strings.Builder
	environ := []string{"FRESHET_LISTN=x", "FRESHET_DATA=y", "FRESHET_TOKEN=z", "FRESHET_SERVICE_HOST=10.0.0.1", "HOME=/"}
	w := &cli.Env{Stdin: strings.NewReader(""), Stdout: &strings.Builder{}, Stderr: &stderr,
		Getenv: func(string) string { return "" }, Environ: func() []string { return environ }}
	if code := runLine(t.Context(), []string{"config", "print"}, w); code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if want := "freshet: the variable FRESHET_LISTN has no effect, did you mean FRESHET_LISTEN?\n"; stderr.String() != want {
		t.Errorf("it says %q, want %q", stderr.String(), want)
	}
}

// Each setting of the server has a variable, except those that the help and the reference name.
func TestVariablesOfSettings(t *testing.T) {
	var stderr strings.Builder
	var environ []string
	for _, d := range serverSettings {
		environ = append(environ, config.Variable(d.key)+"=x")
	}
	w := &cli.Env{Stdin: strings.NewReader(""), Stdout: &strings.Builder{}, Stderr: &stderr,
		Getenv: func(string) string { return "" }, Environ: func() []string { return environ }}
	if code := runLine(t.Context(), []string{"config", "print"}, w); code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	reference, err := os.ReadFile("../../web/docs/reference-configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("dist/freshet.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(stderr.String()), "\n") {
		line, _, _ = strings.Cut(line, ", did you mean")
		name := strings.TrimSuffix(strings.TrimPrefix(line, "freshet: the variable FRESHET_"), " has no effect")
		key := strings.ToLower(strings.Replace(name, "_", ".", 1))
		for place, text := range map[string]string{"the help": configTable.long, "the reference": string(reference),
			"the example": string(example)} {
			if head, _, _ := strings.Cut(text, "FRESHET_LIMITS_BODY"); !strings.Contains(head, key) {
				t.Errorf("%s says that %s has a variable", place, key)
			}
		}
	}
}

// An error says its title once.
func TestTitlesAreNotRepeated(t *testing.T) {
	for detail, want := range map[string]string{
		"the server's disk is full and nothing was stored": "the server's disk is full and nothing was stored",
		"The server's disk is full":                        "The server's disk is full",
		"no room":                                          "The server's disk is full: no room",
		"":                                                 "The server's disk is full",
	} {
		if got := (&problem{api.Problem{Title: "The server's disk is full", Detail: detail}}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// An explanation begins with its sentence, and a number that is nothing is called that.
func TestExplanationBeginsWithItsSentence(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"slot":3,"why":"it is number 2 of 5","inputs":{"price":7.888e-31,"worth":0.25}}`))
	}))
	defer s.Close()
	code, out, stderr := runCLI(t, nil, "", "query", "show", "x", "--explain", "--server", s.URL)
	if want := "it is number 2 of 5\n\nslot  3\ninputs\n  price  about 0\n  worth  0.25\n"; code != cli.ExitOK || out != want {
		t.Errorf("exit code %d, %s\n%q\n%q", code, stderr, out, want)
	}
}

// A command that follows changesets says where it begins.
func TestHintSaysWhereItBegins(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lastPublishedFile.txt"), []byte("2026-11-24-10-000003\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var stderr printed
	ended := make(chan int, 1)
	go func() {
		ended <- runLine(ctx, []string{"hint", "things", "--changesets", dir, "--every", "1h"}, &cli.Env{Stdin: strings.NewReader(""),
			Stdout: &strings.Builder{}, Stderr: &stderr, Getenv: func(string) string { return "" }})
	}()
	clitest.Eventually(t, "where it begins", func() bool {
		return strings.Contains(stderr.String(), "from 2026-11-24-10-000004 on") || len(ended) > 0
	})
	stop()
	if code := <-ended; code != cli.ExitOK {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
}
