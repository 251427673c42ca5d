// This file tests past states that are read while retention drops changes.

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
)

// A meddler is a context that runs a function when a read asks it for the nth time whether
// it has ended, which is between two transactions of the read.
type meddler struct {
	context.Context
	calls int
	do    func()
}

func (m *meddler) Err() error {
	if m.calls--; m.calls == 0 {
		m.do()
	}
	return m.Context.Err()
}

// A read of a past state that retention overtakes, between finding the state and reading it
// or between two pages of changes, gives the exact state or says that it is gone.
func TestRetentionBesideReads(t *testing.T) {
	const rows, kept, pages = 20, 2*pageEntries + 100, 3
	d := open(t, t.TempDir(), Options{Retention: Retention{Changes: kept}})
	put(t, d, "q_a", "city")
	var hashes []string // by seq − 1
	change := func() {
		n := len(hashes)
		b := diff.NewBuilder(diff.Select, diff.Options{})
		err := b.SetVars([]string{"a"})
		for i := range rows { // one row differs
			text := fmt.Sprint("row ", i)
			if i == n%rows {
				text += fmt.Sprint(" of change ", n)
			}
			err = errors.Join(err, b.Row(diff.Term{Kind: diff.Literal, Value: text}))
		}
		r, finished := b.Finish()
		if err := errors.Join(err, finished); err != nil {
			t.Fatal(err)
		}
		out, err := d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{next(t, d, "q_a", uint64(n+1), r)}})
		if err != nil || len(out) != 1 {
			t.Fatalf("%d changes recorded: %v", len(out), err)
		}
		hashes = append(hashes, r.Hash())
	}
	changes := func(n int) {
		for range n {
			change()
		}
	}
	changes(kept)
	oldest := func() uint64 { return uint64(len(hashes)) - kept + 1 }
	exact, gone := 0, 0
	for _, x := range []struct {
		age   uint64 // of the state, in changes after the oldest that is kept
		calls int    // 0: before the read begins
		drops int
	}{{0, 0, 0}, {2, 0, 20}, {0, pageEntries + 1, 30}, {0, 0, 1}, {5, 0, 5}, {5, 0, 6}, {0, 1, 1}, {0, 1, 40}, {40, 1, 40},
		{3, pageEntries + 1, 10}, {10, pageEntries + 1, 10}, {0, 2*pageEntries + 1, 20}} {
		at := oldest() + x.age
		var r route
		if err := d.Ledger.view(func(tx *bbolt.Tx) error {
			h, err := d.History.historyOf(tx, "q_a")
			if err != nil {
				return err
			}
			// The longest route, which has several pages: from the newest result.
			r = route{serial: h.record.serial, back: true, next: h.record.seq, left: h.record.seq - at}
			r.base = bytes.Clone(tx.Bucket(bResults).Get(key8(h.record.serial)))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if r.left <= (pages-1)*pageEntries {
			t.Fatalf("the route has %d changes, want more than %d pages", r.left, pages-1)
		}
		ctx := &meddler{Context: t.Context(), calls: x.calls, do: func() { changes(x.drops) }}
		if x.calls == 0 {
			changes(x.drops)
		}
		got, err := d.History.travel(ctx, r)
		switch {
		case err == nil && got.Hash() == hashes[at-1]:
			exact++
		case gap(err) == registry.TooOld && got == nil:
			gone++
		default:
			t.Errorf("%+v: state %d: %v", x, at, err)
		}
		if oldest() > at+1 && err == nil && x.calls < pageEntries {
			t.Errorf("%+v: state %d was read from changes that were dropped", x, at)
		}
		// The read from its beginning says the same of what is left.
		if _, err := d.History.StateAt(t.Context(), "q_a", registry.Position{Seq: at}); (gap(err) == registry.TooOld) != (oldest() > at) {
			t.Errorf("%+v: state %d, the oldest is %d: %v", x, at, oldest(), err)
		}
	}
	if exact < 3 || gone < 3 {
		t.Errorf("%d states were exact and %d gone: the test says little", exact, gone)
	}
}
