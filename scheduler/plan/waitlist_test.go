package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/internal/selection"
	"github.com/freshet/freshet/scheduler/policy"
)

// TestWaitList applies the operations of slots to a list of several blocks, and
// compares all answers about the order with a sorted list.
func TestWaitList(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		var tr waitList
		var list []*item // in order
		serial := 0
		any := func() policy.Key {
			return policy.Key{Class: r.IntN(3), Value: float64(r.IntN(50)), Low: float64(r.IntN(2))}
		}
		place := func(c *item) {
			i, _ := slices.BinarySearchFunc(list, c, order)
			list = slices.Insert(list, i, c)
			tr.insert(c)
		}
		insert := func(key policy.Key, last uint64) {
			c := &item{key: key}
			serial++
			c.Query.ID = fmt.Sprintf("%02d q%d", r.IntN(3), serial) // many share their first bytes
			c.Prefix = selection.Prefix(c.Query.ID)
			c.Stats.Last, c.Estimate = last, time.Duration(1+r.IntN(1000))
			place(c)
		}
		remove := func(i int) {
			tr.remove(list[i])
			list = slices.Delete(list, i, i+1)
		}
		for phase, grow := range []float64{1, 0.5, 0.9, 0.3, 0, 0.7} {
			for step := range 3000 {
				switch {
				case len(list) == 0 || r.Float64() < grow && phase != 2:
					insert(any(), uint64(r.IntN(5)))
				case r.Float64() < grow: // as round robin does
					insert(policy.Key{Class: 2, Value: 50}, uint64(step))
				case len(list) > 0 && tr.len() > 0 && step%100 == 0:
					if tr.first() != list[0] {
						t.Fatalf("seed %d, phase %d: the first is another one", seed, phase)
					}
				case r.IntN(10) == 0: // as the riders of a request
					first, most := r.IntN(len(list)), r.IntN(30)
					var riders []*item
					list = slices.Concat(list[:first], slices.DeleteFunc(slices.Clone(list[first:]), func(c *item) bool {
						rides := len(riders) < most && r.IntN(3) == 0
						if rides {
							riders = append(riders, c)
						}
						return rides
					}))
					tr.removeAll(riders)
					for _, c := range riders[:len(riders)/2*(step%2)] { // settled
						if r.IntN(4) > 0 {
							c.key = any()
						}
						place(c)
					}
					left := time.Duration(r.IntN(1000) / (1 + r.IntN(100)))
					var want *item
					if i := slices.IndexFunc(list, func(c *item) bool { return c.Estimate <= left }); i >= 0 {
						want = list[i]
					}
					if tr.fits(left) != want {
						t.Fatalf("seed %d: after riders left, the first that fits %d is another one", seed, left)
					}
				case r.IntN(3) > 0: // near the beginning, as slots do
					remove(min(r.IntN(8), len(list)-1))
				default:
					remove(r.IntN(len(list)))
				}
			}
			if phase%2 > 0 { // each is the first to read the list in some phase
				compareList(t, &tr, list, r)
			}
			if got := tr.unordered(nil); len(got) != len(list) || tr.len() != len(list) {
				t.Fatalf("seed %d, phase %d: %d candidates of %d", seed, phase, len(got), len(list))
			}
			compareList(t, &tr, list, r)
			if got := tr.all(); !slices.Equal(got, list) {
				t.Fatalf("seed %d, phase %d: the order is wrong", seed, phase)
			}
			tr.sorted.check(t)
			if phase == 3 {
				shuffled := slices.Clone(list)
				r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				tr.load(shuffled) // the phases that follow find it half in order
			}
		}
		for len(list) > 0 {
			remove(0)
		}
		if len(tr.sorted) > 0 || tr.first() != nil || tr.len() != 0 {
			t.Fatalf("seed %d: an empty list holds something", seed)
		}
	}
}

// order is a second implementation of before.
func order(a, b *item) int {
	switch {
	case before(a, b):
		return -1
	case before(b, a):
		return 1
	}
	return 0
}

func compareList(t *testing.T, tr *waitList, list []*item, r *rand.Rand) {
	t.Helper()
	var sums []time.Duration
	sum := time.Duration(0)
	for _, c := range list {
		sums = append(sums, sum)
		sum += c.Estimate
	}
	for range 50 {
		left := time.Duration(r.IntN(1000) / (1 + r.IntN(100)))
		var want *item
		if i := slices.IndexFunc(list, func(c *item) bool { return c.Estimate <= left }); i >= 0 {
			want = list[i]
		}
		if tr.fits(left) != want {
			t.Fatalf("the first that fits %d is another one", left)
		}
	}
	for range min(50, len(list)) {
		i := r.IntN(len(list))
		if rank, cost := tr.place(list[i]); rank != i+1 || cost != sums[i] {
			t.Fatalf("number %d after %d counts as %d after %d", i+1, sums[i], rank, cost)
		}
	}
	for class := -2; class < 4; class++ {
		var want *item
		if i := slices.IndexFunc(list, func(c *item) bool { return c.key.Class > class }); i >= 0 {
			want = list[i]
		}
		if tr.after(class) != want {
			t.Fatalf("the first of a class above %d is another one", class)
		}
	}
}

// check compares a block's sum and bound with its entries, and checks that no block is
// empty.
func (l blocks) check(t *testing.T) {
	t.Helper()
	for b := range l {
		want := block{entries: l[b].entries}
		want.measure()
		if len(l[b].entries) == 0 || want.sum != l[b].sum || want.least < l[b].least {
			t.Fatalf("a block of %d says %d and at least %d, want %d and %d", len(l[b].entries), l[b].sum, l[b].least, want.sum, want.least)
		}
		for _, e := range l[b].entries {
			if e.estimate != e.c.Estimate {
				t.Fatal("an estimate is another one")
			}
		}
	}
}

// TestWaitListStaysDense checks that the list takes little more room than its entries
// need, however queries come and go.
func TestWaitListStaysDense(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l waitList
	var all []*item
	for i := range 20_000 {
		c := &item{key: policy.Key{Value: r.Float64()}, Candidate: policy.Candidate{Prefix: uint64(i)}}
		c.Estimate = 1
		all = append(all, c)
		l.insert(c)
	}
	for range 100_000 {
		c := all[r.IntN(len(all))]
		l.remove(c)
		c.key.Value = r.Float64()
		l.insert(c)
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, c := range all[:15_000] {
		l.remove(c)
	}
	l.sorted.check(t)
	if n, most := len(l.sorted), 5000/(full/8)+1; n > most {
		t.Errorf("5,000 candidates are in %d blocks, want at most %d", n, most)
	}
}
