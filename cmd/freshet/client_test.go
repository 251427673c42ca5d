package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/registry"
)

// The exit codes are a contract with scripts: 0 ok, 1 failure, 2 usage, 3 not
// found, 4 auth, 5 unreachable.
func TestExitCodeNumbers(t *testing.T) {
	for got, want := range map[int]int{cli.ExitOK: 0, cli.ExitFailure: 1, cli.ExitUsage: 2, cli.ExitNotFound: 3, cli.ExitAuth: 4,
		cli.ExitUnreachable: 5} {
		if got != want {
			t.Errorf("code %d, want %d", got, want)
		}
	}
	for status, want := range map[int]int{400: 2, 401: 4, 403: 4, 404: 3, 409: 1, 413: 1, 422: 2, 429: 1, 500: 1, 503: 1} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			io.WriteString(w, `{"title":"No","detail":"because"}`)
		}))
		code, out, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": s.URL}, "", "token", "list", "--json")
		if code != want || out != "" || stderr != "freshet: No: because\n" {
			t.Errorf("status %d: exit code %d, want %d; prints %q, says %q", status, code, want, out, stderr)
		}
		s.Close()
	}
	for _, x := range []struct {
		err  error
		want int
	}{
		{&client.RefusedError{Code: "unknown_query"}, 3},
		{fmt.Errorf("watch: %w", &client.RefusedError{Code: "not_allowed"}), 4},
		{&client.RefusedError{Code: "limit"}, 1},
		{&websocket.CloseError{Code: 4401}, 4},
		{&websocket.CloseError{Code: 4403}, 4},
		{&websocket.CloseError{Code: 4400}, 1},
		{context.Canceled, 0},
		{errors.New("other"), 1},
	} {
		if got := cli.ExitCode(watchError(x.err)); got != x.want {
			t.Errorf("watching ends with %v: exit code %d, want %d", x.err, got, x.want)
		}
	}
}

// Lists are read up to their last page.
func TestPages(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RawQuery {
		case "":
			w.Header().Add("Link", `<http://elsewhere.example/first>; rel="first", <http://public.example/v1/tokens?cursor=2>; rel="next"`)
			io.WriteString(w, `{"tokens":[{"name":"a","role":"app"}]}`)
		case "cursor=2":
			io.WriteString(w, `{"tokens":[{"name":"b","role":"read"}]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	code, out, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": s.URL}, "", "token", "list", "--json")
	if code != cli.ExitOK || strings.Count(out, "\n") != 2 || !strings.Contains(out, `"b"`) {
		t.Errorf("exit code %d, prints %q, says %q; want both pages", code, out, stderr)
	}
}

// The line for the configuration file matches the secret.
func TestLocalToken(t *testing.T) {
	code, out, stderr := runCLI(t, nil, "", "token", "add", "--local", "ops", "--role", "admin")
	secret := strings.TrimSpace(out)
	if code != cli.ExitOK || len(secret) < 43 || !strings.Contains(stderr, "{name: ops, role: admin, sha256: "+
		registry.HashSecret(secret)+"}") {
		t.Errorf("exit code %d, prints %q, says\n%s", code, out, stderr)
	}
	yaml := regexp.MustCompile(`(?m)^\s*- \{.*\}$`).FindString(stderr)
	file := filepath.Join(t.TempDir(), "freshet.yaml")
	if err := os.WriteFile(file, []byte("tokens:\n"+yaml+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runCLI(t, nil, "", "config", "check", "--config", file); code != cli.ExitOK {
		t.Errorf("%q in the file: %s", yaml, stderr)
	}
	_, out, _ = runCLI(t, nil, "", "token", "add", "--local", "ops", "--json")
	m := regexp.MustCompile(`"sha256":"([^"]+)","token":"([^"]+)"`).FindStringSubmatch(out)
	if m == nil || m[1] != registry.HashSecret(m[2]) || m[2] == secret {
		t.Errorf("with --json it prints %s", out)
	}
}

// Text from an endpoint cannot control the terminal.
func TestClean(t *testing.T) {
	if got := show.Bounded("a\x1b[31mb\u202ec\u2066d\r\n\u009be\x7ff é𝄞"); got != "a·[31mb·c·d···e·f é𝄞" {
		t.Errorf("%q", got)
	}
	if got := show.Bounded(strings.Repeat("é", 300)); got != strings.Repeat("é", 200)+"…" {
		t.Errorf("%q", got)
	}
}

// A command that runs for ever exits with 0 when interrupted. A command with a task to finish
// fails.
func TestInterrupted(t *testing.T) {
	asked := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // without this the server does not notice that the client has disconnected
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer s.Close()
	dir := t.TempDir()
	for line, want := range map[string]int{
		"query list": cli.ExitFailure, "query add -": cli.ExitFailure, "endpoint tick city": cli.ExitFailure, "backup " + dir +
			"/b.db": cli.ExitFailure,
		"hint city": cli.ExitFailure, "watch x": cli.ExitOK, "watch-entity http://x/e --follow": cli.ExitOK,
		"watch-entity http://x/e --follow=false": cli.ExitFailure,
		"hint city --changesets " + s.URL:        cli.ExitOK, "hint city --once --changesets " + s.URL: cli.ExitFailure,
		"hint city --once=false --changesets " + s.URL: cli.ExitOK,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		var said strings.Builder
		code := runLine(ctx, strings.Fields(line), &cli.Env{Stdin: strings.NewReader("ASK {}"), Stdout: io.Discard, Stderr: &said,
			Getenv: func(name string) string {
				return map[string]string{"FRESHET_SERVER": s.URL}[name]
			}})
		if code != want || (want == cli.ExitFailure) != strings.Contains(said.String(), "before it was finished") {
			t.Errorf("%s, interrupted: exit code %d, want %d; says %q", line, code, want, said.String())
		}
	}
}
