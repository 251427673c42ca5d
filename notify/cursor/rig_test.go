package cursor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
)

// filterParams are the filters and rates with which the laws are tested.
var filterParams = map[string]string{"all": "", "rows": "min_rows=4", "jaccard": "min_jaccard=0.6", "vars": "vars=s",
	"where": "where=s:contains:1",
	"rate":  "rate=3s", "both": "where=s:%3E:20&rate=2s", "rows and rate": "min_rows=3&rate=2s"}

// start is the initial time of the tests' clock.
var start = time.Unix(1_790_000_000, 0)

// A world is a log with a clock. Nothing in it waits.
type world struct {
	log    *notifytest.Log
	memory *cursor.Memory
	now    time.Time
	tick   int
}

func newWorld() *world { return &world{log: notifytest.NewLog("store"), now: start} }

func (w *world) reader() *cursor.Reader {
	return &cursor.Reader{Log: w.log, Head: w.log.Head, Memory: w.memory}
}

// remember lets some of the tests' cursors share a memory.
func (w *world) remember(t *rapid.T) {
	if rapid.Bool().Draw(t, "memory") {
		w.memory = cursor.NewMemory()
	}
}

func (w *world) record(id string, values ...string) {
	w.tick++
	w.log.Record(id, rows(values...), start.Add(time.Duration(w.tick)*time.Second))
}

// rows returns an unordered SELECT result with one variable.
func rows(values ...string) *diff.Result {
	b := diff.NewBuilder(diff.Select, diff.Options{})
	must(b.SetVars([]string{"s"}))
	for _, v := range values {
		must(b.Row(diff.Term{Kind: diff.Literal, Value: v}))
	}
	r, err := b.Finish()
	must(err)
	return r
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func parse(t testing.TB, params string) (*cursor.Filter, time.Duration) {
	t.Helper()
	q, err := url.ParseQuery(params)
	must(err)
	f, rate, err := cursor.ParseParams(q)
	if err != nil {
		t.Fatal(err)
	}
	return f, rate
}

func drawValues(t *rapid.T) []string {
	var values []string
	for _, v := range rapid.SliceOfN(rapid.IntRange(0, 30), 0, 6).Draw(t, "values") {
		values = append(values, fmt.Sprint(v))
	}
	return values
}

// view returns the part of a result that a filter selects, sorted.
func view(f *cursor.Filter, r *diff.Result) []string {
	bag := []string{}
	if r == nil {
		return bag
	}
	var doc struct {
		Results struct{ Bindings []json.RawMessage }
	}
	must(json.Unmarshal(f.ResultJSON(r), &doc))
	for _, b := range doc.Results.Bindings {
		bag = append(bag, string(b))
	}
	slices.Sort(bag)
	return bag
}

// A replica is a reader's copy of one query.
type replica struct {
	at  registry.Position
	bag []string
}

// apply applies a change to the replica. It returns an error if the change is wrong.
func (p *replica) apply(c *registry.Change) error {
	if c.Prev != p.at.Seq || c.Epoch != p.at.Epoch || c.Seq <= c.Prev {
		return fmt.Errorf("a change (%d, %d] of epoch %s comes at %s", c.Prev, c.Seq, c.Epoch, p.at)
	}
	for _, row := range c.Delta.Removed {
		i := slices.Index(p.bag, string(row))
		if i < 0 {
			return fmt.Errorf("%s is removed and not there", row)
		}
		p.bag = slices.Delete(p.bag, i, i+1)
	}
	for _, row := range c.Delta.Added {
		p.bag = append(p.bag, string(row))
	}
	slices.Sort(p.bag)
	p.at = c.Position()
	return nil
}

// distance counts the rows by which two sorted bags differ.
func distance(a, b []string) int {
	rest := slices.Clone(b)
	n := 0
	for _, x := range a {
		if i := slices.Index(rest, x); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			n++
		}
	}
	return n + len(rest)
}

// checkHeld checks the copy of a reader that received every event: it equals the filtered
// result, or differs from it by less than the filter's thresholds.
func checkHeld(f *cursor.Filter, has, want []string) error {
	n := distance(has, want)
	switch {
	case f.All() || f.MinRows == 0 && f.MinJaccard == 0:
		if n > 0 {
			return fmt.Errorf("the reader has %v, the result is %v", has, want)
		}
	case f.MinRows > 0 && n >= f.MinRows:
		return fmt.Errorf("%d rows are held back: the reader has %v, the result is %v", n, has, want)
	}
	return nil
}

var ctx = context.Background()
