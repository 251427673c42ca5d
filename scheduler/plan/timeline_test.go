package plan

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTimelineMedian compares the median with that of the sorted list after each
// addition, whether durations repeat or not.
func TestTimelineMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{1, 3, 20, 1 << 40}).Draw(t, "most")
		var l timeline
		var sorted []time.Duration
		for _, x := range rapid.SliceOfN(rapid.Int64Range(0, most), 1, 200).Draw(t, "durations") {
			d := time.Duration(x)
			l.add(d)
			i, _ := slices.BinarySearch(sorted, d)
			sorted = slices.Insert(sorted, i, d)
			m := len(sorted) / 2
			want := sorted[m]
			if len(sorted)%2 == 0 {
				want = sorted[m-1] + (sorted[m]-sorted[m-1])/2
			}
			if got := l.median(); got != want {
				t.Fatalf("median of %v is %d, want %d", sorted, got, want)
			}
		}
	})
}
