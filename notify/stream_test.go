package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A consumer holds the result that a stream leads to.
type consumer struct {
	at    registry.Position
	bag   []string // rows, sorted
	begun bool
	gap   bool // the last event was a gap
}

func (c *consumer) take(t rapidOrTest, ev *notify.StreamEvent) {
	switch ev.Kind {
	case notify.StreamSnapshot:
		if c.begun && !c.gap {
			t.Fatalf("a snapshot at %v without a gap: the changes did not add up", ev.At)
		}
		c.bag = []string{}
		if ev.Result == nil {
			break
		}
		_, all := ev.Rows()
		for _, r := range all {
			c.bag = append(c.bag, string(r))
		}
	case notify.StreamChange:
		if ev.Change.Prev != c.at.Seq || ev.Change.Epoch != c.at.Epoch {
			t.Fatalf("a change from %d comes after %v", ev.Change.Prev, c.at)
		}
		for _, r := range ev.Change.Delta.Removed {
			i := slices.Index(c.bag, string(r))
			if i < 0 {
				t.Fatalf("%s is removed and not there", r)
			}
			c.bag = slices.Delete(c.bag, i, i+1)
		}
		for _, r := range ev.Change.Delta.Added {
			c.bag = append(c.bag, string(r))
		}
	}
	c.begun, c.gap = true, ev.Kind == notify.StreamGap
	slices.Sort(c.bag)
	c.at = ev.At
}

type rapidOrTest interface{ Fatalf(string, ...any) }

// view returns the part of a result that the filter selects.
func view(t *testing.T, f *cursor.Filter, r *diff.Result) []string {
	var doc struct {
		Results struct{ Bindings []json.RawMessage }
	}
	if err := json.Unmarshal(f.ResultJSON(r), &doc); err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, b := range doc.Results.Bindings {
		out = append(out, string(b))
	}
	slices.Sort(out)
	return out
}

// With any filter, rate and cuts, a consumer of all events has what the filter leaves
// of the result. A threshold withholds less than it asks for.
func TestStreamModel(t *testing.T) {
	params := map[string]string{"all": "", "rows": "min_rows=4", "jaccard": "min_jaccard=0.6", "vars": "vars=s",
		"where": "where=s:contains:1", "rate": "rate=3ms", "both": "where=s:%3E:20&rate=2ms"}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(params))).Draw(rt, "params")
		r := newRig(t, func(o *notify.Options) { o.Limits.Fold, o.Timing.Ping = 3, 5*time.Millisecond })
		id := r.log.Add("q", "SELECT", false)
		q, err := url.ParseQuery(params[name])
		must(err)
		options := notify.StreamOptions{Limited: rapid.Bool().Draw(rt, "limited")}
		options.Filter, options.Rate, err = cursor.ParseParams(q)
		must(err)
		c := &consumer{}
		for step := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			for range rapid.IntRange(0, 6).Draw(rt, "changes") {
				var values []string
				for _, v := range rapid.SliceOfN(rapid.IntRange(0, 30), 0, 6).Draw(rt, "values") {
					values = append(values, fmt.Sprint(v))
				}
				r.record(id, rows(values...))
			}
			switch rapid.IntRange(0, 9).Draw(rt, "fault") {
			case 0:
				r.log.Trim(id, 1)
			case 1:
				r.log.Renumber(id, fmt.Sprint("new", step))
			}
			if step > 0 {
				options.After = &c.at
			}
			listen(t, rt, r, id, options, c)
		}
		st, res, err := r.log.Current(id, true)
		must(err)
		if res == nil {
			return
		}
		withholds := name == "rows" || name == "jaccard"
		if want := view(t, options.Filter, res); !withholds && (!slices.Equal(c.bag, want) || c.at != st.Position) {
			rt.Fatalf("holds %v at %v, the result is %v at %v", c.bag, c.at, want, st.Position)
		} else if n := distance(c.bag, want); name == "rows" && n >= 4 {
			rt.Fatalf("%d rows are held back: %v, the result is %v", n, c.bag, want)
		}
	})
}

// distance returns the number of rows that only one of two sorted bags has.
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

// listen reads a stream until it is idle, and then stops like a broken connection.
func listen(t *testing.T, rt *rapid.T, r *rig, id string, options notify.StreamOptions, c *consumer) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	meanwhile := rapid.IntRange(0, 3).Draw(rt, "meanwhile")
	for ev, err := range r.srv.Stream(ctx, id, options) {
		if err != nil {
			rt.Fatalf("stream: %v", err)
		}
		c.take(rt, &ev)
		st, _, _ := r.log.Current(id, false)
		if ev.Kind != notify.StreamIdle && (ev.Kind != notify.StreamMoved || ev.At != st.Position) {
			continue
		}
		if options.Rate > 0 && ev.At != st.Position {
			continue // a heartbeat while the rate holds a change back
		}
		if meanwhile--; meanwhile < 0 {
			return
		}
		r.record(id, rows(fmt.Sprint(meanwhile), fmt.Sprint(10+meanwhile), fmt.Sprint(meanwhile/2)))
	}
	rt.Fatalf("the stream ended")
}

// A stream ends with the query, and with its consumer.
func TestStreamEnds(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	for ev, err := range r.srv.Stream(t.Context(), id, notify.StreamOptions{}) {
		if err != nil {
			if !errors.Is(err, registry.ErrNotFound) {
				t.Fatal(err)
			}
			break
		}
		if ev.Kind == notify.StreamSnapshot {
			r.log.Remove(id)
			r.waker.Wake(id)
		}
	}
	if n := r.waker.Followers(id); n != 0 {
		t.Errorf("%d followers are left", n)
	}
}

// Waiting changes are folded for a lagging consumer.
func TestStreamFoldsForLaggards(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	st, _, _ := r.log.Current(id, false)
	for _, v := range []string{"b", "c", "d"} {
		r.record(id, rows(v))
	}
	for late, want := range map[bool][]uint64{false: {2, 3, 4}, true: {4}} {
		var got []uint64
		ctx, cancel := context.WithCancel(t.Context())
		for ev, err := range r.srv.Stream(ctx, id, notify.StreamOptions{After: &st.Position, Lagging: func() bool { return late }}) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, ev.At.Seq); ev.At.Seq == 4 {
				break
			}
		}
		cancel()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("late %v: %s", late, d)
		}
	}
}
