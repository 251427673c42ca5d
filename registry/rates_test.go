package registry

import (
	"fmt"
	"testing"
	"time"
)

// Each key has its own limit, which others do not reset before many of them have come.
func TestRates(t *testing.T) {
	r, now := NewRates(1, 2), time.Unix(1_790_000_000, 0)
	for i, want := range []bool{true, true, false} {
		if got := r.Allow("a", now); got != want {
			t.Errorf("event %d: %t", i+1, got)
		}
	}
	for i := range mostRates/2 - 1 {
		r.Allow(fmt.Sprint(i), now)
	}
	if r.Allow("a", now) || !r.Allow("a", now.Add(time.Second)) {
		t.Error("the limit of a key is another one after others came")
	}
	for i := range 3 * mostRates {
		r.Allow(fmt.Sprint("x", i), now)
	}
	if n := len(r.young) + len(r.old); n > mostRates {
		t.Errorf("%d keys are remembered", n)
	}
}
