package selection

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMoveFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "list")
		n := rapid.IntRange(0, len(list)).Draw(t, "n")
		want := slices.Sorted(slices.Values(list))[:n]
		MoveFirst(list, n, func(a, b *int) bool { return *a < *b })
		if got := slices.Sorted(slices.Values(list[:n])); !slices.Equal(got, want) {
			t.Fatalf("the first %d are %v, want %v", n, got, want)
		}
	})
}

// The pivot of a long list comes from a sample.
func TestMoveFirstOfMany(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		list := make([]int, r.IntN(4000))
		values := 1 + r.IntN(len(list)+1) // many equal ones, or few
		for i := range list {
			list[i] = r.IntN(values)
		}
		switch r.IntN(3) {
		case 0:
			slices.Sort(list)
		case 1:
			slices.Sort(list)
			slices.Reverse(list)
		}
		n := r.IntN(len(list) + 1)
		want := slices.Sorted(slices.Values(list))
		MoveFirst(list, n, func(a, b *int) bool { return *a < *b })
		if !slices.Equal(slices.Sorted(slices.Values(list[:n])), want[:n]) || !slices.Equal(slices.Sorted(slices.Values(list)), want) {
			t.Fatalf("the first %d of %d are wrong", n, len(list))
		}
	}
}
