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
	for i := range mostRecent/2 - 1 {
		r.Allow(fmt.Sprint(i), now)
	}
	if r.Allow("a", now) || !r.Allow("a", now.Add(time.Second)) {
		t.Error("the limit of a key is another one after others came")
	}
	for i := range 3 * mostRecent {
		r.Allow(fmt.Sprint("x", i), now)
	}
	if n := len(r.all.young) + len(r.all.old); n > mostRecent {
		t.Errorf("%d keys are remembered", n)
	}
}
