package clitest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/scheduler/shadow"
)

// A History lists the slots before which the results of queries change.
type History struct {
	Changes [][]int // by query, ascending slots
	slots   int
}

func NewHistory(seed uint64, slots int) History {
	r := rand.New(rand.NewPCG(seed, 0))
	p := History{slots: slots}
	for _, rate := range []float64{0, 0.02, 0.05, 0.05, 0.1, 0.1, 0.2, 0.5} {
		var at []int
		for slot := 2; slot <= slots; slot++ {
			if r.Float64() < rate {
				at = append(at, slot)
			}
		}
		p.Changes = append(p.Changes, at)
	}
	return p
}

func (p History) Total() (n int) {
	for _, at := range p.Changes {
		n += len(at)
	}
	return n
}

// Write writes the past as changesets, one an hour, with its queries, and returns
// the flags that name them.
func (p History) Write(t *testing.T) (args []string) {
	t.Helper()
	dir := t.TempDir()
	put := func(path, text string) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("base.nt", "<http://x/0> <http://x/other> \"0\" .\n")
	for slot := 1; slot <= p.slots; slot++ {
		text := fmt.Sprintf("<http://x/%d> <http://x/other> \"%d\" .\n", slot, slot)
		for q, at := range p.Changes {
			if _, found := slices.BinarySearch(at, slot); found {
				text += fmt.Sprintf("<http://x/%d> <http://x/p%d> \"%d\" .\n", slot, q, slot)
			}
		}
		put(fmt.Sprintf("changesets/2020/01/%02d/%02d/000000.added.nt", 1+slot/24, slot%24), text)
	}
	var queries strings.Builder
	for q := range p.Changes {
		fmt.Fprintf(&queries, "{\"id\":\"%d\",\"query\":\"SELECT ?s ?n { ?s <http://x/p%d> ?n }\"}\n", q, q)
	}
	put("queries.jsonl", queries.String())
	return []string{"--changesets", filepath.Join(dir, "changesets"), "--base", filepath.Join(dir, "base.nt"), "--queries",
		filepath.Join(dir, "queries.jsonl")}
}

// Within fails the test unless a value lies in a range or at most slack outside.
func Within(t *testing.T, what string, is float64, e shadow.Range, slack float64) {
	t.Helper()
	if is < e.Low-slack || is > e.High+slack {
		t.Errorf("%s: really %g, estimated %+v", what, is, e)
	}
}
