package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
)

const tinyTrace = `{"queries":2,"revisions":2,"exec_ms":[[10,20],[10,20],[10,20]],"changes":[{"id":1,"initial":[1],` +
	`"versions":[{"rev":2,"rows":[2]}]}]}`

// runLine runs one command line in this process.
func runLine(ctx context.Context, args []string, w *cli.Env) int {
	return cli.Run(ctx, newRoot(w), args, w)
}

// runCLI runs one command line in this process and returns what it prints.
func runCLI(t *testing.T, env map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, newRoot, env, stdin, args...)
}

// binary builds the program.
func binary(t testing.TB) string {
	t.Helper()
	return clitest.Build(t, "freshet-bench")
}

func TestMain(m *testing.M) { clitest.Main(m) }

// A converted trace can be simulated. Each output format is reproducible, and
// mistakes are usage errors.
func TestBenchSimulate(t *testing.T) {
	dir := t.TempDir()
	in, packed := filepath.Join(dir, "t.json"), filepath.Join(dir, "t.trace")
	if err := os.WriteFile(in, []byte(tinyTrace), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runCLI(t, nil, "", "bench", "convert", in, packed); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	simulate := func(args ...string) (int, string, string) {
		return runCLI(t, nil, "", append([]string{"bench", "simulate", "--trace", packed}, args...)...)
	}
	_, first, _ := simulate("--policy", "rr,cv", "--budget", "25ms,1s", "--rule", "overrun", "--json", "--schedule")
	code, out, stderr := simulate("--policy", "rr,cv", "--budget", "25ms,1s", "--rule", "overrun", "--json", "--schedule")
	if code != cli.ExitOK || out != first || strings.Count(out, "\n") != 4 || stderr != "" {
		t.Fatalf("code %d, stderr %q, stdout\n%s", code, stderr, out)
	}
	var row struct {
		Policy string  `json:"policy"`
		Budget int     `json:"budget_ms"`
		Slots  [][]int `json:"slots"`
	}
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &row); err != nil || row.Policy != "rr" || row.Budget != 25 ||
		fmt.Sprint(row.Slots) != "[[0 1] [0 1]]" {
		t.Errorf("first row %+v, %v", row, err)
	}
	if code, out, _ := simulate("--policy", "rr", "--csv"); code != cli.ExitOK || !strings.HasPrefix(out,
		"policy,budget_ms,rule,merge,requests,bound,total,irrelevant,relevant,eff. %") {
		t.Errorf("code %d, CSV\n%s", code, out)
	}
	if code, out, _ := simulate("--policy", "rr"); code != cli.ExitOK || !strings.Contains(out, "relevant") {
		t.Errorf("code %d, table\n%s", code, out)
	}
	for _, args := range [][]string{
		{}, {"--policy", "nonsense"}, {"--policy", "rr", "--budget", "ten"}, {"--policy", "rr", "--rule", "lax"},
		{"--policy", "rr", "--json", "--csv"}, {"--policy", "rr", "--schedule"}, {"--policy", "rr", "--trace", filepath.Join(dir, "none")},
	} {
		if code, _, stderr := simulate(args...); code != cli.ExitUsage || stderr == "" {
			t.Errorf("%v: code %d, %q; want a usage error", args, code, stderr)
		}
	}
	if err := os.WriteFile(packed, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := simulate("--policy", "rr"); code != cli.ExitFailure || !strings.Contains(stderr, "bad trace") {
		t.Errorf("broken trace: code %d, %q", code, stderr)
	}
}

// writeHistory writes a small history in the layout of DBpedia Live: a counter that
// increases each hour except the third.
func writeHistory(t *testing.T, hours int) (args []string) {
	t.Helper()
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	triple := func(n int) string { return fmt.Sprintf("<http://x/c> <http://x/n> \"%d\" .\n", n) }
	write("base.nt", triple(0)+"<http://x/c> <http://x/name> \"counter\" .\n")
	for h := range hours {
		if h != 2 {
			n := h
			if h == 3 {
				n = 2
			}
			write(fmt.Sprintf("changesets/2020/01/%02d/%02d/000000.removed.nt", 1+h/24, h%24), triple(n))
			write(fmt.Sprintf("changesets/2020/01/%02d/%02d/000000.added.nt", 1+h/24, h%24), triple(h+1))
		}
	}
	write("queries.jsonl", `{"id":"n","query":"SELECT ?n { <http://x/c> <http://x/n> ?n }"}
{"id":"name","query":"SELECT ?n { <http://x/c> <http://x/name> ?n }"}
{"id":"all","query":"CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }"}
`)
	return []string{"--changesets", filepath.Join(dir, "changesets"), "--base", filepath.Join(dir, "base.nt"), "--queries",
		filepath.Join(dir, "queries.jsonl")}
}

// A recording that is killed repeatedly has the same versions as one that is not. If a
// short history ends before enough kills, a longer one follows.
func TestBenchRecordKilled(t *testing.T) {
	clitest.NeedEngine(t)
	const enough, longest = 3, 640
	for hours := 20; ; hours *= 2 {
		kills := recordKilled(t, hours)
		if kills >= enough || t.Failed() {
			return
		}
		if hours >= longest {
			t.Fatalf("a recording of %d hours was killed %d times only", hours, kills)
		}
	}
}

// recordKilled compares two recordings of a history, one of which is killed. It
// returns the number of kills.
func recordKilled(t *testing.T, hours int) (kills int) {
	t.Helper()
	args := writeHistory(t, hours)
	dir := t.TempDir()
	whole, killed := filepath.Join(dir, "whole.trace"), filepath.Join(dir, "killed.trace")
	if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "record", "--out", whole}, args...)...); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	want := loadVersions(t, whole)
	if want.Revisions != hours || want.Changes() != 2*(hours-1) { // of two queries, in all hours but one
		t.Fatalf("%d revisions, %d changes", want.Revisions, want.Changes())
	}
	kills = killUntilDone(t, killed, append([]string{"record", "--out", killed}, args...), func(int) {})
	if g, w := versionsOf(loadVersions(t, killed)), versionsOf(want); g != w {
		t.Errorf("after %d kills the trace has\n%s\nwant\n%s", kills, g, w)
	}
	return kills
}

// killUntilDone starts a recording and kills it when its file has grown, until it
// is finished. It returns the number of kills, and calls after behind each of them.
func killUntilDone(t *testing.T, path string, args []string, after func(kills int)) (kills int) {
	t.Helper()
	bin, size := binary(t), int64(0)
	for {
		c := exec.Command(bin, args...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		over, err := killAfterProgress(c, ended, path, &size)
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		if over {
			return kills
		}
		kills++
		after(kills)
	}
}

// killAfterProgress kills the process once its file has grown. over reports that the
// process ended by itself, or finished the trace before the signal arrived.
func killAfterProgress(c *exec.Cmd, ended <-chan error, path string, size *int64) (over bool, err error) {
	for {
		select {
		case err := <-ended:
			return true, err
		case <-time.After(time.Millisecond):
		}
		if st, err := os.Stat(path + ".part"); err == nil && st.Size() > *size+100 {
			*size = st.Size()
			c.Process.Kill()
			<-ended
			_, err := os.Stat(path)
			return err == nil, nil
		}
	}
}

func loadVersions(t *testing.T, path string) *trace.Trace {
	t.Helper()
	tr, err := trace.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func versionsOf(tr *trace.Trace) string {
	var b strings.Builder
	for _, s := range tr.Series {
		for _, v := range s.Versions {
			fmt.Fprintln(&b, s.Query, v.Rev, v.Rows)
		}
	}
	return b.String()
}

// Subscribers of the real server receive every change if the budget is ample and the
// policy runs every query.
func TestBenchReplay(t *testing.T) {
	clitest.NeedEngine(t)
	hearsAll(t)
}

// hearsAll checks that subscribers receive every change of a history under an ample
// budget.
func hearsAll(t *testing.T, more ...string) {
	t.Helper()
	args := append(append([]string{"bench", "replay", "--policy", "rr", "--budget", "20s", "--json"}, writeHistory(t, 6)...), more...)
	code, out, stderr := runCLI(t, nil, "", args...)
	if code != cli.ExitOK {
		t.Fatal(stderr)
	}
	var r bench.ReplayReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	// t0 and six hours, of which five change two results
	want := bench.ReplayReport{Policy: "rr", BudgetMS: 20000, Queries: 3, Revisions: 7, Changes: 10, Received: 10, Total: 21, Used: r.Used}
	if r != want {
		t.Errorf("report %+v\nwant %+v", r, want)
	}
}

// An interrupted benchmark fails with a message.
func TestBenchStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, said bytes.Buffer
	args := []string{"bench", "simulate", "--trace", filepath.Join("..", "..", "bench", "testdata", "small.json"), "--policy", "rr",
		"--budget", "1s"}
	code := runLine(ctx, args, &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said, Getenv: func(string) string { return "" }})
	if code != cli.ExitFailure || !strings.Contains(said.String(), "stopped before it was finished") {
		t.Errorf("code %d, %q", code, said.String())
	}
}

// The generated history is reproducible, and can be recorded and simulated.
func TestBenchSample(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, d := range []string{a, b} {
		if code, _, stderr := runCLI(t, nil, "", "bench", "sample", d, "--steps", "6", "--queries", "20"); code != cli.ExitOK ||
			!strings.Contains(stderr, "6 changesets and 20 queries") {
			t.Fatalf("code %d, %s", code, stderr)
		}
	}
	same(t, os.DirFS(a), os.DirFS(b))
	trace := filepath.Join(dir, "city.trace")
	code, _, stderr := runCLI(t, nil, "", "bench", "record", "--changesets", filepath.Join(a, "changesets"), "--base",
		filepath.Join(a, "base.nt.gz"),
		"--queries", filepath.Join(a, "queries.jsonl"), "--per-changeset", "--out", trace)
	if strings.Contains(stderr, "make build") {
		t.Skip("the engine is missing: ", stderr)
	}
	if code != cli.ExitOK || !strings.Contains(stderr, "20 queries over 6 revisions, ") {
		t.Fatalf("code %d, %s", code, stderr)
	}
	if code, out, stderr := runCLI(t, nil, "", "bench", "simulate", "--trace", trace, "--policy", "rr,cv", "--budget",
		"1s"); code != cli.ExitOK || !strings.Contains(out, "abs delay") {
		t.Errorf("code %d, %s%s", code, out, stderr)
	}
	if code, _, _ := runCLI(t, nil, "", "bench", "sample", a, "--steps", "0"); code != cli.ExitUsage {
		t.Errorf("no steps: code %d", code)
	}
}

// same compares two trees of files.
func same(t *testing.T, a, b fs.FS) {
	t.Helper()
	n := 0
	err := fs.WalkDir(a, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		x, err := fs.ReadFile(a, path)
		if err != nil {
			return err
		}
		y, err := fs.ReadFile(b, path)
		if err == nil && !bytes.Equal(x, y) {
			t.Errorf("%s differs", path)
		}
		return err
	})
	if err != nil || n == 0 {
		t.Fatalf("%d files, %v", n, err)
	}
}

// Every command has an example.
func TestExamplesAndJSON(t *testing.T) { clitest.CheckCommands(t, newRoot, "bench") }

// Commands that write a file name it in one JSON object with --json.
func TestLongJSONOutput(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "t.trace")
	for line, file := range map[string]string{"bench generate --out " + trace: trace, "bench convert " + filepath.Join("..", "..",
		"bench", "testdata", "small.json") + " " + trace: trace} {
		code, out, stderr := runCLI(t, nil, "", append(strings.Fields(line), "--json")...)
		var object struct{ File string }
		if err := json.Unmarshal([]byte(out), &object); code != cli.ExitOK || err != nil || object.File != file {
			t.Errorf("%s --json: exit code %d, prints %q, says %q", line, code, out, stderr)
		}
	}
}

// A recorded history takes part in several copies, each of which has rows and the budgets of the recording. What is written
// already is not simulated again, and a seed that is no number is refused before anything runs.
func TestArenaCopies(t *testing.T) {
	dir := t.TempDir()
	in, packed, out := filepath.Join(dir, "t.json"), filepath.Join(dir, "t.trace"), filepath.Join(dir, "arena")
	if err := os.WriteFile(in, []byte(tinyTrace), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runCLI(t, nil, "", "bench", "convert", in, packed); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	arena := func(args ...string) (int, string) {
		code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "arena", "--seeds", "", "--rule", "strict", "--policy", "rr",
			"--out", out}, args...)...)
		return code, stderr
	}
	for range 2 {
		if code, stderr := arena("--trace", packed, "--copies", "2"); code != cli.ExitOK {
			t.Fatal(stderr)
		}
		lines, err := os.ReadFile(filepath.Join(out, "arena.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		rows, second := map[string]bool{}, 0
		for _, line := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
			var r struct {
				Trace, Policy string
				Budget        int `json:"budget_ms"`
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			rows[fmt.Sprint(r)] = true
			if r.Trace == packed+", copy 2" {
				second++
			}
		}
		// Budgets of a 40th of 30 ms and its multiples: 1, 2, 3, 6, 12 and 18 ms.
		if len(rows) != 24 || second != 12 {
			t.Errorf("%d rows, %d of the second copy: %v", len(rows), second, rows)
		}
	}
	for _, args := range [][]string{{"--copies", "2"}, {"--trace", packed, "--copies", "-1"}, {"--seeds", "one"}} {
		if code, stderr := arena(args...); code != cli.ExitUsage {
			t.Errorf("%v: code %d, %s", args, code, stderr)
		}
	}
}
