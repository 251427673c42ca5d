package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// The file in --config takes precedence over the one in FRESHET_CONFIG.
func TestConfigFileFlag(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	for path, text := range map[string]string{one: "contact: mailto:one@x.example\n", two: "contact: mailto:two@x.example\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"FRESHET_CONFIG": one}
	for _, x := range []struct {
		args []string
		want string
	}{{nil, "mailto:one@x.example"}, {[]string{"--config", two}, "mailto:two@x.example"}} {
		code, out, stderr := runCLI(t, env, "", append([]string{"config", "print"}, x.args...)...)
		if code != cli.ExitOK || !strings.Contains(out, "contact: "+x.want+"  # file\n") {
			t.Errorf("%v: exit code %d\n%s%s", x.args, code, out, stderr)
		}
	}
}

// Clients use the server in --server, else FRESHET_SERVER, and the token in --token-file, else
// FRESHET_TOKEN_FILE, else FRESHET_TOKEN.
func TestClientPrecedence(t *testing.T) {
	var seen string
	named := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = name + " " + r.Header.Get("Authorization")
			io.WriteString(w, `{"tokens":[]}`)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	one, two := named("one"), named("two")
	file := func(secret string) string {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := map[string]string{"FRESHET_SERVER": one}
	for _, x := range []struct {
		set, to string // variable set before
		args    []string
		want    string
	}{
		{"", "", nil, "one "},
		{"", "", []string{"--server", two + "/"}, "two "},
		{"FRESHET_TOKEN", "plain", nil, "one Bearer plain"},
		{"FRESHET_TOKEN_FILE", file("filed"), nil, "one Bearer filed"},
		{"", "", []string{"--token-file", file("flag")}, "one Bearer flag"},
	} {
		if x.set != "" {
			env[x.set] = x.to
		}
		code, _, stderr := runCLI(t, env, "", append([]string{"token", "list"}, x.args...)...)
		if code != cli.ExitOK || seen != x.want {
			t.Errorf("%v %v: exit code %d, the server saw %q, want %q\n%s", env, x.args, code, seen, x.want, stderr)
		}
	}
}

// An empty file of the token is an error: no request is sent without a token that is wanted.
func TestEmptyTokenFile(t *testing.T) {
	code, _, stderr := runCLI(t, map[string]string{"FRESHET_TOKEN_FILE": os.DevNull}, "", "token", "list")
	if want := "FRESHET_TOKEN_FILE: " + os.DevNull + " is empty"; code != cli.ExitUsage || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, says %q, want %q", code, stderr, want)
	}
}

// The endpoints of the example file are valid.
func TestExampleFileChecks(t *testing.T) {
	if code, _, stderr := runCLI(t, nil, "", "config", "check", "--config", "dist/freshet.example.yaml"); code != cli.ExitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// A file of a secret that cannot be read is named. It may come later, so that is no error.
func TestConfigCheckNamesMissingSecrets(t *testing.T) {
	file, there := filepath.Join(t.TempDir(), "f.yaml"), filepath.Join(t.TempDir(), "there")
	text := "endpoints:\n- {name: a, url: \"http://127.0.0.1:1/\", auth: {basic: {username: u, password_file: /nowhere/a}}}\n" +
		"- {name: b, url: \"http://127.0.0.1:2/\", auth: {digest: {username: u, password_file: /nowhere/b}}}\n" +
		"- {name: c, url: \"http://127.0.0.1:3/\", auth: {bearer: {token_file: /nowhere/c}}}\n" +
		"- {name: d, url: \"http://127.0.0.1:4/\", auth: {bearer: {token_file: " + there + "}}}\n"
	for name, text := range map[string]string{file: text, there: "secret"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, _, stderr := runCLI(t, nil, "", "config", "check", "--config", file)
	for i, want := range []string{"auth.basic.password_file: open /nowhere/a", "auth.digest.password_file: open /nowhere/b",
		"auth.bearer.token_file: open /nowhere/c"} {
		want = fmt.Sprintf("note: endpoints[%d] (%c): %s", i, 'a'+i, want)
		if code != cli.ExitOK || !strings.Contains(stderr, want) || strings.Count(stderr, "note:") != 3 {
			t.Errorf("exit code %d, says %s, want %q", code, stderr, want)
		}
	}
}

// What "serve" refuses at its start, "config check" refuses, too. Where a store may have what is missing, it says so.
func TestConfigCheckRefusesWhatServeRefuses(t *testing.T) {
	for name, x := range map[string]struct{ file, message, note string }{
		"listen":           {"listen: 0.0.0.0:0", "listening on 0.0.0.0:", "has a token"},
		"public_url":       {"listen: 127.0.0.1:0\npublic_url: https://freshet.example.org", "public_url https://", "has a token"},
		"default_endpoint": {"listen: 127.0.0.1:0\ndefault_endpoint: nope", "no endpoint is named nope", "has this endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			file := filepath.Join(t.TempDir(), "f.yaml")
			if err := os.WriteFile(file, []byte(x.file+"\ndata: "+data+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			check := func(command string, wanted int, text string, more ...string) {
				t.Helper()
				args := append(append(strings.Fields(command), "--config", file), more...)
				if code, _, said := runCLI(t, nil, "", args...); code != wanted || !strings.Contains(said, text) {
					t.Errorf("%s %v has exit code %d and says %q, want %d and %q", command, more, code, said, wanted, text)
				}
			}
			check("config check", cli.ExitUsage, x.message)
			if name != "default_endpoint" {
				check("config check", cli.ExitOK, "is good", "--insecure")
			}
			check("serve", cli.ExitUsage, x.message) // which makes a store
			check("config check", cli.ExitOK, x.note)
		})
	}
}
