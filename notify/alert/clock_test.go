// Tests of rules and their messages while the clock is set.

package alert_test

import (
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// Each firing and each end is a message with an id of its own, though a clock was set back and all
// of them seem to be at the same time, and after a restart.
func TestIDsAfterClockWasSetBack(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	v := r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	r.ahead = -time.Hour
	for i, value := range []string{"a=20", "a=1", "a=30", "a=1", "a=40"} {
		r.record(q, value)
		r.ahead -= time.Minute // so all answers have the same time
		until(t, "the message", func() bool { return len(h.messages()) == i+1 })
		if i == 2 {
			r.delivered(v.ID)
			r.stop()
			r.start()
		}
	}
	ids := map[string]bool{}
	for _, m := range h.messages() {
		ids[m.Header.Get("Webhook-Id")] = true
	}
	if len(ids) != 5 {
		t.Errorf("%d ids of 5 messages: %v", len(ids), ids)
	}
}

// An alert that waits goes on waiting for as long as it would have without a step of the clock.
func TestWaitAfterClockWasSetBack(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", For: registry.Duration(2 * time.Minute), To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	r.ahead = 24 * time.Hour
	r.record(q, "a=20")
	until(t, "it is pending", func() bool { return r.rule("late").Status == registry.RulePending })
	r.ahead = 0
	r.record(q, "a=20")
	at := time.Unix(1_790_000_000+60*int64(r.tick), 0)
	until(t, "the answer is examined", func() bool { return r.rule("late").State.CheckedAt.Equal(at) })
	r.record(q, "a=20")
	r.record(q, "a=20")
	until(t, "the alert", func() bool { return len(h.messages()) == 1 })
}
