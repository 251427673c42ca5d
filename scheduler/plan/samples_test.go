package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// TestRoomsOfSamples checks that a query with room from sampleRooms remembers the same
// samples as one without, and that copies keep theirs while the query runs twice more.
func TestRoomsOfSamples(t *testing.T) {
	for _, first := range []int{0, 1, 5, policy.Ring} { // as read after a restart
		var rooms sampleRooms
		var c item
		var alone policy.Stats
		remember := func(x policy.Sample) {
			rooms.makeRoom(&c)
			if n := len(c.Stats.Samples); n == cap(c.Stats.Samples) {
				t.Fatalf("no room for sample %d", n)
			}
			c.Stats.Remember(x)
			alone.Remember(x)
		}
		for i := range first {
			alone.Remember(policy.Sample{Slot: uint64(i + 1)})
		}
		c.Stats.Samples = slices.Clip(slices.Clone(alone.Samples))
		type kept struct{ copied, want []policy.Sample }
		var copies []kept
		for i := first; i < 5*ringSize; i++ {
			remember(policy.Sample{Slot: uint64(i + 1), Elapsed: time.Duration(i)})
			if !slices.Equal(c.Stats.Samples, alone.Samples) {
				t.Fatalf("%d at first, %d then: %v, want %v", first, i, c.Stats.Samples, alone.Samples)
			}
			copies = append(copies, kept{c.Stats.Frozen().Samples, slices.Clone(alone.Samples)})
			copies = copies[max(0, len(copies)-3):]
			for _, k := range copies {
				if !slices.Equal(k.copied, k.want) {
					t.Fatalf("%d at first, %d then: a copy has changed: %v, want %v", first, i, k.copied, k.want)
				}
			}
		}
	}
}
