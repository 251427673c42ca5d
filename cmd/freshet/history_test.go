package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// Past states on the command line: all formats, and what is refused. TestHowTo shows the rest.
func TestPastCommands(t *testing.T) {
	w := newTown(t, "")
	w.must(t, "ASK { ?s <http://x/p> ?o }", "query", "add", "--name", "any", "-")
	w.must(t, "CONSTRUCT { ?s <http://x/p> ?o } WHERE { ?s <http://x/p> ?o }", "query", "add", "--name", "graph", "-")
	for i := range 3 {
		w.must(t, "", "endpoint", "tick", "city")
		w.Update(t, fmt.Sprintf(`INSERT DATA { <http://x/s> <http://x/p> %d }`, i))
	}
	w.must(t, "", "endpoint", "tick", "city")
	for args, want := range map[string]string{
		"results any --seq 1":                   `"boolean":false`,
		"results any --seq 2 --format srx":      "<boolean>true</boolean>",
		"results graph --seq 2":                 "<http://x/s> <http://x/p> \"0\"",
		"results graph --seq 3 --format ttl":    "<http://x/s> <http://x/p> \"0\"",
		"results graph":                         "\"2\"",
		"changes diff any --from 1 --to 2":      "now true, before false",
		"changes diff graph --from 2":           ": +2 −0\n  + <http://x/s> <http://x/p> \"1\"",
		"changes diff graph --from 2 --to 2":    ": +0 −0",
		"changes diff graph --from 2 --json":    `"added":{"triples":["<http://x/s>`,
		"changes diff graph --from 1 --rows 1":  "… 2 more",
		"changes diff graph --from 2 --rows=10": "+2",
	} {
		if out := w.must(t, "", strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("%s prints\n%s, want %q", args, out, want)
		}
	}
	for args, want := range map[string]string{
		"results graph --at noon":            "is not a time",
		"results graph --seq noon":           "seq is the number of a change",
		"results graph --at 2100-01-01":      "in the future",
		"changes diff graph":                 "from",
		"changes diff graph --from 3 --to 2": "exchange them",
	} {
		if code, out, stderr := runCLI(t, w.Env, "", strings.Fields(args)...); code != cli.ExitUsage || out != "" ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, %s, want %q", args, code, out, stderr, want)
		}
	}
	for _, args := range []string{"results graph --seq 9", "results nothing", "results graph --at 2001-01-01"} {
		if code, out, stderr := runCLI(t, w.Env, "", strings.Fields(args)...); code != cli.ExitNotFound || out != "" {
			t.Errorf("%s: exit code %d, %q, %s", args, code, out, stderr)
		}
	}
}
