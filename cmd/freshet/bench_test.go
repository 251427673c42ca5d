package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
)

// both builds the program and its tool in one directory and returns the program's path.
func both(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, path := range map[string]string{"freshet": binary(t), benchTool: clitest.Build(t, benchTool)} {
		if err := os.Link(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "freshet")
}

// output runs a command and returns its output and its exit code.
func output(t *testing.T, stdin string, path string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	c := exec.Command(path, args...)
	var out, said bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &said
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), said.String(), c.ProcessState.ExitCode()
}

// "freshet bench" behaves like the tool beside the program: same output, errors, exit codes,
// help and completions.
func TestBenchBeside(t *testing.T) {
	program, tool := both(t), clitest.Build(t, benchTool)
	trace := filepath.Join("..", "..", "bench", "testdata", "small.json")
	for _, x := range []struct {
		args, direct []string
		code         int
		want         string // part of the output
	}{
		{[]string{"bench"}, []string{}, 0, "freshet bench [command]"},
		{[]string{"bench", "--help"}, []string{"--help"}, 0, "freshet bench [command]"},
		{[]string{"help", "bench"}, []string{"--help"}, 0, "freshet bench [command]"},
		{[]string{"bench", "simulate", "--help"}, []string{"simulate", "--help"}, 0, "--schedule"},
		{[]string{"help", "bench", "simulate"}, []string{"simulate", "--help"}, 0, "freshet bench simulate [flags]"},
		{[]string{"bench", "simulate", "--trace", trace, "--policy", "rr", "--json"}, []string{"simulate", "--trace", trace, "--policy",
			"rr", "--json"}, 0, `"policy":"rr"`},
		{[]string{"bench", "simulate"}, []string{"simulate"}, cli.ExitUsage, "freshet: --policy is missing"},
		{[]string{"bench", "nonsense"}, []string{"nonsense"}, cli.ExitUsage, `unknown command "nonsense" for "freshet bench"`},
	} {
		out, said, code := output(t, "", program, x.args...)
		wantOut, wantSaid, wantCode := output(t, "", tool, x.direct...)
		if code != x.code || code != wantCode || out != wantOut || said != wantSaid || !strings.Contains(out+said, x.want) {
			t.Errorf("freshet %s: exit code %d, want %d and %q\n%s%s", strings.Join(x.args, " "), code, x.code, x.want, out, said)
		}
	}
	for _, x := range []struct{ words, want string }{
		{"bench ", "simulate\t"}, {"bench sim", "simulate\t"}, {"bench simulate --sch", "--schedule\t"},
		{"bench simulate --", "--policy\t"}, {"help bench ", "study\t"},
	} {
		out, said, _ := output(t, "", program, append([]string{"__complete"}, strings.Split(x.words, " ")...)...)
		if !strings.Contains(out, x.want) || strings.Count(out, "--help\t") > 1 {
			t.Errorf("completing %q: no %q in\n%s%s", x.words, x.want, out, said)
		}
	}
}

// A tool in PATH is found too. Without a tool the message says how to get it.
func TestBenchElsewhere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if code, out, said := runCLI(t, nil, "", "bench", "study"); code != cli.ExitFailure || out != "" || !strings.Contains(said,
		"'make build'") || !strings.Contains(said, "go install") {
		t.Errorf("exit code %d, %s%s", code, out, said)
	}
	path := filepath.Join(os.Getenv("PATH"), benchTool)
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	var got []string
	w := &cli.Env{Stderr: os.Stderr, Getenv: func(string) string { return "" }, Exec: func(path string, args, _ []string) error {
		got = append([]string{path}, args...)
		return nil
	}}
	if code := runLine(t.Context(), []string{"bench", "study", "--trace", "a.trace", "-x"}, w); code != cli.ExitOK ||
		strings.Join(got, " ") != path+" freshet-bench study --trace a.trace -x" {
		t.Errorf("exit code %d, starts %q", code, got)
	}
}
