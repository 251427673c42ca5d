package city_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/endpoint/local/city"
	"github.com/freshet/freshet/endpoint/local/localtest"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// golden is the hash of seed 1's base and 200 steps. After an intended change
// of the generator, the failing test prints the new hash.
const golden = "2c52479bf17ea16c05a2eddf658af54f72ae5e5328cd4946a7b226319ba52dc7"

func TestSameSeedSameBytes(t *testing.T) {
	hash := func(seed uint64) string {
		c, sum := city.New(seed), sha256.New()
		sum.Write(c.Base())
		for range 200 {
			removed, added := c.Next()
			sum.Write(removed)
			sum.Write([]byte{0})
			sum.Write(added)
			sum.Write([]byte{1})
		}
		return hex.EncodeToString(sum.Sum(nil))
	}
	if got := hash(1); got != golden {
		t.Errorf("seed 1 hashes to %s, want %s", got, golden)
	}
	if hash(1) == hash(2) {
		t.Error("two seeds make the same city")
	}
}

func lines(data []byte) []string {
	return slices.DeleteFunc(strings.Split(string(data), "\n"), func(l string) bool { return l == "" })
}

func TestStepsAreNetAndPlausible(t *testing.T) {
	c := city.New(7)
	facts := map[string]bool{}
	for _, line := range lines(c.Base()) {
		if facts[line] {
			t.Errorf("the base says twice: %s", line)
		}
		facts[line] = true
	}
	small, large, deletions := 0, 0, 0
	started := len(facts)
	for range 500 {
		removed, added := c.Next()
		for _, line := range lines(removed) {
			if !facts[line] {
				t.Fatalf("removed but absent: %s", line)
			}
			delete(facts, line)
		}
		for _, line := range lines(added) {
			if facts[line] {
				t.Fatalf("added but there: %s", line)
			}
			facts[line] = true
		}
		switch n := len(lines(removed)) + len(lines(added)); {
		case n <= 4:
			small++
		case n >= 100:
			large++
		}
		if len(lines(removed)) > len(lines(added)) {
			deletions++
		}
		if len(facts) < started/2 || len(facts) > 2*started {
			t.Fatalf("the city went from %d triples to %d", started, len(facts))
		}
	}
	t.Logf("%d triples, in 500 steps %d small, %d large, %d with more removed than added", started, small, large, deletions)
	if small < 50 || large < 5 || large > 150 || deletions < 30 {
		t.Errorf("steps are not varied: %d small, %d large, %d deleting", small, large, deletions)
	}
	for line := range facts {
		if strings.Contains(line, "_:") {
			t.Errorf("blank node: %s", line)
		}
	}
}

func TestQueriesAreDifferent(t *testing.T) {
	list := city.Queries(300, 4)
	if diff := cmp.Diff(list, city.Queries(300, 4)); diff != "" {
		t.Error("the same seed makes other queries")
	}
	if len(list) != 300 {
		t.Fatalf("%d queries", len(list))
	}
	forms, texts, names := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, q := range append(list, city.SampleQueries()...) {
		forms[q.Form]++
		if texts[q.Text] || names[q.Name] {
			t.Errorf("twice: %s %s", q.Name, q.Text)
		}
		texts[q.Text], names[q.Name] = true, true
		if q.Ordered != strings.Contains(q.Text, "} ORDER BY") {
			// The ORDER BY of a subquery is followed by more of the pattern.
			if !strings.Contains(q.Text, "?name ?b WHERE { { SELECT") {
				t.Errorf("%s: ordered %v\n%s", q.Name, q.Ordered, q.Text)
			}
		}
	}
	for _, form := range []string{"SELECT", "ASK", "CONSTRUCT", "DESCRIBE"} {
		if forms[form] < 20 {
			t.Errorf("%d queries of form %s", forms[form], form)
		}
	}
}

var blankLabel = regexp.MustCompile(`_:\w+`)

// answer is a query's result without anything that may differ between two
// correct answers.
func answer(t *testing.T, e *local.Engine, q city.Query) string {
	t.Helper()
	format := "tsv"
	if q.Form == "CONSTRUCT" || q.Form == "DESCRIBE" {
		format = "nt"
	}
	result, err := e.Query(context.Background(), q.Text, format, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v\n%s", q.Name, err, q.Text)
	}
	rows := strings.Split(blankLabel.ReplaceAllString(string(result), "_:b"), "\n")
	if !q.Ordered {
		slices.Sort(rows)
	}
	return strings.Join(rows, "\n")
}

// The queries have exactly one correct answer: an engine that followed the
// changes and one that loaded the same data in another order agree. And their
// answers change.
func TestLongQueriesAgainstTheEngine(t *testing.T) {
	const seed, steps = 1, 45
	c, e := city.New(seed), localtest.Open(t)
	ctx := context.Background()
	if err := e.Load(ctx, strings.NewReader(string(c.Base())), "nt"); err != nil {
		t.Fatal(err)
	}
	samples := city.SampleQueries()
	queries := append(samples, city.Queries(84, seed)...)
	last, changes := make([]string, len(queries)), make([]int, len(queries))
	for n, q := range queries {
		last[n] = answer(t, e, q)
	}
	quiet := 0
	for range steps {
		if err := e.Update(ctx, city.Update(c.Next())); err != nil {
			t.Fatal(err)
		}
		seen := false
		for n, q := range queries {
			if now := answer(t, e, q); now != last[n] {
				last[n], seen = now, true
				changes[n]++
			}
		}
		if !seen {
			quiet++
		}
	}
	if quiet == 0 || quiet > steps/2 {
		t.Errorf("%d of %d steps change nothing", quiet, steps)
	}
	total, still := 0, 0
	for n, q := range queries {
		total += changes[n]
		if changes[n] == 0 {
			still++
		}
		if n < len(samples) {
			t.Logf("%-20s %d changes", q.Name, changes[n])
			if (changes[n] == 0) != slices.Contains(q.Tags, "still") {
				t.Errorf("%s changed %d times in %d steps", q.Name, changes[n], steps)
			}
		}
	}
	t.Logf("%d changes, %d of %d queries still, %d quiet steps", total, still, len(queries), quiet)
	if still == 0 || still > len(queries)*2/3 {
		t.Errorf("%d of %d queries never change", still, len(queries))
	}

	all, err := e.Query(ctx, "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }", "nt", nil, nil)
	if size, failed := e.Size(ctx); err != nil || failed != nil || bytes.Count(all, []byte("\n")) != size {
		t.Fatalf("%d lines of %d quads: %v %v", bytes.Count(all, []byte("\n")), size, err, failed)
	}
	dump := strings.Split(string(all), "\n")
	slices.Sort(dump)
	slices.Reverse(dump)
	other := localtest.Open(t)
	if err := other.Load(ctx, strings.NewReader(strings.Join(dump, "\n")), "nt"); err != nil {
		t.Fatal(err)
	}
	for n, q := range queries {
		if diff := cmp.Diff(last[n], answer(t, other, q)); diff != "" {
			t.Errorf("%s depends on the order of the data:\n%s", q.Name, diff)
		}
	}
}

func TestWriteDir(t *testing.T) {
	const seed, steps = 3, 130
	dir, again := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, again} {
		if err := city.New(seed).WriteDir(d, steps); err != nil {
			t.Fatal(err)
		}
	}
	if err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		relative, _ := filepath.Rel(dir, path)
		one, _ := os.ReadFile(path)
		two, err := os.ReadFile(filepath.Join(again, relative))
		if string(one) != string(two) {
			t.Errorf("%s differs", relative)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	list, err := local.Changesets(filepath.Join(dir, "changesets"))
	if err != nil || len(list) != steps {
		t.Fatalf("%d changesets, %v", len(list), err)
	}
	if list[0].Name != "2026/06/01/06/000001" || list[steps-1].Name != "2026/06/01/08/000010" {
		t.Errorf("from %s to %s", list[0].Name, list[steps-1].Name)
	}
	// The data applied from the files equal the result of the steps.
	e := localtest.Open(t)
	ctx := context.Background()
	if err := e.LoadFile(ctx, filepath.Join(dir, "base.nt.gz")); err != nil {
		t.Fatal(err)
	}
	c := city.New(seed)
	size := len(lines(c.Base()))
	for _, changeset := range list {
		got, err := changeset.Apply(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		removed, added := c.Next()
		want := local.Applied{Added: len(lines(added)), Removed: len(lines(removed))}
		if got != want {
			t.Errorf("%s: %+v, want %+v", changeset.Name, got, want)
		}
		size += want.Added - want.Removed
	}
	if n, err := e.Size(ctx); n != size || err != nil {
		t.Errorf("size %d, %v, want %d", n, err, size)
	}
}
