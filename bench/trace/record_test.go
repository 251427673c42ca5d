package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
)

// A dataset of three counters, one of which has an ordered result. A step sets values,
// so that applying it twice has the same effect as once.
type counters struct {
	t       testing.TB
	values  [3]int
	applied []string
	asked   int
	fail    map[int]registry.Outcome // by number of the execution
}

func (c *counters) Health() registry.Health { return registry.Health{} }

func (c *counters) Execute(ctx context.Context, q *registry.Query, _ scheduler.Memory, _ time.Duration) scheduler.Answer {
	c.asked++
	if o, ok := c.fail[c.asked]; ok {
		return scheduler.Answer{Outcome: o, Elapsed: 9 * time.Millisecond, Error: "as told"}
	}
	i := int(q.ID[0] - 'a')
	return scheduler.Answer{
		Outcome: registry.Changed, Elapsed: time.Duration(i+1) * time.Millisecond,
		Result: schedulertest.Rows(c.t, fmt.Sprint(c.values[i]), "always"),
	}
}

func (c *counters) recording(path string) Recording {
	set := func(name string, values [3]int) Step {
		return Step{Name: name, Apply: func(context.Context) error {
			c.values = values
			c.applied = append(c.applied, name)
			return nil
		}}
	}
	return Recording{
		Path: path, Ask: c,
		Queries: []registry.Query{{ID: "a", Text: "A"}, {ID: "b", Text: "B"}, {ID: "c", Text: "C"}},
		Base: func(context.Context) error {
			c.values = [3]int{}
			c.applied = append(c.applied, "base")
			return nil
		},
		Steps: []Step{set("one", [3]int{1, 0, 0}), {Name: "idle"}, set("three", [3]int{1, 1, 0}), set("four", [3]int{0, 1, 0})},
	}
}

// a: 0 1 1 1 0, b: 0 0 0 1 1, c: 0 always; "idle" is not asked.
func TestRecord(t *testing.T) {
	c := &counters{t: t}
	path := filepath.Join(t.TempDir(), "t.trace")
	if err := c.recording(path).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range tr.Series {
		for _, v := range s.Versions[1:] {
			got = append(got, fmt.Sprint("query ", s.Query, " in ", v.Rev))
		}
	}
	if d := cmp.Diff([]string{"query 0 in 1", "query 0 in 4", "query 1 in 3"}, got); d != "" {
		t.Errorf("changes -want +got:\n%s", d)
	}
	if s := tr.Series[0]; s.Versions[2].same != 0 {
		t.Error("the third version of a is not seen to be the first again")
	}
	if c.asked != 4*3 || tr.Revisions != 4 {
		t.Errorf("%d executions, %d revisions; want 12 and 4", c.asked, tr.Revisions)
	}
	if d := cmp.Diff([]int32{1, 2, 3}, tr.Times[2]); d != "" {
		t.Errorf("times of the idle revision: %s", d)
	}
	if err := c.recording(path).Run(t.Context()); !errors.Is(err, ErrRecorded) {
		t.Errorf("recording again: %v", err)
	}
}

// Failed and partial answers are gaps: they never become a version, and later answers
// are not compared with them. Execution 1 is a at t0, 5 is b in "one".
func TestRecordGaps(t *testing.T) {
	c := &counters{t: t, fail: map[int]registry.Outcome{1: registry.Failed, 5: registry.Partial}}
	path := filepath.Join(t.TempDir(), "t.trace")
	if err := c.recording(path).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Gap{{0, 0, "error", "as told"}, {1, 1, "partial", "as told"}}
	if d := cmp.Diff(want, tr.Gaps); d != "" {
		t.Errorf("gaps -want +got:\n%s", d)
	}
	// a is first known in "one"; only its way back is a change.
	if n := tr.Changes(); n != 2 {
		t.Errorf("%d changes, want 2", n)
	}
}

// A recording that was killed after any byte on disk continues and ends with the same
// trace. The dataset is made again.
func TestRecordResumesAnywhere(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.trace")
	if err := (&counters{t: t}).recording(whole).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n <= len(want); n += 7 {
		for _, tail := range []string{"", "\x64torn"} { // as a crash leaves what was being written
			path := filepath.Join(dir, fmt.Sprint(len(tail), "-", n))
			if err := os.WriteFile(path+".part", append(slices.Clone(want[:n]), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			c := &counters{t: t}
			if err := c.recording(path).Run(t.Context()); tail != "" && n < 300 && err != nil {
				continue // the first line is not whole: it may be of something else
			} else if err != nil {
				t.Fatalf("after %d bytes: %v", n, err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("after %d bytes the trace differs", n)
			}
			if applied := strings.Join(c.applied, " "); applied != "base one three four" {
				t.Fatalf("after %d bytes: applied %q", n, applied)
			}
		}
	}
}

// An unfinished recording of something else is not continued.
func TestRecordRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.trace")
	c := &counters{t: t}
	rec := c.recording(path)
	rec.Steps[3].Apply = func(context.Context) error { return errors.New("killed") }
	if err := rec.Run(t.Context()); err == nil {
		t.Fatal("no error from a step that fails")
	}
	other := c.recording(path)
	other.Queries[1].Text = "another"
	if err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "something else (queries)") {
		t.Errorf("other queries: %v", err)
	}
}

func TestRowIDs(t *testing.T) {
	a, b := RowIDs(schedulertest.Rows(t, "x", "y", "x")), RowIDs(schedulertest.Rows(t, "y", "x", "x"))
	if d := cmp.Diff(a, b); d != "" {
		t.Errorf("the same bag has other ids: %s", d)
	}
	if len(a) != 3 || slices.Equal(a, RowIDs(schedulertest.Rows(t, "x"))) {
		t.Errorf("ids %v", a)
	}
	for _, v := range []bool{true, false} {
		r := diff.NewBuilder(diff.Ask, diff.Options{})
		if err := r.SetBoolean(v); err != nil {
			t.Fatal(err)
		}
		ask, err := r.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if got := RowIDs(ask); len(got) != 1 || (got[0] == 1) != v {
			t.Errorf("ASK %t: %v", v, got)
		}
	}
}

func TestReadQueries(t *testing.T) {
	lines := `{"id":"x-1","query":"SELECT ?s WHERE { ?s <http://e/p> <http://e/o> } ORDER BY ?s","form":"SELECT"}

{"id":7,"query":"ASK { <http://e/o> ?p ?o }"}
{"query":"ASK { ?s ?p ?o }"}`
	qs, err := ReadQueries(strings.NewReader(lines), "q.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if len(qs) != 3 || qs[0].ID != "x-1" || !qs[0].Ordered || qs[1].ID != "7" || qs[1].Form != diff.Ask || qs[2].ID != "4" {
		t.Errorf("read %+v", qs)
	}
	if d := cmp.Diff([][]int{{0}, {0}, {}}, sharedConstants(qs)); d != "" {
		t.Errorf("shared constants -want +got:\n%s", d)
	}
	for text, want := range map[string]string{
		"":           "no queries",
		"{":          "line 1",
		`{"id":"a"}`: "line 1: there is no query",
		`{"id":"a","query":"INSERT DATA { <a:a> <a:a> <a:a> }"}`:           "query a",
		"{\"id\":1,\"query\":\"ASK {}\"}\n{\"id\":1,\"query\":\"ASK {}\"}": "is there twice",
	} {
		if _, err := ReadQueries(strings.NewReader(text), "q.jsonl"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
