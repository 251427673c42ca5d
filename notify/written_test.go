package notify

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// aChange is one row of a length instead of another.
func aChange(t testing.TB, query string, seq uint64, length int) *registry.Change {
	t.Helper()
	rows := func(v string) *diff.Result {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		b.SetVars([]string{"s"})
		b.Row(diff.Term{Kind: diff.Literal, Value: strings.Repeat(v, length)})
		r, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	return &registry.Change{Query: query, Epoch: "e", Prev: seq - 1, Seq: seq, Time: time.Unix(int64(seq), 0), Delta: diff.Compare(rows("a"), rows("b"))}
}

func TestWrittenOnce(t *testing.T) {
	var w written
	c := aChange(t, "q", 2, 10)
	want, err := MarshalChange(*c, Format{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if got := "{" + string(w.members(c, Format{})) + "}"; got != string(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	all.Wait()
	if w.made != 1 {
		t.Errorf("marshalled %d times for a thousand followers", w.made)
	}
	fold := *c
	fold.Prev = 0
	if string(w.members(&fold, Format{})) == string(w.members(c, Format{})) || w.made != 2 {
		t.Error("a fold was taken for the change that it ends with")
	}
}

func TestWrittenIsBounded(t *testing.T) {
	var w written
	for seq := range uint64(3 * keepSteps) {
		w.members(aChange(t, "q", seq+1, 1), Format{})
	}
	if len(w.byStep) != keepSteps || len(w.order) != keepSteps {
		t.Errorf("%d small changes kept, %d in order", len(w.byStep), len(w.order))
	}
	for i := range 60 {
		w.members(aChange(t, fmt.Sprint("big", i), 1, 1<<20), Format{})
		if w.weight > keepWeight {
			t.Fatalf("%d bytes kept", w.weight)
		}
	}
	sum := 0
	for _, r := range w.byStep {
		sum += cap(r.value)
	}
	if sum != w.weight || len(w.order) != len(w.byStep) || len(w.byStep) < 3 {
		t.Errorf("%d bytes counted, %d kept in %d changes", w.weight, sum, len(w.byStep))
	}
}
