package notify

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// Pages of those who are connected hold each once and in the order of their ids,
// whichever followers come and go; going through all of them is linear in their number.
func TestListingPages(t *testing.T) {
	s := NewServer(Options{})
	var here []*listed
	come := func() {
		here = append(here, s.list(registry.Subscription{Way: registry.SSE}, registry.Position{}, nil, nil))
	}
	walk := func(page int) (ids []string) {
		for after := ""; ; after = ids[len(ids)-1] {
			list := s.Subscriptions(after, page)
			if len(list) == 0 {
				return ids
			}
			for _, x := range list {
				ids = append(ids, x.ID)
			}
		}
	}
	for range 1000 {
		come()
	}
	for i := range here {
		if i%3 > 0 {
			s.listing.remove(here[i])
			s.listing.remove(here[i]) // twice is once
		}
	}
	here = nil
	for range 100 {
		come()
	}
	ids := walk(7)
	if len(ids) != 434 || !slices.IsSorted(ids) || len(slices.Compact(ids)) != 434 {
		t.Fatalf("%d ids, want 434, each once in order", len(ids))
	}
	n := 0
	for range s.Standing {
		n++
	}
	if n != 434 || len(s.listing.order) > 900 {
		t.Errorf("%d stand of %d places", n, len(s.listing.order))
	}
	spent := func(n int) float64 {
		for s.listing.came < uint64(n) {
			come()
		}
		best := math.MaxFloat64
		for range 5 {
			start := time.Now()
			walk(50)
			best = min(best, float64(time.Since(start)))
		}
		return best
	}
	few, many := spent(4_000), spent(64_000)
	exponent := math.Log(many/few) / math.Log(16)
	if t.Logf("exponent %.2f", exponent); exponent > 1.7 {
		t.Errorf("going through all pages grows to the power of %.2f", exponent)
	}
}
