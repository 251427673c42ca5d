package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/registry"
)

// runLine runs one command line in this process.
func runLine(ctx context.Context, args []string, w *cli.Env) int {
	return cli.Run(ctx, newRoot(w), args, w)
}

// runCLI runs one command line in this process and returns its output.
func runCLI(t *testing.T, env map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, newRoot, env, stdin, args...)
}

// binary builds the program.
func binary(t testing.TB, flags ...string) string {
	t.Helper()
	return clitest.Build(t, "freshet", flags...)
}

func TestMain(m *testing.M) { clitest.Main(m) }

// A town is a running server over an embedded endpoint with two triples.
type town struct{ clitest.Town }

func newTown(t *testing.T, more string) town { return town{clitest.NewTown(t, binary(t), more)} }

// must runs a command that has to succeed and returns its output.
func (w town) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	code, out, stderr := runCLI(t, w.Env, stdin, args...)
	if code != cli.ExitOK {
		t.Fatalf("freshet %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return out
}

// This is a user's first session on the command line.
func TestCommandLine(t *testing.T) {
	w := newTown(t, "")
	id := strings.TrimSpace(w.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "numbers", "--tag", "demo", "-"))
	if !strings.HasPrefix(id, "q_") {
		t.Fatalf("query add prints %q, want an id", id)
	}
	if out := w.must(t, "", "endpoint", "tick", "city"); !strings.HasPrefix(out, "slot 1: 1 ran, 0 changed") {
		t.Errorf("tick prints %q", out)
	}
	if out := w.must(t, "", "query", "list", "--tag", "demo"); !strings.Contains(out, id) || !strings.Contains(out, "numbers") ||
		!strings.Contains(out, "live") {
		t.Errorf("query list prints\n%s", out)
	}
	const want = `{"head":{"vars":["s","n"]},"results":{"bindings":[` +
		`{"s":{"type":"uri","value":"http://x/a"},"n":{"type":"literal","value":"1"}},{"s":{"type":"uri","value":"http://x/b"},` +
		`"n":{"type":"literal","value":"2"}}]}}`
	if out := w.must(t, "", "query", "show", "numbers", "--results"); out != want+"\n" {
		t.Errorf("results are %s\nwant %s", out, want)
	}
	var x struct {
		Executions int    `json:"executions"`
		Name       string `json:"name"`
	}
	if err := json.Unmarshal([]byte(w.must(t, "", "query", "show", id, "--json")), &x); err != nil || x.Executions != 1 ||
		x.Name != "numbers" {
		t.Errorf("query show --json: %+v, %v", x, err)
	}
	w.Update(t, `DELETE DATA { <http://x/a> <http://x/n> "1" }`)
	if out := w.must(t, "", "endpoint", "tick", "city"); !strings.HasPrefix(out, "slot 2: 1 ran, 1 changed") {
		t.Errorf("tick prints %q", out)
	}
	if out := w.must(t, "", "endpoint", "slots", "city", "--limit", "1", "--json"); strings.Count(out, "\n") != 1 ||
		!strings.Contains(out, `"slot":2`) {
		t.Errorf("slots --json prints %q, want one line about slot 2", out)
	}
	comma := w.must(t, "ASK {}", "query", "add", "--default-graph", "http://x/a,b", "--default-graph", "http://x/c", "--json", "-")
	var graphs struct {
		ID      string
		Default []string `json:"default_graph_uri"`
	}
	if err := json.Unmarshal([]byte(comma), &graphs); err != nil || !slices.Equal(graphs.Default, []string{"http://x/a,b", "http://x/c"}) {
		t.Errorf("graphs are %q (%v), want the comma kept", graphs.Default, err)
	}
	w.must(t, "", "query", "rm", graphs.ID)
	w.must(t, "", "query", "pause", "numbers")
	if out := w.must(t, "", "query", "list", "--state", "paused"); !strings.Contains(out, id) {
		t.Errorf("list of paused queries:\n%s", out)
	}
	w.must(t, "", "query", "resume", "numbers")
	w.must(t, "", "query", "refresh", "numbers")
	if out := w.must(t, "", "query", "show", "numbers", "--explain"); !strings.Contains(out, "refresh") {
		t.Errorf("explain says\n%s", out)
	}
	backup := filepath.Join(t.TempDir(), "freshet.db")
	w.must(t, "", "backup", backup)
	w.must(t, "", "backup", backup) // replaces the first one
	if left, err := os.ReadDir(filepath.Dir(backup)); err != nil || len(left) != 1 {
		t.Errorf("beside the backup there is more: %v %v", left, err)
	}
	w.must(t, "", "store", "check", "--data", filepath.Dir(backup))
	w.must(t, "", "store", "compact", "--data", filepath.Dir(backup))
	w.must(t, "", "store", "check", "--data", filepath.Dir(backup))
	w.must(t, "", "endpoint", "add", "other", w.Endpoint, "--set", "slot=never")
	w.must(t, "ASK {}", "query", "add", "--endpoint", "other", "--name", "lost", "-")
	w.must(t, "", "endpoint", "rm", "other")
	for _, gone := range [][]string{{"endpoint", "show", "other"}, {"query", "show", "lost"}} {
		if code, _, _ := runCLI(t, w.Env, "", gone...); code != cli.ExitNotFound {
			t.Errorf("exit code of %v after the endpoint was removed is %d, want %d", gone, code, cli.ExitNotFound)
		}
	}
	exported := w.must(t, "", "store", "export", "--data", filepath.Dir(backup))
	if strings.Count(exported, "\n") != 2 || !strings.Contains(exported, id) {
		t.Errorf("the export holds\n%s\nwant the endpoint and the query", exported)
	}
	fresh := t.TempDir()
	w.must(t, exported, "store", "import", "--data", fresh, "-")
	w.must(t, exported, "store", "import", "--data", fresh, "-") // existing queries are kept
	if again := w.must(t, "", "store", "export", "--data", fresh); again != exported {
		t.Errorf("exported, imported and exported again:\n%s\nwant\n%s", again, exported)
	}
	w.must(t, "", "query", "rm", "numbers")
	if code, _, _ := runCLI(t, w.Env, "", "query", "show", "numbers"); code != cli.ExitNotFound {
		t.Errorf("exit code for a query that ended is %d, want %d", code, cli.ExitNotFound)
	}
}

// With --json, every command that talks to a server or prints data prints one JSON object per
// line on standard output, and nothing else.
func TestJSONOutput(t *testing.T) {
	w := newTown(t, "")
	dir := t.TempDir()
	file := filepath.Join(dir, "freshet.db")
	for _, line := range []string{
		"query add --name x -", "query validate -", "query list", "query show x", "query show x --explain", "query pause x",
		"query resume x", "query refresh x", "endpoint tick city", "endpoint slots city", "endpoint list", "endpoint show city",
		"endpoint add other " + w.Endpoint, "endpoint set other slot=never max_rows=5 allow_service=true", "endpoint pause other",
		"endpoint resume other",
		"endpoint rm other", "query rm x", "backup " + file, "store check --data " + dir,
		"store compact " + filepath.Join(dir, "copy.db") + " --data " + dir, "store compact --data " + dir,
		"config check", "config print", "version",
		"token add shop --local", "token list",
	} {
		out := w.must(t, "ASK {}", append(strings.Fields(line), "--json")...)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		for _, l := range lines {
			var object map[string]any
			if err := json.Unmarshal([]byte(l), &object); err != nil && (line != "token list" || out != "") {
				t.Errorf("%s --json prints %q: %v", line, out, err)
			}
		}
	}
}

func TestExitCodes(t *testing.T) {
	w := newTown(t, "tokens: [{name: ops, role: admin, sha256: \""+registry.HashSecret("s3cret-of-an-operator")+
		"\"}, {name: eye, role: read, sha256: \""+registry.HashSecret("look-but-do-not-touch")+"\"}]\n")
	with := func(token string) map[string]string {
		return map[string]string{"FRESHET_SERVER": w.Env["FRESHET_SERVER"], "FRESHET_TOKEN": token}
	}
	unreachable := map[string]string{"FRESHET_SERVER": "http://" + clitest.FreeAddr(t)}
	for _, x := range []struct {
		name  string
		env   map[string]string
		stdin string
		args  []string
		want  int
		says  string
	}{
		{"good", with("s3cret-of-an-operator"), "", []string{"query", "list"}, cli.ExitOK, ""},
		{"no token", w.Env, "", []string{"query", "list"}, cli.ExitAuth, ""},
		{"wrong token", with("guess"), "", []string{"query", "list"}, cli.ExitAuth, ""},
		{"not allowed", with("look-but-do-not-touch"), "ASK {}", []string{"query", "add", "-"}, cli.ExitAuth, ""},
		{"not found", with("s3cret-of-an-operator"), "", []string{"query", "show", "nothing"}, cli.ExitNotFound, ""},
		{"bad query", with("s3cret-of-an-operator"), "SELECT", []string{"query", "add", "-"}, cli.ExitUsage, "line 1"},
		{"query in Latin-1", with("s3cret-of-an-operator"), "ASK { ?s ?p \"caf\xe9\" }", []string{"query", "add", "-"}, cli.ExitUsage, "UTF-8"},
		{"update", with("s3cret-of-an-operator"), "DROP ALL", []string{"query", "add", "-"}, cli.ExitUsage, "SPARQL Update"},
		{"bad flag", w.Env, "", []string{"query", "list", "--colour"}, cli.ExitUsage, "--help"},
		{"bad command", w.Env, "", []string{"query", "lst"}, cli.ExitUsage, "--help"},
		{"missing argument", w.Env, "", []string{"query", "show"}, cli.ExitUsage, "ID is missing\nUsage"},
		{"missing second argument", w.Env, "", []string{"endpoint", "set", "city"}, cli.ExitUsage, "KEY=VALUE is missing\nUsage"},
		{"one argument too many", w.Env, "", []string{"rule", "try", "x"}, cli.ExitUsage, "\"x\" is one argument too many\nUsage"},
		{"exclusive flags", w.Env, "", []string{"results", "x", "--at", "2026-11-01", "--seq", "1"}, cli.ExitUsage,
			"--at and --seq exclude each other: give one of them\nSee 'freshet results --help'"},
		{"no pair", w.Env, "", []string{"endpoint", "set", "city", "budget"}, cli.ExitUsage, "budget=5s, not \"budget\""},
		{"check without a contact", w.Env, "", []string{"endpoint", "check", "https://sparql.example.org/"}, cli.ExitUsage,
			"name one with --contact"},
		{"bad time of a rule", with("s3cret-of-an-operator"), "", []string{"rule", "add", "x", "--query", "y", "--when", "rows > 0",
			"--for", "5"}, cli.ExitUsage, "\"5\" is not a duration such as 90s, 10m or 24h (for)"},
		{"no cluster", with("s3cret-of-an-operator"), "", []string{"cluster", "status"}, cli.ExitNotFound,
			"is no node of a cluster: name one with --server"},
		{"drain without a cluster", with("s3cret-of-an-operator"), "", []string{"cluster", "drain", "n1"}, cli.ExitNotFound,
			"is no node of a cluster: name one with --server"},
		{"no number", w.Env, "ASK {}", []string{"query", "add", "--weight", "NaN", "-"}, cli.ExitUsage,
			"--weight: NaN is not a number that can be sent"},
		{"no finite number", w.Env, "ASK {}", []string{"query", "add", "--weight", "inf", "-"}, cli.ExitUsage,
			"--weight: +Inf is not a number that can be sent"},
		{"demo for the network", w.Env, "", []string{"demo", "--listen", "0.0.0.0:0"}, cli.ExitUsage, "--listen: the demo has no tokens"},
		{"follow for the network", w.Env, "", []string{"follow", "http://x.example/a", "--listen", "0.0.0.0:0", "--url", w.Endpoint},
			cli.ExitUsage, "--listen: the server of this command has no tokens"},
		{"no format", with("s3cret-of-an-operator"), "", []string{"results", "x", "--format", "xml"}, cli.ExitUsage,
			"\"xml\": there are srj, srx"},
		{"webhook on nothing", with("s3cret-of-an-operator"), "", []string{"webhook", "add", "http://127.0.0.1:9/", "--query", "nowhere"},
			cli.ExitNotFound, "No such query: no query has the id or name \"nowhere\""},
		{"profile on nothing", with("s3cret-of-an-operator"), "", []string{"profile", "add", "--item", "nowhere every 5m"}, cli.ExitNotFound,
			"No such query"},
		{"query at nothing", with("s3cret-of-an-operator"), "ASK { ?s ?p ?o }", []string{"query", "add", "--endpoint", "nowhere", "-"},
			cli.ExitNotFound, "No such endpoint"},
		{"followers of nothing", with("s3cret-of-an-operator"), "", []string{"subscription", "list", "--query", "nowhere"},
			cli.ExitNotFound, "no query has this id or name"},
		{"no file", w.Env, "", []string{"query", "add", "/nonexistent.rq"}, cli.ExitUsage, "nonexistent"},
		{"unknown setting", with("s3cret-of-an-operator"), "", []string{"endpoint", "set", "city", "bugdet=5s"}, cli.ExitUsage, "bugdet"},
		{"bad value", with("s3cret-of-an-operator"), "", []string{"endpoint", "set", "city", "budget=5"}, cli.ExitUsage, "(budget)"},
		{"hint for nothing", with("s3cret-of-an-operator"), "", []string{"hint", "nowhere"}, cli.ExitNotFound, "no endpoint is named nowhere"},
		{"shadow of nothing", with("s3cret-of-an-operator"), "", []string{"endpoint", "shadow", "list", "nowhere"}, cli.ExitNotFound,
			"no endpoint is named nowhere"},
		{"no word", with("two words"), "", []string{"query", "list"}, cli.ExitUsage, "token"},
		{"another server", map[string]string{"FRESHET_SERVER": strings.TrimSuffix(w.Endpoint, "/sparql")}, "",
			[]string{"query", "list"}, cli.ExitFailure, "is it a Freshet server"},
		{"no URL", map[string]string{"FRESHET_SERVER": "127.0.0.1:8080"}, "", []string{"query", "list"}, cli.ExitUsage, "http://"},
		{"help about nothing", w.Env, "", []string{"help", "query", "lst"}, cli.ExitUsage, "query lst"},
		{"completion for no shell", w.Env, "", []string{"completion", "tcsh"}, cli.ExitUsage, "tcsh"},
		{"no server", unreachable, "", []string{"query", "list"}, cli.ExitUnreachable, "freshet serve"},
		{"watch without server", unreachable, "", []string{"watch", "x"}, cli.ExitUnreachable, "freshet serve"},
		{"watch nothing", with("s3cret-of-an-operator"), "", []string{"watch", "nothing"}, cli.ExitNotFound, ""},
		{"no engine", w.Env, "", []string{"sparql", "--engine", "/nonexistent.wasm"}, cli.ExitUsage, "not found at /nonexistent.wasm"},
		{"no changesets", w.Env, "", []string{"sparql", "--changesets", t.TempDir()}, cli.ExitUsage, "there are none in"},
		{"no file to load", w.Env, "", []string{"sparql", "--load", "/nonexistent.nt"}, cli.ExitUsage, "/nonexistent.nt"},
		{"nothing to load", w.Env, "", []string{"sparql", "--load", "cli_test.go"}, cli.ExitUsage, ".ttl"},
		{"no time", w.Env, "", []string{"sparql", "--every", "0s"}, cli.ExitUsage, "--every"},
		{"no time in the demo", w.Env, "", []string{"demo", "--every", "0s"}, cli.ExitUsage, "--every"},
		{"address of the endpoint in use", w.Env, "", []string{"sparql", "--listen", strings.TrimPrefix(w.Env["FRESHET_SERVER"],
			"http://")}, cli.ExitFailure, "choose another address"},
		{"no address of this machine", w.Env, "", []string{"serve", "--data", t.TempDir(), "--listen", "203.0.113.1:0"},
			cli.ExitFailure, "address of this machine"},
		{"bad config", w.Env, "", []string{"serve", "--config", "/nonexistent.yaml"}, cli.ExitUsage, "nonexistent"},
		{"address in use", w.Env, "", []string{"serve", "--data", t.TempDir(), "--listen", strings.TrimPrefix(w.Env["FRESHET_SERVER"],
			"http://")}, cli.ExitFailure, "--listen"},
		{"open to a proxy's strangers", w.Env, "", []string{"serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--public-url",
			"https://freshet.example.org"}, cli.ExitUsage, "public_url"},
		{"open to strangers", w.Env, "", []string{"serve", "--data", t.TempDir(), "--listen", "0.0.0.0:0"}, cli.ExitUsage, "--insecure"},
	} {
		code, out, stderr := runCLI(t, x.env, x.stdin, x.args...)
		if code != x.want || !strings.Contains(stderr, x.says) {
			t.Errorf("%s: exit code %d, want %d; says %q, want %q in it", x.name, code, x.want, stderr, x.says)
		}
		if x.want != cli.ExitOK && out != "" {
			t.Errorf("%s: data on standard output after a failure: %q", x.name, out)
		}
	}
}

// A second server on the same store is refused with the reason.
func TestStoreLocked(t *testing.T) {
	clitest.NeedEngine(t)
	data := t.TempDir()
	clitest.Serve(t, binary(t), clitest.FreeAddr(t), data, "")
	code, _, stderr := runCLI(t, nil, "", "serve", "--data", data, "--listen", clitest.FreeAddr(t))
	if code == cli.ExitOK || !strings.Contains(stderr, "freshet.db") || !strings.Contains(stderr, "process") {
		t.Errorf("exit code %d, says %q", code, stderr)
	}
}

// A backup replaces an older one, but not a file that a server uses. A backup that fails keeps
// the existing file.
func TestBackupOverAFile(t *testing.T) {
	w := newTown(t, "")
	dir := t.TempDir()
	old := filepath.Join(dir, "old.db")
	if err := os.WriteFile(old, []byte("the one of yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := map[string]string{"FRESHET_SERVER": "http://" + clitest.FreeAddr(t)}
	if code, _, _ := runCLI(t, gone, "", "backup", old); code == cli.ExitOK {
		t.Error("a backup of nothing")
	}
	if b, err := os.ReadFile(old); err != nil || string(b) != "the one of yesterday" {
		t.Errorf("after a backup that failed the older one holds %.50q, %v", b, err)
	}
	w.must(t, "", "backup", old)
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("beside the backup: %v, %v", list, err)
	}
	live := filepath.Join(w.Store, "freshet.db")
	before, err := os.Stat(live)
	if err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runCLI(t, w.Env, "", "backup", live)
	if code != cli.ExitUsage || !strings.Contains(stderr, "running server") {
		t.Errorf("a backup onto the live store: exit code %d, says %q", code, stderr)
	}
	if after, err := os.Stat(live); err != nil || !os.SameFile(before, after) {
		t.Errorf("the server writes to a file without a name: %v", err)
	}
	if code, _, stderr := runCLI(t, w.Env, "", "backup", dir); code != cli.ExitUsage || !strings.Contains(stderr, "regular file") {
		t.Errorf("a backup onto a directory: exit code %d, says %q", code, stderr)
	}
	nowhere := filepath.Join(dir, "nowhere", "x.db")
	if code, _, said := runCLI(t, w.Env, "", "backup", nowhere); code == cli.ExitOK || !strings.Contains(said, "write "+nowhere+":") {
		t.Errorf("a backup into no directory: exit code %d, says %q", code, said)
	}
}

// Commands that maintain a store do not create one.
func TestNoStore(t *testing.T) {
	dir := t.TempDir()
	for _, line := range []string{"store check", "store export", "store compact",
		"store compact " + filepath.Join(dir, "copy.db")} {
		code, out, stderr := runCLI(t, nil, "", append(strings.Fields(line), "--data", dir)...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(stderr, "no store") {
			t.Errorf("%s: exit code %d, prints %q, says %q", line, code, out, stderr)
		}
	}
	if _, _, stderr := runCLI(t, map[string]string{"FRESHET_DATA": dir}, "", "store", "check"); !strings.Contains(stderr, dir) {
		t.Errorf("with a variable: %q", stderr)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("the directory holds %v, %v", list, err)
	}
}

// Watching prints each change and survives a restart of the server.
func TestWatch(t *testing.T) {
	const name = "numbers@100+1" // characters with a meaning in other parts of a URL
	w := newTown(t, "")
	w.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", name, "-")
	w.must(t, "", "endpoint", "tick", "city")
	ctx, cancel := context.WithCancel(t.Context())
	r, out := io.Pipe()
	done := make(chan int, 1)
	go func() {
		defer out.Close()
		done <- runLine(ctx, []string{"watch", name, "--json"}, &cli.Env{Stdout: out, Stderr: io.Discard,
			Getenv: func(k string) string { return w.Env[k] }})
	}()
	lines := json.NewDecoder(r)
	next := func(typ string) map[string]any {
		t.Helper()
		for {
			var m map[string]any
			if err := lines.Decode(&m); err != nil {
				t.Fatal(err)
			}
			if m["type"] == typ {
				return m
			}
		}
	}
	if m := next("snapshot"); m["seq"] != 1.0 {
		t.Errorf("snapshot at %v, want 1", m["seq"])
	}
	w.Update(t, `INSERT DATA { <http://x/c> <http://x/n> "3" }`)
	w.must(t, "", "endpoint", "tick", "city")
	m := next("delta")
	added, _ := json.Marshal(m["added"])
	if m["seq"] != 2.0 || m["prev"] != 1.0 || !strings.Contains(string(added), "http://x/c") {
		t.Errorf("delta %v", m)
	}
	cancel()
	if code := <-done; code != cli.ExitOK {
		t.Errorf("exit code after an interrupt is %d", code)
	}
}

// While there is no result, watch reports that and why.
func TestWatchWithoutResult(t *testing.T) {
	var out, messages strings.Builder
	a := &remote{w: &cli.Env{Stdout: &out, Stderr: &messages}}
	for _, e := range []client.Event{
		{Kind: client.Subscribed, Empty: true},
		{Kind: client.Status, Health: "stale", Reason: "failing", Error: "400 the endpoint refuses this query"},
		{Kind: client.Status, Health: "live"},
		{Kind: client.Subscribed, Empty: true, Resumed: true},
		{Kind: client.Subscribed},
	} {
		if err := a.watched("mayors", e, 10); err != nil {
			t.Fatal(err)
		}
	}
	const want = "no result yet; the first one is shown when its endpoint has answered\n" +
		"--:--:-- failing: 400 the endpoint refuses this query\n--:--:-- live\n"
	if messages.String() != want || out.Len() > 0 {
		t.Errorf("it says %q, want %q, and prints %q", messages.String(), want, out.String())
	}
}

// For people, watch prints the same changes: removed rows, added rows, and at most as many rows
// as requested.
func TestWatchForPeople(t *testing.T) {
	w := newTown(t, "tokens: [{name: ops, role: admin, sha256: \""+registry.HashSecret("do-what-has-to-be-done")+
		"\"}, {name: shop, role: app, sha256: \""+registry.HashSecret("buy-what-the-shop-sells")+"\"}]\n")
	shop := town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": w.Env["FRESHET_SERVER"],
		"FRESHET_TOKEN": "buy-what-the-shop-sells"}, Endpoint: w.Endpoint}}
	w.Env["FRESHET_TOKEN"] = "do-what-has-to-be-done"
	shop.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "numbers", "-")
	ask := strings.TrimSpace(shop.must(t, "ASK { <http://x/a> ?p ?o }", "query", "add", "-"))
	w.must(t, "", "endpoint", "tick", "city")
	ctx, cancel := context.WithCancel(t.Context())
	r, out := io.Pipe()
	done := make(chan int, 2)
	for _, query := range []string{"numbers", ask} {
		go func() {
			done <- runLine(ctx, []string{"watch", query, "--rows", "1"}, &cli.Env{Stdout: out, Stderr: io.Discard,
				Getenv: func(k string) string { return shop.Env[k] }})
		}()
	}
	lines := make(chan string)
	go func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
	}()
	expect := func(wanted ...string) {
		t.Helper()
		for len(wanted) > 0 {
			var line string
			select {
			case line = <-lines:
			case <-time.After(time.Minute):
				t.Fatalf("did not come: %q", wanted)
			}
			i := slices.IndexFunc(wanted, func(s string) bool { return strings.HasSuffix(line, s) })
			if i < 0 {
				t.Fatalf("%q, want one of %q", line, wanted)
			}
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	expect(":1: 2 rows now", "    s=<a>  n=1", "    … 1 more", ":1: true now")
	w.Update(t, `DELETE DATA { <http://x/a> <http://x/n> "1" } ; INSERT DATA { <http://x/c> <http://x/n> "3" . <http://x/d> `+
		`<http://x/n> "4" }`)
	w.must(t, "", "endpoint", "tick", "city")
	expect(":2: now false, before true", ":2: +2 −1 of 3 rows", "  − s=<a>  n=1", "    … 1 more", "  + s=<c>  n=3")
	cancel()
	for range 2 {
		if code := <-done; code != cli.ExitOK {
			t.Errorf("exit code after an interrupt is %d", code)
		}
	}
	out.Close()
	for range lines {
		t.Error("more was printed")
	}
	w.must(t, "ASK { <http://x/a> ?p ?o }", "query", "add", "-") // a second holder
	w.must(t, "", "query", "rm", ask)
	shop.must(t, "", "query", "show", ask)
	w.must(t, "", "query", "rm", "--force", ask)
	if code, _, _ := runCLI(t, shop.Env, "", "query", "show", ask); code != cli.ExitNotFound {
		t.Errorf("an admin's rm --force leaves the query to its other holder: exit code %d", code)
	}
}

// Without --json the output is plain lines without braces, and the exit code says whether the
// trial run was complete.
func TestPlainOutput(t *testing.T) {
	w := newTown(t, "")
	w.must(t, "PREFIX x: <http://x/>\nSELECT ?s ?n { ?s x:n ?n }", "query", "add", "--name", "rows", "-")
	for range 2 {
		w.must(t, "", "endpoint", "tick", "city")
	}
	for _, x := range []struct {
		line, stdin string
		code        int
		has         []string
	}{
		{"query show rows", "", cli.ExitOK, []string{"name ", "query\n  PREFIX x: <http://x/>\n  SELECT", "links\n  results "}},
		{"query show rows --explain", "", cli.ExitOK, []string{"\n  samples\n    slot 1, elapsed_seconds "}},
		{"endpoint show city", "", cli.ExitOK, []string{"headers ", "state\n  running ", "  health\n    state ", "  last\n    endpoint "}},
		{"query validate -", "SELECT ?s { ?s ?p ?o } LIMIT 5", cli.ExitOK, []string{"form ", "warning: line 1: LIMIT"}},
		{"query validate --run -", "SELECT ?n { ?s ?p ?n }", cli.ExitOK, []string{"trial run: complete in ", ", 2 rows\n  n=1\n  n=2\n"}},
		{"query validate --run -", "ASK {}", cli.ExitOK, []string{", true\n"}},
		{"query validate --run -", "CONSTRUCT WHERE { ?s ?p ?o }", cli.ExitOK, []string{", 2 rows\n  <http://x/a> "}},
		{"query validate --run -", "SELECT ?s { ?s foo:x ?o }", cli.ExitFailure, []string{"warning: line 1: no PREFIX",
			"freshet: the trial run was not complete: rejected: "}},
		{"query validate --run --json -", "SELECT ?s { ?s foo:x ?o }", cli.ExitFailure, []string{`"outcome":"rejected"`}},
	} {
		code, out, says := runCLI(t, w.Env, x.stdin, strings.Fields(x.line)...)
		whole := strings.Contains(x.line, "--json") || strings.Contains(out, "SELECT") || strings.Contains(out, "ASK") ||
			strings.Contains(out, "CONSTRUCT")
		if code != x.code || strings.ContainsAny(out, "{}") && !whole {
			t.Errorf("%s: exit code %d, prints\n%s%s", x.line, code, out, says)
		}
		for _, want := range x.has {
			if text := regexp.MustCompile(` +`).ReplaceAllString(out+says, " "); !strings.Contains(text,
				regexp.MustCompile(` +`).ReplaceAllString(want, " ")) {
				t.Errorf("%s lacks %q:\n%s", x.line, want, out+says)
			}
		}
	}
}

func TestPrintFields(t *testing.T) {
	var b strings.Builder
	doc := `{"name":"a","none":null,"empty":[],"text":"one\ntwo \u001b[31m","list":["x","y"],"objects":[` +
		strings.Repeat(`{"n":1,"at":{"x":"\u001bz"}},`, 9) +
		`{"n":10}],"inner":{"a":1,"deep":{"b":true}},"hidden":{"c":1}}`
	if err := printFields(&b, json.RawMessage(doc), func(name string) string { return map[string]string{"name": "from here"}[name] },
		"hidden"); err != nil {
		t.Fatal(err)
	}
	want := "name   a  from here\nnone   –\nempty  –\ntext\n  one\n  two ·[31m\nlist  x, y\nobjects\n" +
		strings.Repeat("  n 1, at x ·z\n", 8) +
		"  and 2 more: --json shows them\ninner\n  a  1\n  deep\n    b  true\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := printFields(io.Discard, json.RawMessage(`[1]`), nil); err == nil {
		t.Error("a list is printed as fields")
	}
}

// A changed text under a name in use is refused; --replace moves the name.
func TestReplaceOnTheCommandLine(t *testing.T) {
	w := newTown(t, "")
	old := strings.TrimSpace(w.must(t, "SELECT ?s { ?s <http://x/n> ?n }", "query", "add", "--name", "sel", "-"))
	code, out, stderr := runCLI(t, w.Env, "SELECT ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "sel", "-")
	if code != cli.ExitFailure || out != "" || !strings.Contains(stderr, old) || !strings.Contains(stderr, "replace") {
		t.Errorf("exit code %d, prints %q and %q", code, out, stderr)
	}
	id := strings.TrimSpace(w.must(t, "SELECT ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "sel", "--replace", "-"))
	if out := w.must(t, "", "query", "list"); id == old || !strings.Contains(out, id) || strings.Contains(out, old) {
		t.Errorf("query list prints\n%s", out)
	}
	if code, _, stderr := runCLI(t, w.Env, "ASK {}", "query", "add", "--name", "a b/c", "-"); code != cli.ExitUsage ||
		!strings.Contains(stderr, "part of addresses") {
		t.Errorf("exit code %d, prints %q", code, stderr)
	}
}
