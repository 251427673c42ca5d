package cursor_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A manyFollower takes events from a MultiCursor and checks each against the laws.
type manyFollower struct {
	t    *rapid.T
	w    *world
	make func() *cursor.MultiCursor

	m       *cursor.MultiCursor
	has     map[string]*replica
	lost    map[string]bool // the reader got a Gap and fetched the result
	changes int
}

func (f *manyFollower) fetch(query string) {
	st, res, err := f.w.log.Current(query, true)
	must(err)
	f.has[query], f.lost[query] = &replica{st.Position, view(f.m.Filter, res)}, true
}

// drain takes events until the cursor waits for more than now.
func (f *manyFollower) drain() {
	for range 100_000 {
		ev, err := f.m.Next(ctx, f.w.reader(), f.w.now)
		if err != nil {
			f.t.Fatalf("next: %v", err)
		}
		switch ev.Kind {
		case cursor.Wait:
			if ev.Until.IsZero() || ev.Until.After(f.w.now) {
				return
			}
		case cursor.Gap:
			for query := range f.has {
				if ev.Query == "" || ev.Query == query {
					f.fetch(query)
				}
			}
		default:
			f.take(ev)
		}
		if n := len(f.m.State().Withheld); n > cursor.MaxWithheld {
			f.t.Fatalf("%d queries are held back", n)
		}
	}
	f.t.Fatal("the cursor never waits")
}

func (f *manyFollower) take(ev cursor.Event) {
	p := f.has[ev.Query]
	if f.lost[ev.Query] { // the fetched result may be newer than the change
		if ev.At.Epoch == p.at.Epoch && ev.At.Seq <= p.at.Seq {
			return
		}
		if ev.Kind == cursor.Change && ev.Change.Prev < p.at.Seq {
			f.fetch(ev.Query)
			return
		}
	}
	if ev.Kind == cursor.Moved {
		if p.at = ev.At; p.at.Epoch == "" {
			f.t.Fatalf("moved to %s", ev.At)
		}
		return
	}
	f.m.Sent(f.w.now)
	f.changes++
	if p.at.Epoch == "" {
		p.at.Epoch = ev.Change.Epoch
	}
	if err := p.apply(ev.Change); err != nil {
		f.t.Fatalf("%s: %v", ev.Query, err)
	}
}

// For any filter and rate, a reader that resumes by event ids or stored states has what the
// filter leaves of each result. What a threshold withholds is smaller than the threshold.
// No change is sent twice.
func TestMultiCursorLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld()
		w.remember(rt)
		filter, rate := parse(t, filterParams[rapid.SampledFrom(slices.Sorted(maps.Keys(filterParams))).Draw(rt, "params")])
		stored := rapid.Bool().Draw(rt, "stored")
		f := &manyFollower{t: rt, w: w, has: map[string]*replica{}, lost: map[string]bool{}}
		f.make = func() *cursor.MultiCursor {
			return &cursor.MultiCursor{Filter: filter, Rate: rate, Stored: stored, Wants: func(*registry.Change) (bool, error) { return true, nil }}
		}
		f.m = f.make()
		must(f.m.Resume("store:0"))
		var ids []string
		for i := range rapid.SampledFrom([]int{1, 3, 90}).Draw(rt, "queries") {
			id := w.log.Add(fmt.Sprint("q", i), diff.Select, false)
			ids = append(ids, id)
			f.has[id] = &replica{bag: []string{}}
		}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			for range rapid.IntRange(0, 8).Draw(rt, "changes") {
				values := drawValues(rt)
				for i := range rapid.IntRange(1, len(ids)).Draw(rt, "of") {
					w.record(ids[i], append(values, fmt.Sprint(i))...)
				}
			}
			f.disturb()
			f.drain()
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second)
		}
		for range 3 { // a round may be in progress
			w.now = w.now.Add(time.Minute)
			f.drain()
		}
		for _, id := range ids {
			st, res, err := w.log.Current(id, true)
			must(err)
			if err := checkHeld(filter, f.has[id].bag, view(filter, res)); err != nil {
				rt.Fatalf("%s: %v", id, err)
			}
			if filter.All() && f.has[id].at.Seq != st.Position.Seq {
				rt.Fatalf("%s: the reader is at %s, the query at %s", id, f.has[id].at, st.Position)
			}
		}
	})
}

func (f *manyFollower) disturb() {
	switch rapid.IntRange(0, 5).Draw(f.t, "fault") {
	case 0:
		f.w.log.TrimAll(rapid.IntRange(1, 3).Draw(f.t, "keep"))
	case 1:
		id := f.m.EventID()
		f.m = f.make()
		if err := f.m.Resume(id); err != nil {
			f.t.Fatalf("resume at %s: %v", id, err)
		}
	case 2, 3:
		s := f.m.State()
		f.m = f.make()
		f.m.Restore(s)
	}
}

// The cursor passes changes that the reader does not want. An error of Wants ends the step
// before anything is lost.
func TestMultiCursorWants(t *testing.T) {
	w := newWorld()
	a, b := w.log.Add("a", diff.Select, false), w.log.Add("b", diff.Select, false)
	w.record(a, "1")
	w.record(b, "1")
	var trouble error
	m := &cursor.MultiCursor{Wants: func(c *registry.Change) (bool, error) { return c.Query == b, trouble }}
	must(m.Resume("store:0"))
	trouble = errors.New("no answer")
	if _, err := m.Next(ctx, w.reader(), w.now); !errors.Is(err, trouble) || m.At().Seq != 0 {
		t.Fatalf("%v at %s", err, m.At())
	}
	trouble = nil
	ev, err := m.Next(ctx, w.reader(), w.now)
	if err != nil || ev.Kind != cursor.Change || ev.Query != b || m.EventID() != "store:2" {
		t.Errorf("%+v %v at %s", ev, err, m.EventID())
	}
}

func TestEventIDs(t *testing.T) {
	for _, bad := range []string{"", "x", "store", "store:1~", "store:1~q", "store:1~q:x", "store:1~q\n:1", "a\r:1"} {
		if err := new(cursor.MultiCursor).Resume(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	m := new(cursor.MultiCursor)
	for _, good := range []string{"store:1", "store:7~q_1:3~q_2:5"} {
		if err := m.Resume(good); err != nil || m.EventID() != good {
			t.Errorf("%q is read as %s (%v)", good, m.EventID(), err)
		}
	}
}

// A position of another epoch, or after the newest change, is a gap. The cursor continues
// after the newest change.
func TestMultiCursorGaps(t *testing.T) {
	w := newWorld()
	q := w.log.Add("q", diff.Select, false)
	w.record(q, "1")
	for id, reason := range map[string]string{"other:1": registry.OtherEpoch, "store:7": registry.Ahead} {
		m := &cursor.MultiCursor{Wants: func(*registry.Change) (bool, error) { return true, nil }}
		must(m.Resume(id))
		ev, err := m.Next(ctx, w.reader(), w.now)
		if err != nil || ev.Kind != cursor.Gap || ev.Reason != reason || ev.Query != "" || m.EventID() != "store:1" {
			t.Errorf("%s: %+v %v, at %s", id, ev, err, m.EventID())
		}
	}
}

// A limit is about what the filter leaves of a net change, not about what it withholds.
func TestLimitOfWhatIsLeft(t *testing.T) {
	w := newWorld()
	id := w.log.Add("q", diff.Select, false)
	w.record(id, "a")
	begin, _, _ := w.log.Current(id, false)
	many := make([]string, 4000)
	for i := range many {
		many[i] = fmt.Sprint("x", i, "of many long rows")
	}
	w.record(id, append(many, "a", "a2")...)
	st, _, _ := w.log.Current(id, false)
	for params, want := range map[string]cursor.Kind{"where=s:starts:a": cursor.Change, "where=s:starts:x": cursor.Gap,
		"min_rows=9000": cursor.Wait} {
		filter, _ := parse(t, params)
		m := &cursor.MultiCursor{Filter: filter, Limit: 1000, Stored: true, Wants: func(*registry.Change) (bool, error) { return true, nil }}
		must(m.Resume("store:1"))
		ev, err := m.Next(ctx, w.reader(), w.now)
		for range 3 {
			if err == nil && ev.Kind == cursor.Wait {
				ev, err = m.Next(ctx, w.reader(), w.now)
			}
		}
		if err != nil || ev.Kind != want {
			t.Errorf("%s: a reader of all queries gets %+v, %v", params, ev, err)
		}
		c := &cursor.Cursor{Query: id, Filter: filter, Rules: &cursor.Rules{Limit: 1000}}
		c.Jump(begin.Position)
		ev, err = c.Next(ctx, w.reader(), st.Position, w.now)
		if one := map[cursor.Kind]cursor.Kind{cursor.Gap: cursor.Snapshot}; err != nil || ev.Kind != cmp.Or(one[want], want) {
			t.Errorf("%s: a reader of one query gets %+v, %v", params, ev, err)
		}
	}
}
