package policy

import (
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

func query(id string) registry.Query {
	return registry.Query{ID: id, Endpoint: "city", Form: diff.Select, Holders: []registry.Holder{{Caller: registry.Anonymous}}}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		ms   []int
		want time.Duration
	}{
		{nil, 0},
		{[]int{7}, 7 * time.Millisecond},
		{[]int{9, 1}, 5 * time.Millisecond},            // (1+9)/2
		{[]int{9, 1, 2}, 2 * time.Millisecond},         // 1 2 9
		{[]int{4, 1, 100, 3}, 3500 * time.Microsecond}, // (3+4)/2
	} {
		var s Stats
		for _, ms := range c.ms {
			s.Remember(Sample{Elapsed: time.Duration(ms) * time.Millisecond})
		}
		if got := s.Median(); got != c.want {
			t.Errorf("median of %v is %s, want %s", c.ms, got, c.want)
		}
	}
}

// The ring keeps the last 63 samples, and clones do not change.
func TestRing(t *testing.T) {
	var s Stats
	var old []Stats
	for i := range uint64(500) {
		s.Remember(Sample{Slot: i})
		old = append(old, s.Clone())
	}
	for i, o := range old {
		if n := len(o.Samples); n != min(i+1, Ring) {
			t.Fatalf("%d samples after %d executions", n, i+1)
		}
		for k, x := range o.Samples {
			if want := uint64(i + 1 - len(o.Samples) + k); x.Slot != want {
				t.Fatalf("after %d executions sample %d is of slot %d, want %d", i+1, k, x.Slot, want)
			}
		}
		_ = append(o.Samples, Sample{Slot: 999}) // another owner of a copy appends to it
	}
}
