package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// What a person mistypes is answered with what was meant.
func TestMistakesAreAnswered(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
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
		{"serve --endpoint city", nil, cli.ExitUsage, "takes NAME=URL"},
		{"query list --server " + strings.Replace(plain.URL, "http:", "https:", 1), nil, cli.ExitUnreachable, "write http:// in place of https://"},
		{"query list --server " + closed.URL, nil, cli.ExitAuth, "set FRESHET_TOKEN"},
		{"query list --server " + closed.URL, map[string]string{"FRESHET_TOKEN": "x"}, cli.ExitAuth, "does not know the token from FRESHET_TOKEN"},
	} {
		code, _, stderr := runCLI(t, x.env, "", strings.Fields(x.line)...)
		if code != x.code || !strings.Contains(stderr, x.want) {
			t.Errorf("%s: exit code %d, want %d, %s, want %q", x.line, code, x.code, stderr, x.want)
		}
	}
}

// A variable that has no effect is named.
func TestUnknownVariablesAreNamed(t *testing.T) {
	var stderr strings.Builder
	environ := []string{"FRESHET_LISTN=x", "FRESHET_DATA=y", "FRESHET_TOKEN=z", "FRESHET_SERVICE_HOST=10.0.0.1", "HOME=/"}
	w := &cli.Env{Stdin: strings.NewReader(""), Stdout: &strings.Builder{}, Stderr: &stderr, Getenv: func(string) string { return "" }, Environ: func() []string { return environ }}
	if code := runLine(t.Context(), []string{"config", "print"}, w); code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if want := "freshet: the variable FRESHET_LISTN has no effect, did you mean FRESHET_LISTEN?\n"; stderr.String() != want {
		t.Errorf("it says %q, want %q", stderr.String(), want)
	}
}
