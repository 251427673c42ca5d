package selection

import (
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
