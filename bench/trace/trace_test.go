package trace_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/bench/trace/tracetest"
)

var same = cmp.Options{cmp.AllowUnexported(trace.Version{}), cmpopts.EquateEmpty()}

// readTrace reads the exchange format from a text.
func readTrace(t testing.TB, text string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// twoQueries is a trace of two queries that change and one that does not.
const twoQueries = `{"queries":3,"revisions":5,
"exec_ms":[[4000,4000,4000],[4000,4000,4000],[4000,4000,4000],[4000,4000,4000],[4000,4000,4000],[4000,4000,4000]],
"changes":[{"id":0,"initial":[1],"versions":[{"rev":1,"rows":[2]},{"rev":2,"rows":[3]},{"rev":4,"rows":[1]}]},
           {"id":1,"initial":[7,7],"versions":[{"rev":3,"rows":[7,8]}]}]}`

// Both formats keep everything, and Read tells them apart.
func TestFormatsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := tracetest.Draw(t)
		if rapid.Bool().Draw(t, "more") {
			tr.Features = make([][]int, tr.Queries)
			tr.Features[0] = []int{3, 4}
			tr.Templates = rapid.SliceOfN(rapid.IntRange(0, 3), tr.Queries, tr.Queries).Draw(t, "templates")
			tr.MergeCost = trace.DefaultMergeCost()
			tr.Gaps = []trace.Gap{{Rev: tr.Revisions, Query: 0, Outcome: "partial", Error: "cut off"}}
		}
		for name, write := range map[string]func(*bytes.Buffer) error{
			"json":  func(b *bytes.Buffer) error { return tr.WriteJSON(b) },
			"lines": func(b *bytes.Buffer) error { return tr.Write(b) },
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			got, err := trace.Read(&b)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if d := cmp.Diff(tr, got, same); d != "" {
				t.Fatalf("%s -wrote +read:\n%s", name, d)
			}
		}
	})
}

// What the exchange format says about equality.
func TestVersionsEqual(t *testing.T) {
	for _, c := range []struct {
		name, members string
		changes       int
	}{
		{"a bag has no order", `"changes":[{"id":0,"initial":[1,2,2],"versions":[{"rev":1,"rows":[2,1,2]}]}]`, 0},
		{"a bag counts repeats", `"changes":[{"id":0,"initial":[1,2],"versions":[{"rev":1,"rows":[1,2,2]}]}]`, 1},
		{"a list has an order", `"ordered":true,"changes":[{"id":0,"initial":[1,2],"versions":[{"rev":1,"rows":[2,1]}]}]`, 1},
		{"members in any order, others passed over", `"changes":[{"id":0,"initial":[2,1],"versions":[{"rev":1,"rows":[1,2],` +
			`"note":"x"}]}],"about":{"a":[1]},"ordered":true`, 1},
		{"nothing changes", `"changes":[]`, 0},
		{"back and forth", `"changes":[{"id":0,"initial":[],"versions":[{"rev":1,"rows":[1]},{"rev":2,"rows":[]}]}]`, 2},
	} {
		tr := readTrace(t, `{"queries":1,"revisions":2,"exec_ms":[[1],[1],[1]],`+c.members+`}`)
		if got := tr.Changes(); got != c.changes {
			t.Errorf("%s: %d changes, want %d", c.name, got, c.changes)
		}
	}
}

// Errors name the place.
func TestReadJSONErrors(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                                    "a trace is an object",
		`{"queries":1,"revisions":0`:                            "byte",
		`{"revisions":0,"exec_ms":[[]]}`:                        "queries: it is missing",
		`{"queries":0,"exec_ms":[[]]}`:                          "revisions: it is missing",
		`{"queries":1,"revisions":1,"exec_ms":[[1]]}`:           "exec_ms: 1 rows, want 2",
		`{"queries":2,"revisions":1,"exec_ms":[[1,2],[1]]}`:     "exec_ms[1]: 1 times for 2 queries",
		`{"queries":2,"revisions":1,"exec_ms":[[1,2],[1,-5]]}`:  "exec_ms[1][1]: -5",
		`{"queries":2,"revisions":1,"exec_ms":[[1,2],[1,1.5]]}`: "/exec_ms/1/1",
		`{"queries":1,"revisions":0,"exec_ms":[[1]],"changes":[{"id":4,` +
			`"initial":[]}]}`: "id 4",
		`{"queries":1,"revisions":0,"exec_ms":[[1]],"changes":[{"initial":[]}]}`: "id -1",
		`{"queries":1,"revisions":0,"exec_ms":[[1]],"changes":[{"id":0,"initial":[]},{"id":0,` +
			`"initial":[]}]}`: "id 0 has two entries",
		`{"queries":1,"revisions":1,"exec_ms":[[1],[1]],"changes":[{"id":0,"initial":[],"versions":[{"rev":2,` +
			`"rows":[]}]}]}`: "id 0, versions[0]: rev 2",
		`{"queries":1,"revisions":2,"exec_ms":[[1],[1],[1]],"changes":[{"id":0,"initial":[],"versions":[{"rev":2,"rows":[1]},` +
			`{"rev":1,"rows":[2]}]}]}`: "versions[1]: rev 1 does not come after",
		`{"queries":1,"revisions":0,"exec_ms":[[1]],"changes":[{"id":0,` +
			`"initial":["a"]}]}`: "/changes/0",
		`{"queries":1,"revisions":0,"exec_ms":[[1]],"features":[]}`:              "features: 0 lists for 1",
		`{"queries":1,"revisions":0,"exec_ms":[[1]],"templates":[1,2]}`:          "templates: 2 for 1",
		`{"queries":1,"revisions":0,"exec_ms":[[1]],"templates":[-1]}`:           "templates[0]: -1",
		`{"queries":1,"revisions":0,"exec_ms":[[1]],"merge_cost":{"values":-1}}`: "merge_cost",
		`{"queries":1,"revisions":0,"exec_ms":[[1]]} x`:                          "follows",
	} {
		_, err := trace.ReadJSON(strings.NewReader(text))
		if !errors.Is(err, trace.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  gives %v\n  want an error with %q", text, err, want)
		}
	}
}

// A trace file that is cut off or damaged anywhere is an error, never a panic
// and never a shorter trace.
func TestDamage(t *testing.T) {
	tr := readTrace(t, twoQueries)
	var b bytes.Buffer
	if err := tr.Write(&b); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	for n := range whole {
		if _, err := trace.Read(bytes.NewReader(whole[:n])); !errors.Is(err, trace.ErrInvalid) {
			t.Fatalf("cut off at %d of %d: %v", n, len(whole), err)
		}
		hurt := bytes.Clone(whole)
		hurt[n] ^= 0x55
		if got, err := trace.Read(bytes.NewReader(hurt)); err == nil && cmp.Diff(tr, got, same) != "" {
			t.Fatalf("damaged at %d: read as another trace", n)
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bad.trace")
	if err := os.WriteFile(path, z.EncodeAll([]byte("{\"freshet_trace\":99}\n"), nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := trace.Load(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("error is %v", err)
	}
}

// TestBetween compares the versions of two revisions with a search through all.
func TestBetween(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := trace.Series{Versions: []trace.Version{{}}}
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			s.Versions = append(s.Versions, trace.Version{Rev: s.Versions[len(s.Versions)-1].Rev + rapid.IntRange(1, 4).Draw(t, "after")})
		}
		at := func(rev int) (found *trace.Version) {
			for i := range s.Versions {
				if s.Versions[i].Rev <= rev {
					found = &s.Versions[i]
				}
			}
			return found
		}
		first := rapid.IntRange(0, 80).Draw(t, "first")
		second := first + rapid.IntRange(0, 40).Draw(t, "later")
		if was, now := s.Between(first, second); was != at(first) || now != at(second) {
			t.Fatalf("between %d and %d: %v and %v, want %v and %v", first, second, was, now, at(first), at(second))
		}
	})
}
