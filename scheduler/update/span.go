package update

import (
	"errors"
	"fmt"
	"slices"
	"sort"
)

// A Life says how long an update stays available.
type Life struct {
	// Windowed lives end Window chronons after the update. Others end one chronon
	// before the next update.
	Windowed bool
	Window   int
}

// Overwrite is the life that ends with the next update.
func Overwrite() Life { return Life{} }

// Within is the life that ends y chronons after the update.
func Within(y int) Life { return Life{Windowed: true, Window: y} }

// A Rule asks for a notification of every X-th update.
type Rule struct {
	X    int // at least 1
	Life Life
}

// ErrRule is wrapped by the errors of Check.
var ErrRule = errors.New("bad notification rule")

// Check returns an error if the rule is invalid.
func (r Rule) Check() error {
	switch {
	case r.X < 1:
		return fmt.Errorf("%w: every %d-th update", ErrRule, r.X)
	case r.Life.Windowed && r.Life.Window < 0:
		return fmt.Errorf("%w: a window of %d chronons", ErrRule, r.Life.Window)
	}
	return nil
}

// A Span is an execution interval: the chronons from Start to Finish, both
// included.
type Span struct{ Start, Finish int }

// Holds reports whether a chronon lies in the span.
func (s Span) Holds(t int) bool { return s.Start <= t && t <= s.Finish }

// Spans returns the execution intervals of the rule in an epoch of chronons 1 to n:
// those of the X-th update, the 2X-th, and so on. updates is in ascending order. Of
// two updates in one chronon the first is overwritten before it can be probed, so it
// has no interval under Overwrite.
func (r Rule) Spans(updates []int, n int) []Span {
	spans := make([]Span, 0, len(updates)/r.X)
	for i := r.X - 1; i < len(updates); i += r.X {
		if s := r.span(updates, i, n); s.Start <= s.Finish {
			spans = append(spans, s)
		}
	}
	return spans
}

// span returns the interval of update i.
func (r Rule) span(updates []int, i, n int) Span {
	s := Span{Start: updates[i], Finish: n}
	switch {
	case r.Life.Windowed:
		s.Finish = min(n, s.Start+min(n, r.Life.Window))
	case i+1 < len(updates):
		s.Finish = min(n, updates[i+1]-1)
	}
	return s
}

// SUP is algorithm 1 for one page: it probes at the last chronon of the
// earliest-ending interval that has no probe yet. No schedule with a probe in
// each interval has fewer (theorem 3.1). The probes are ascending.
func SUP(spans []Span) []int {
	byEnd := slices.SortedFunc(slices.Values(spans), func(a, b Span) int { return a.Finish - b.Finish })
	var probes []int
	for _, s := range byEnd {
		if n := len(probes); n == 0 || probes[n-1] < s.Start {
			probes = append(probes, s.Finish)
		}
	}
	return probes
}

// Utility returns how many of the intervals contain a probe: equation 5 with strict
// utility. probes is in ascending order.
func Utility(spans []Span, probes []int) (hit int) {
	for _, s := range spans {
		if i := sort.SearchInts(probes, s.Start); i < len(probes) && probes[i] <= s.Finish {
			hit++
		}
	}
	return hit
}
