package diff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

func named(t testing.TB, names ...string) *Result {
	t.Helper()
	b := NewBuilder(Select, Options{})
	if err := b.SetVars([]string{"s"}); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := b.Row(Term{Kind: Literal, Value: n}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// walk returns the steps of a result whose rows come and go at random.
func walk(t *testing.T, r *rand.Rand, steps int) (first, last *Result, deltas []*Delta) {
	t.Helper()
	var rows []string
	first = named(t)
	last = first
	for range steps {
		for range r.IntN(4) {
			rows = append(rows, fmt.Sprint(r.IntN(40))) // rarely a new one, so most steps undo earlier ones
		}
		for range min(len(rows), r.IntN(4)) {
			i := r.IntN(len(rows))
			rows = slices.Delete(rows, i, i+1)
		}
		now := named(t, rows...)
		if d := Compare(last, now); d != nil && !d.Empty() {
			deltas, last = append(deltas, d), now
		}
	}
	return first, last, deltas
}

// A chain of any length leads to the same result as its single steps.
func TestChain(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 70 {
		first, last, deltas := walk(t, r, n)
		var c Chain
		for _, d := range deltas {
			if _, err := c.Add(d); err != nil {
				t.Fatal(err)
			}
		}
		if most := 7; len(c.links) > most {
			t.Fatalf("%d steps wait as %d links", len(deltas), len(c.links))
		}
		d, err := c.Sum()
		if err != nil {
			t.Fatal(err)
		}
		got := first
		if d != nil {
			if got, err = d.Apply(first); err != nil {
				t.Fatal(err)
			}
		}
		if got.Hash() != last.Hash() {
			t.Fatalf("%d steps lead to another result", len(deltas))
		}
	}
}

// The work of composing a chain of n steps is O(n log n), also if no row cancels out.
// Allocated memory measures the work.
func TestChainWork(t *testing.T) {
	deltas := make([]*Delta, 1<<12)
	for i := range deltas {
		deltas[i] = &Delta{Form: Select, Vars: []string{"s"}, OldVars: []string{"s"}, Added: Rows{fmt.Appendf(nil, "{%06d}", i)},
			OldLen: i, NewLen: i + 1}
	}
	work := func(n int) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var c Chain
		for _, d := range deltas[:n] {
			if _, err := c.Add(d); err != nil {
				t.Fatal(err)
			}
		}
		if d, err := c.Sum(); err != nil || len(d.Added) != n {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	few, many := len(deltas)/16, len(deltas)
	exponent := math.Log(work(many)/work(few)) / math.Log(float64(many)/float64(few))
	if t.Logf("exponent %.2f", exponent); exponent > 1.4 {
		t.Errorf("the work grows with the number of steps to the power of %.2f", exponent)
	}
}
