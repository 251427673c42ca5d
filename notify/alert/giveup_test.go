// Tests of messages that are given up.

package alert_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A message that has waited for as long as the schedule allows is given up without the younger
// ones that would go in the same request.
func TestOnlyOldMessagesAreGivenUp(t *testing.T) {
	const day = 24 * time.Hour
	url := newServer(t, func(*http.Request) int { return http.StatusServiceUnavailable })
	for name, to := range map[string]registry.Receiver{"alertmanager": {Kind: "alertmanager", Address: url},
		"webhook": {Kind: "webhook", Address: url}} {
		t.Run(name, func(t *testing.T) {
			var passed atomic.Int64
			began := time.Now()
			r := newRig(t)
			r.stop()
			r.options.Now = func() time.Time { return began.Add(time.Duration(passed.Load())) }
			r.start()
			q := r.log.Add("q", diff.Select, false)
			r.record(q, "a=11", "b=11")
			r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{to}})
			status := func() registry.Subscription { return r.rule("late").Receivers[0] }
			for range 4 { // it is tried at least once a day
				until(t, "an attempt", func() bool {
					r.deliver.Recheck()
					at := status().LastAttempt
					return at != nil && !at.Before(r.options.Now())
				})
				if passed.Add(int64(day-time.Hour)) == int64(2*(day-time.Hour)) {
					r.record(q, "a=11", "b=11", "c=11")
					until(t, "the third message", func() bool { s := status(); return s.Waiting() == 3 })
				}
			}
			until(t, "messages that are given up", func() bool {
				r.deliver.Recheck()
				return status().GaveUp > 0
			})
			if v := status(); v.GaveUp != 2 || v.Waiting() != 1 {
				t.Errorf("%d messages are given up and %d wait", v.GaveUp, v.Waiting())
			}
		})
	}
}

// Alertmanager is sent an alert that fires again and again, although a message about it was given up while Alertmanager
// was away, and although it refused an earlier firing of the alert.
func TestFiringAlertsAfterDeadLetters(t *testing.T) {
	for name, status := range map[string]int32{"given up": http.StatusServiceUnavailable, "refused": http.StatusBadRequest} {
		t.Run(name, func(t *testing.T) {
			var passed atomic.Int64
			var answer, requests atomic.Int32
			answer.Store(status)
			url := newServer(t, func(*http.Request) int {
				requests.Add(1)
				return int(answer.Load())
			})
			began := time.Now()
			r := newRig(t)
			r.stop()
			r.options.Now = func() time.Time { return began.Add(time.Duration(passed.Load())) }
			r.start()
			q := r.log.Add("q", diff.Select, false)
			r.record(q, "a=11")
			r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
				To: []registry.Receiver{{Kind: "alertmanager", Address: url}}})
			to := func() registry.Subscription { return r.rule("late").Receivers[0] }
			for i := range 4 {
				passed.Store(int64(i) * int64(24*time.Hour))
				until(t, "an attempt", func() bool {
					r.deliver.Recheck()
					s := to()
					return s.GaveUp == 1 || s.LastAttempt != nil && !s.LastAttempt.Before(r.options.Now())
				})
			}
			until(t, "the dead letter", func() bool { r.deliver.Recheck(); return to().GaveUp == 1 })
			answer.Store(http.StatusOK)
			if status == http.StatusBadRequest {
				r.record(q, "a=1")
				r.record(q, "a=12")
				until(t, "its end and the next firing", func() bool { return to().Deliveries == 2 })
			}
			before := requests.Load()
			for range 3 {
				passed.Add(int64(time.Minute))
				until(t, "the alert again", func() bool {
					passed.Add(int64(time.Second)) // the last one may only just be recorded, and a minute counts from then
					r.deliver.Recheck()
					return requests.Load() > before
				})
				before = requests.Load()
			}
		})
	}
}
