package notify

import (
	"slices"
	"testing"

	"github.com/freshet/freshet/diff/growth"
	"github.com/freshet/freshet/registry"
)

// Pages list each connected client once, in the order of ids, while others connect
// and disconnect.
func TestListingPages(t *testing.T) {
	s := NewServer(Options{})
	var here []*Entry
	come := func() {
		here = append(here, s.Enlist(registry.Subscription{Way: registry.SSE}, nil))
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
	ids := walk(s, 7)
	if len(ids) != 434 || !slices.IsSorted(ids) || len(slices.Compact(ids)) != 434 {
		t.Fatalf("%d ids, want 434, each once in order", len(ids))
	}
	n := 0
	for range s.AllSubscriptions {
		n++
	}
	if n != 434 || len(s.listing.order) > 900 {
		t.Errorf("%d listed in %d places", n, len(s.listing.order))
	}
}

// walk reads all pages and returns the ids.
func walk(s *Server, page int) (ids []string) {
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

// The cost of reading all pages is linear in their number.
func TestLongListingPagesAreLinear(t *testing.T) {
	growth.Check(t, growth.Sizes(4_000, func(n int) growth.Input {
		s := NewServer(Options{})
		for range n {
			s.Enlist(registry.Subscription{Way: registry.SSE}, nil)
		}
		return growth.Input{Size: n, Work: func() { walk(s, 50) }}
	})...)
}
