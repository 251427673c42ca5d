package scheduler_test

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A slot that ends after its endpoint was removed records nothing for a new endpoint of the
// same name.
func TestSlotOfARemovedEndpoint(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", 10*time.Second, "rr"), func(*registry.Query, int) reply {
			return reply{takes: 5 * time.Second, outcome: registry.Failed}
		})
		w.register("a")
		w.run()
		until(time.Minute + 2*time.Second) // the query is being executed
		w.ledger.Replace(city)
		until(time.Minute + 30*time.Second)
		w.stop()
		if s := w.slots(); len(s) > 0 {
			t.Errorf("the new endpoint has the slots %+v", s)
		}
		if n, err := w.ledger.Since(city, 0); err != nil || n.Health.State != "" || n.Policy.Policy != "" {
			t.Errorf("the new endpoint has %+v, %+v, %v", n.Health, n.Policy, err)
		}
	})
}
