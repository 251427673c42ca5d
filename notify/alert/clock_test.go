// Tests of rules and their messages while the clock is set.

package alert_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock/clocktest"
)

// Each firing and each end is a message with an id of its own, though a clock was set back and all
// of them seem to be at the same time, and after a restart.
func TestIDsAfterClockWasSetBack(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	v := r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
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
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", For: registry.Duration(2 * time.Minute),
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
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

// begin is when the clocks of the node that asks, and of a clock rig, begin.
var begin = time.Unix(1_790_000_000, 0)

// newClockRig returns a rig whose engine goes by a clock that can be set.
func newClockRig(t *testing.T) (*rig, *clocktest.Machine) {
	r, machine := newRig(t), new(clocktest.Machine)
	r.stop()
	machine.Set(time.Until(begin))
	r.options.Now = machine.Now
	r.start()
	return r, machine
}

// A clock that is set forward is not time that passed: it completes no "for", and ends no alert.
func TestWaitAfterClockWasSetForward(t *testing.T) {
	r, machine := newClockRig(t)
	h, q := newHook(t), r.log.Add("q", diff.Select, false)
	record := func(row string) {
		machine.Pass(time.Minute)
		r.record(q, row)
	}
	record("a=1")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", For: registry.Duration(4 * time.Minute),
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	r.create(registry.RuleSettings{Name: "long", Query: q, When: "?value < 10", KeepFiringFor: registry.Duration(4 * time.Minute)})
	examined := func() {
		t.Helper()
		at := time.Unix(1_790_000_000+60*int64(r.tick), 0).Add(r.ahead)
		until(t, "the answer is examined", func() bool {
			return r.rule("late").State.CheckedAt.Equal(at) && r.rule("long").State.CheckedAt.Equal(at)
		})
	}
	for i := range 4 { // the answer is above 10 for three minutes, by a clock that is set
		r.ahead = []time.Duration{0, 24 * time.Hour, 23 * time.Hour, 300 * time.Hour}[i]
		record(fmt.Sprint("a=", 20+i))
		examined()
		if late, long := r.rule("late").Status, r.rule("long").Status; late != registry.RulePending || long != registry.RuleFiring {
			t.Fatalf("answer %d: one is %s, the other %s", i, late, long)
		}
		if i == 1 {
			if err := alert.Reload(r.Engine); err != nil { // its node lost the lease, and has it again
				t.Fatal(err)
			}
		}
	}
	record("a=30")
	record("a=31")
	until(t, "one fires, the other ends", func() bool { return len(h.messages()) == 1 && r.rule("long").Status == registry.RuleInactive })
}

// An answer of before the clock was set forward that is evaluated afterwards says nothing about how late answers are.
func TestEvaluatedAfterClockWasSetForward(t *testing.T) {
	r, machine := newClockRig(t)
	q := r.log.Add("q", diff.Select, false)
	machine.Pass(time.Minute)
	r.record(q, "a=20")
	r.ahead = 40 * 24 * time.Hour
	machine.Set(time.Until(begin) + r.ahead)
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", For: registry.Duration(90 * time.Second)})
	for i, want := range []registry.RuleStatus{registry.RulePending, registry.RuleFiring} {
		machine.Pass(time.Minute)
		r.record(q, fmt.Sprint("a=", 21+i))
		at := time.Unix(1_790_000_000+60*int64(r.tick), 0).Add(r.ahead)
		until(t, "the answer is examined", func() bool { return r.rule("late").State.CheckedAt.Equal(at) })
		if got := r.rule("late").Status; got != want {
			t.Errorf("after %d minutes it is %s, want %s", i+1, got, want)
		}
	}
}

// An alert that waits since an answer of long before its rule was made waits for no longer than it says.
func TestWaitSinceAnEarlierAnswer(t *testing.T) {
	r, machine := newClockRig(t)
	q := r.log.Add("q", diff.Select, false)
	machine.Pass(time.Minute)
	r.record(q, "a=20")
	machine.Pass(5 * time.Minute)
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", For: registry.Duration(20 * time.Minute)})
	machine.Pass(15 * time.Minute)
	r.ahead = 19 * time.Minute
	r.record(q, "a=21")
	at := time.Unix(1_790_000_000+60*int64(r.tick), 0).Add(r.ahead)
	until(t, "the answer is examined", func() bool { return r.rule("late").State.CheckedAt.Equal(at) })
	if got := r.rule("late").Status; got != registry.RuleFiring {
		t.Errorf("after 20 minutes it is %s", got)
	}
}

// The end of a proof is no step of the clock: what waits goes on waiting for as long as it says.
func TestWaitAfterTheEndOfAProof(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarts ", restarts), func(t *testing.T) { waitAfterProof(t, restarts) })
	}
}

func waitAfterProof(t *testing.T, restarts bool) {
	r, machine := newClockRig(t)
	q, second := r.log.Add("q", diff.Select, false), 0
	pass := func(to int) {
		machine.Pass(time.Duration(to-second) * time.Second)
		second = to
	}
	record := func(at int, rows ...string) {
		t.Helper()
		pass(at)
		r.ahead = time.Duration(at-60*(r.tick+1)) * time.Second
		r.record(q, rows...)
	}
	want := func(checked, firing, pending int) {
		t.Helper()
		at := begin.Add(time.Duration(checked) * time.Second)
		until(t, "the answer is examined", func() bool { return r.rule("late").State.CheckedAt.Equal(at) })
		if v := r.rule("late"); v.Firing != firing || v.Pending != pending {
			t.Errorf("at %d %d fire and %d wait", checked, v.Firing, v.Pending)
		}
	}
	record(60, "a=20")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", For: registry.Duration(10 * time.Minute)})
	record(560, "a=20", "b=20")
	want(560, 0, 2)
	pass(670)
	r.proved.Store(begin.Unix() + 665)
	r.waker.Wake(q)
	want(665, 1, 1)
	if restarts {
		r.stop()
		r.start()
	}
	for _, again := range []func(){
		func() { r.proved.Store(0); r.waker.Wake(q) },
		func() { record(1130, "a=20", "b=20") },
	} {
		asked := r.asked.Load()
		again()
		until(t, "another look", func() bool { return r.asked.Load() > asked })
		time.Sleep(20 * time.Millisecond)
		if v := r.rule("late"); v.Firing != 1 || v.Pending != 1 {
			t.Fatalf("%d fire and %d wait", v.Firing, v.Pending)
		}
	}
	record(1170, "a=20", "b=20")
	want(1170, 2, 0)
}

// A clock that is set back while the server is stopped holds nothing up, whether the rule is looked at before the next answer or
// after it.
func TestRestartAfterClockWasSetBack(t *testing.T) {
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprint("answered ", answered), func(t *testing.T) {
			r, machine := newClockRig(t)
			q := r.log.Add("q", diff.Select, false)
			machine.Pass(time.Minute)
			r.record(q, "a=20")
			r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", For: registry.Duration(90 * time.Second)})
			until(t, "it is pending", func() bool { return r.rule("late").Status == registry.RulePending })
			r.stop()
			r.ahead = -time.Hour
			machine.Set(time.Until(begin) + time.Minute - time.Hour)
			if !answered {
				asked := r.asked.Load()
				r.start()
				r.waker.Wake(q)
				until(t, "a look", func() bool { return r.asked.Load() > asked })
			}
			for i := range 3 {
				machine.Pass(time.Minute)
				r.record(q, "a=20")
				if i == 0 && answered {
					r.start()
				}
				if i == 1 { // which cannot change anything, and is not examined
					continue
				}
				at := time.Unix(1_790_000_000+60*int64(r.tick), 0).Add(r.ahead)
				until(t, "the answer is examined", func() bool { return r.rule("late").State.CheckedAt.Equal(at) })
			}
			if got := r.rule("late").Status; got != registry.RuleFiring {
				t.Errorf("after three minutes it is %s", got)
			}
		})
	}
}

// While the server does not go by the clock of the machine yet, Alertmanager may: what has ended has ended by both clocks, and
// what fires goes on by both.
func TestAlertmanagerWhenTheClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			type posted struct{ StartsAt, EndsAt time.Time }
			var last atomic.Pointer[posted]
			url := newServer(t, func(r *http.Request) int {
				var list []posted
				if err := json.NewDecoder(r.Body).Decode(&list); err != nil || len(list) != 1 {
					t.Errorf("%+v: %v", list, err)
				} else {
					last.Store(&list[0])
				}
				return http.StatusOK
			})
			r := newRig(t)
			r.stop()
			at := time.Unix(1_790_000_000, 0).Add(time.Hour)
			r.options.Now = func() time.Time { return at }
			r.options.Machine = func() time.Time { return at.Add(by) }
			r.start()
			q := r.log.Add("q", diff.Select, false)
			r.ahead = time.Hour
			r.record(q, "a=20")
			to := []registry.Receiver{{Kind: "alertmanager", Address: url}}
			r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", To: to})
			earlier, later := at, at.Add(by)
			if later.Before(earlier) {
				earlier, later = later, earlier
			}
			until(t, "the alert", func() bool { return last.Load() != nil })
			if a := last.Load(); !a.EndsAt.After(later) {
				t.Errorf("an alert that fires ends at %s, at %s or %s", a.EndsAt, earlier, later)
			}
			last.Store(nil)
			r.record(q, "a=1")
			until(t, "its end", func() bool { a := last.Load(); return a != nil && !a.EndsAt.After(later) })
			if a := last.Load(); a.EndsAt.After(earlier) || a.EndsAt.Before(a.StartsAt) {
				t.Errorf("an alert from %s ends at %s, at %s or %s", a.StartsAt, a.EndsAt, earlier, later)
			}
		})
	}
}
