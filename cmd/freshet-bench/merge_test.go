package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/endpoint/merge"
	"github.com/freshet/freshet/registry/sparql"
)

var measure = flag.String("measure", "", "the arguments of TestMeasureMerging, such as '--limit 10'; paths are absolute")

// TestMeasureMerging measures what asking for several queries at once saves, as the
// documentation of merged requests describes.
func TestMeasureMerging(t *testing.T) {
	if *measure == "" {
		t.Skip("give the arguments with -measure")
	}
	code, stdout, stderr := runMerge(t, strings.Fields(*measure)...)
	if code != cli.ExitOK {
		t.Fatal(stderr)
	}
	fmt.Println(stdout)
}

func runMerge(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, func(w *cli.Env) *cobra.Command {
		root := &cobra.Command{Use: "measure"}
		root.AddCommand(mergeCommand(w))
		cli.Finish(root, nil)
		return root
	}, nil, "", append([]string{"merge"}, args...)...)
}

// Merged requests find the same changes with fewer requests.
func TestBenchMerge(t *testing.T) {
	clitest.NeedEngine(t)
	code, stdout, stderr := runMerge(t, "--limit", "3", "--count", "120", "--budget", "20s", "--merge", "off,values", "--json")
	if code != cli.ExitOK {
		t.Fatal(stderr)
	}
	var list []mergeResult
	for d := json.NewDecoder(strings.NewReader(stdout)); d.More(); {
		var r mergeResult
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if len(list) != 2 || list[0].Asked != 360 || list[0].Requests != 360 || list[1].Asked != 360 || list[1].Requests > 180 {
		t.Fatalf("%s", stdout)
	}
	for _, r := range list {
		if r.Changes == 0 || r.Found != r.Changes || r.Delay != 0 || r.Sent == 0 || r.Received == 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestBenchMergeUsage(t *testing.T) {
	for _, args := range [][]string{{"--merge", "always"}, {"--policy", "lru"}} {
		if code, _, stderr := runMerge(t, args...); code != cli.ExitUsage {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
}

// The generated queries are distinct and have constants of the data.
func TestConstantQueries(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base.nt")
	data := "<http://x/a> <http://x/p> <http://x/b> .\n<http://x/b> <http://x/q> \"v\" .\n<http://x/c> <http://x/p> <http://x/d> .\n"
	if err := os.WriteFile(base, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	texts, err := constantQueries(base, 12, rand.New(rand.NewPCG(1, 0)))
	if err != nil || len(texts) != 12 {
		t.Fatalf("%d queries, %v", len(texts), err)
	}
	seen := map[string]bool{}
	for _, q := range texts {
		if a, err := sparql.Analyse(q); err != nil {
			t.Errorf("%s: %v", q, err)
		} else if _, _, err := merge.Parse(a); err != nil {
			t.Errorf("%s is not merged: %v", q, err)
		}
		if seen[q] || strings.Contains(q, " S ") || strings.Contains(q, " P ") || strings.Contains(q, " O ") ||
			!strings.Contains(q, "<http://x/") {
			t.Errorf("%q", q)
		}
		seen[q] = true
	}
}
