package plan

import (
	"testing"
	"time"
	"unsafe"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// later returns a time as the clock shows it after the machine was suspended: the wall
// clock went on, the monotonic one did not.
func later(t time.Time, asleep time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(asleep/time.Second) << 30
	return t
}

// TestSuspended checks that max_staleness and min_interval count the time for which
// the machine was suspended.
func TestSuspended(t *testing.T) {
	pol, err := parse("ttl:max=32")
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]registry.Holder{
		"max_staleness": {MaxStaleness: registry.Duration(time.Hour)},
		"min_interval":  {MinInterval: registry.Duration(time.Hour)},
	} {
		p := New(pol, 10*time.Second)
		t0 := time.Now()
		q := registry.Query{ID: "q_a", Holders: []registry.Holder{h}}
		p.now = t0
		p.put(q, policy.Stats{Executions: 1, Last: 1, CheckedAt: t0, NotBefore: 0})
		p.all["q_a"].start = t0
		c := p.all["q_a"]
		p.lift(c)
		p.settle(c)
		p.begin(2, t0.Add(time.Minute), time.Minute)
		now := later(t0.Add(2*time.Minute), 8*time.Hour)
		if now.Round(0).Sub(t0.Round(0)) < 8*time.Hour {
			t.Fatal("not asleep")
		}
		p.begin(3, now, time.Minute)
		if name == "max_staleness" && c.Overdue == 0 || name == "min_interval" && c.why == tooSoon {
			t.Errorf("%s counts the time awake alone", name)
		}
	}
}
