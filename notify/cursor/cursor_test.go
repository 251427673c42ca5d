package cursor_test

import (
	"context"
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

// A follower takes events from a cursor and checks each against the laws.
type follower struct {
	t   *rapid.T
	w   *world
	id  string
	cut func() *cursor.Cursor // returns the cursor of a new connection

	c        *cursor.Cursor
	has      replica
	messages []time.Time
	mayReset bool // changes need not lead on, because of an earlier fault
}

// drain takes events until the cursor waits.
func (f *follower) drain() cursor.Event {
	for range 10_000 {
		st, _, err := f.w.log.Current(f.id, false)
		must(err)
		ev, err := f.c.Next(ctx, f.w.reader(), st.Position, f.w.now)
		if err != nil {
			f.t.Fatalf("next: %v", err)
		}
		switch ev.Kind {
		case cursor.Wait:
			return ev
		case cursor.Change:
			if err := f.has.apply(ev.Change); err != nil {
				f.t.Fatal(err)
			}
			f.message()
		case cursor.Moved:
			if ev.At.Epoch != f.has.at.Epoch || ev.At.Seq <= f.has.at.Seq {
				f.t.Fatalf("moved from %s to %s", f.has.at, ev.At)
			}
			f.has.at = ev.At
		case cursor.Snapshot:
			f.reset(ev)
		}
		if f.has.at != f.c.At() {
			f.t.Fatalf("the cursor is at %s, the reader at %s", f.c.At(), f.has.at)
		}
	}
	f.t.Fatal("the cursor never waits")
	return cursor.Event{}
}

func (f *follower) reset(ev cursor.Event) {
	if ev.Reason != "" && !f.mayReset {
		f.t.Fatalf("a snapshot (%s) at %s although the log leads on", ev.Reason, f.has.at)
	}
	st, res, err := f.w.log.Current(f.id, true)
	must(err)
	f.c.Jump(st.Position)
	f.has, f.mayReset = replica{st.Position, view(f.c.Filter, res)}, false
	if res != nil {
		f.message()
	}
}

func (f *follower) message() {
	if n := len(f.messages); n > 0 && f.w.now.Sub(f.messages[n-1]) < f.c.Rate {
		f.t.Fatalf("a message %s after the last one, the rate is %s", f.w.now.Sub(f.messages[n-1]), f.c.Rate)
	}
	f.messages = append(f.messages, f.w.now)
	f.c.Sent(f.w.now)
}

// For any filter, rate, pace and cuts, and any history of the log, each change starts at
// the reader's position, and none is sent sooner than the rate allows. A reader of all
// events has what the filter leaves of the result. What a threshold withholds is smaller
// than the threshold.
func TestCursorLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld()
		w.remember(rt)
		id := w.log.Add("q", diff.Select, false)
		filter, rate := parse(t, filterParams[rapid.SampledFrom(slices.Sorted(maps.Keys(filterParams))).Draw(rt, "params")])
		rules := &cursor.Rules{Fold: rapid.SampledFrom([]int{0, 3, 16}).Draw(rt, "fold"),
			Limit: rapid.SampledFrom([]int64{0, 0, 200}).Draw(rt, "limit"), Single: rapid.Bool().Draw(rt, "single")}
		snapshots := rapid.IntRange(0, 4).Draw(rt, "snapshots") == 0
		f := &follower{t: rt, w: w, id: id, mayReset: true}
		f.cut = func() *cursor.Cursor {
			return &cursor.Cursor{Query: id, Filter: filter, Rate: rate, Snapshots: snapshots, Rules: rules}
		}
		f.c = f.cut()
		for step := range rapid.IntRange(1, 10).Draw(rt, "steps") {
			for range rapid.SampledFrom([]int{0, 1, 2, 5, 80}).Draw(rt, "changes") {
				w.record(id, drawValues(rt)...)
			}
			f.mayReset = f.mayReset || rules.Limit > 0
			f.disturb(step)
			if ev := f.drain(); rate == 0 && !ev.Until.IsZero() {
				rt.Fatalf("waits until %s without a rate", ev.Until)
			}
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second)
		}
		w.now = w.now.Add(time.Minute)
		f.drain()
		if ev, ok := f.c.Settle(); ok {
			f.has.at = ev.At
		}
		st, res, err := w.log.Current(id, true)
		must(err)
		if err := checkHeld(filter, f.has.bag, view(filter, res)); err != nil {
			rt.Fatal(err)
		}
		if f.c.Seen() != st.Position || filter.All() && f.c.At() != st.Position {
			rt.Fatalf("the cursor has seen %s and is at %s, the query at %s", f.c.Seen(), f.c.At(), st.Position)
		}
	})
}

// disturb occasionally disturbs the follower before a step.
func (f *follower) disturb(step int) {
	switch rapid.IntRange(0, 9).Draw(f.t, "fault") {
	case 0:
		f.w.log.Trim(f.id, 1)
		f.mayReset = true
	case 1:
		f.w.log.Renumber(f.id, fmt.Sprint("new", step))
		f.mayReset = true
	case 2, 3, 4: // the connection breaks and the reader resumes
		f.c = f.cut()
		if f.has.at.Epoch == "" {
			return
		}
		f.c.Jump(f.has.at)
		f.messages = nil
	}
}

// Up to Rules.Fold waiting changes are sent one by one, more as one change. They are also
// sent as one to readers that are late.
func TestCursorFolds(t *testing.T) {
	w := newWorld()
	id := w.log.Add("q", diff.Select, false)
	w.record(id, "a")
	first, _, _ := w.log.Current(id, false)
	for i := range 4 {
		w.record(id, fmt.Sprint(i))
	}
	for name, c := range map[string]struct {
		fold int
		late bool
		want []uint64
	}{
		"all one by one": {fold: 4, want: []uint64{2, 3, 4, 5}},
		"too many":       {fold: 3, want: []uint64{5}},
		"late":           {fold: 4, late: true, want: []uint64{5}},
	} {
		k := &cursor.Cursor{Query: id, Rules: &cursor.Rules{Fold: c.fold}, Late: func() bool { return c.late }}
		k.Jump(first.Position)
		st, _, _ := w.log.Current(id, false)
		var got []uint64
		for {
			ev, err := k.Next(ctx, w.reader(), st.Position, w.now)
			must(err)
			if ev.Kind == cursor.Wait {
				break
			}
			got = append(got, ev.At.Seq)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A reader that becomes late while changes are sent one by one gets the rest as one.
func TestCursorFoldsTheRest(t *testing.T) {
	w := newWorld()
	id := w.log.Add("q", diff.Select, false)
	for i := range 5 {
		w.record(id, fmt.Sprint(i))
	}
	st, _, _ := w.log.Current(id, false)
	late := false
	k := &cursor.Cursor{Query: id, Rules: &cursor.Rules{Fold: 16}, Late: func() bool { return late }}
	k.Jump(registry.Position{Epoch: st.Position.Epoch, Seq: 1})
	var got []uint64
	for range 2 {
		ev, err := k.Next(ctx, w.reader(), st.Position, w.now)
		must(err)
		got = append(got, ev.Change.Prev, ev.Change.Seq)
		late = true
	}
	if want := []uint64{1, 2, 2, 5}; !slices.Equal(got, want) {
		t.Errorf("changes between %v, want %v", got, want)
	}
}

// A sum has the edits of the data behind all of its changes, each once, and the newest ten.
func TestSumHasAllEdits(t *testing.T) {
	l := edited{}
	edits := func(list ...int) (out []registry.DataEdit) {
		for _, n := range list {
			out = append(out, registry.DataEdit{Text: fmt.Sprint("revision ", n)})
		}
		return out
	}
	was := rows()
	for i, list := range [][]int{{1, 2}, {2, 3}, {}, {4, 5, 6, 7, 8, 9, 10, 11}} {
		now := rows(fmt.Sprint(i))
		l.changes = append(l.changes, registry.Change{Epoch: "e", Prev: uint64(i), Seq: uint64(i + 1), Delta: diff.Compare(was, now),
			Edits: edits(list...)})
		was = now
	}
	for until, want := range map[uint64][]registry.DataEdit{1: edits(1, 2), 2: edits(1, 2, 3), 4: edits(2, 3, 4, 5, 6, 7, 8, 9, 10, 11)} {
		c, n, err := cursor.Sum(context.Background(), &cursor.Reader{Log: l}, "q", registry.Position{Epoch: "e"},
			registry.Position{Epoch: "e", Seq: until}, 0)
		if err != nil || n != int(until) || !slices.Equal(c.Edits, want) {
			t.Errorf("%d: %v, %d, %v", until, err, n, c.Edits)
		}
	}
}

// edited is a log of one query.
type edited struct {
	cursor.Log
	changes []registry.Change
}

func (l edited) After(_ string, p registry.Position, limit int) ([]registry.Change, error) {
	list := l.changes[p.Seq:]
	return list[:min(len(list), limit)], nil
}
