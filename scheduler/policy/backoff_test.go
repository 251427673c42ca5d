package policy

import (
	"testing"

	"github.com/freshet/freshet/registry"
)

// The n-th failure in a row leaves a query out until 2^(n−1) slots later. Answers that ask for fewer requests lengthen that
// by nothing, though the query is failing after them.
func TestThrottledAnswersLengthenNoBackOff(t *testing.T) {
	var s Stats
	for n, x := range []struct {
		outcome registry.Outcome
		wait    uint64
	}{{registry.Throttled, 0}, {registry.Throttled, 0}, {registry.Failed, 2}, {registry.Throttled, 0}, {registry.Throttled, 0},
		{registry.Failed, 4}, {registry.Throttled, 0}, {registry.Rejected, 64}} {
		slot := uint64(100 * (n + 1))
		s.NotBefore = 0
		s.Incomplete(Attempt{Slot: slot, Outcome: x.outcome})
		if got := s.NotBefore - min(s.NotBefore, slot); got != x.wait || s.Failures == 0 {
			t.Errorf("attempt %d (%s): it is left out for %d slots after %d failures, want %d", n, x.outcome, got, s.Failures, x.wait)
		}
	}
}
