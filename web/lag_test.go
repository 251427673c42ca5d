package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// The lag of deliveries leaves out what pauses and the settings of followers hold back, and counts from when they
// let it go.
func TestLagOfDeliveries(t *testing.T) {
	all := []registry.Subscription{}
	w := newWorld(t, func(c *Config) {
		c.AllSubscriptions = func(yield func(registry.Subscription, error) bool) {
			for _, s := range all {
				if !yield(s, nil) {
					return
				}
			}
		}
	})
	id := w.register(selectText)
	w.m.publish(id, finishRows(t, "a"))
	w.m.publish(id, finishRows(t, "b")) // at 9:00
	began := w.m.now
	to := func(q registry.Quiet, recent ...time.Time) registry.Subscription {
		return registry.Subscription{Way: registry.People, To: &registry.Receiver{Kind: "ntfy", Quiet: q}, Recent: recent}
	}
	hook := func(s registry.Subscription) registry.Subscription {
		s.Way = registry.Webhook
		return s
	}
	tenPast, justNow := began.Add(-20*time.Minute), began.Add(59*time.Minute)
	for name, x := range map[string]struct {
		s    registry.Subscription
		lags map[time.Duration]float64 // after some time
	}{
		"plain":    {hook(registry.Subscription{}), map[time.Duration]float64{time.Hour: 3600}},
		"people":   {to(registry.Quiet{}), map[time.Duration]float64{time.Hour: 3600}},
		"digest":   {to(registry.Quiet{Digest: "1h"}), map[time.Duration]float64{50 * time.Minute: 0, 70 * time.Minute: 600.25}},
		"quiet":    {to(registry.Quiet{Hours: "08:30-10:00"}), map[time.Duration]float64{50 * time.Minute: 0, 70 * time.Minute: 600.25}},
		"most":     {to(registry.Quiet{Most: "1"}, tenPast), map[time.Duration]float64{30 * time.Minute: 0, 50 * time.Minute: 600}},
		"paused":   {hook(registry.Subscription{State: registry.SubscriptionPaused}), map[time.Duration]float64{time.Hour: 0}},
		"disabled": {hook(registry.Subscription{State: registry.Disabled}), map[time.Duration]float64{time.Hour: 3600}},
		"filter":   {hook(registry.Subscription{Filter: json.RawMessage(`{"min_rows":5}`)}), map[time.Duration]float64{time.Hour: 0}},
		"failing": {hook(registry.Subscription{Filter: json.RawMessage(`{"min_rows":5}`), Failures: 1}),
			map[time.Duration]float64{time.Hour: 3600}},
		"backlog": {hook(registry.Subscription{LastDelivery: &justNow}), map[time.Duration]float64{time.Hour: 3600}},
		"rate": {hook(registry.Subscription{Rate: registry.Duration(time.Hour), LastDelivery: &tenPast}),
			map[time.Duration]float64{30 * time.Minute: 0, 50 * time.Minute: 600}},
	} {
		if x.s.State == "" {
			x.s.State = registry.Active
		}
		x.s.Query, x.s.Cursor = id, registry.Position{Epoch: epoch, Seq: 1}
		all = []registry.Subscription{x.s, x.s}
		for after, lag := range x.lags {
			w.m.now = began.Add(after)
			s := string(w.get("/metrics").status(200).body)
			for _, want := range []string{fmt.Sprintf(`freshet_delivery_lag_seconds{way="%s"} %v`, x.s.Way, lag),
				fmt.Sprintf(`freshet_waiting_changes{way="%s"} 2`, x.s.Way)} {
				if !strings.Contains(s, want+"\n") {
					t.Errorf("%s after %v: no %s in\n%s", name, after, want, s[strings.Index(s, "freshet_delivery_lag"):][:600])
				}
			}
			if due, held := w.config.Due(&x.s, began, w.m.now); name == "backlog" && (held || !due.Equal(began)) {
				t.Errorf("what waits behind the last delivery is due at %v (held: %v), not at %v", due, held, began)
			}
		}
	}
}

// The lag does not end where changes are lost: it counts from the oldest change that is kept. A subscription without a position
// in the log lacks what came since it began, or since its last delivery.
func TestLagOfLostChanges(t *testing.T) {
	var one registry.Subscription
	w := newWorld(t, func(c *Config) {
		c.AllSubscriptions = func(yield func(registry.Subscription, error) bool) { yield(one, nil) }
	})
	id := w.register(selectText)
	began := w.m.now
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	for i, row := range []string{"a", "b", "c"} { // the first is trimmed
		w.m.now = at(10 * i)
		w.m.publish(id, finishRows(t, row))
	}
	w.m.trimmed[id] = 1
	w.m.now = at(60)
	delivered, early := at(15), at(-60)
	receiver := &registry.Receiver{Kind: "ntfy"}
	for name, x := range map[string]struct {
		s    registry.Subscription
		want time.Duration
	}{
		"trimmed":          {registry.Subscription{Cursor: registry.Position{Epoch: epoch}}, 50 * time.Minute},
		"other epoch":      {registry.Subscription{Cursor: registry.Position{Epoch: "e2", Seq: 7}, LastDelivery: &delivered}, 45 * time.Minute},
		"no position":      {registry.Subscription{CreatedAt: at(30)}, 30 * time.Minute},
		"an old one":       {registry.Subscription{CreatedAt: early}, 50 * time.Minute}, // what is kept began later
		"people":           {registry.Subscription{Way: registry.People, To: receiver, CreatedAt: at(30)}, 30 * time.Minute},
		"paused":           {registry.Subscription{CreatedAt: at(30), State: registry.SubscriptionPaused}, 0},
		"alerts":           {registry.Subscription{Way: registry.Alerts, To: receiver, Stored: 2, FailingSince: &delivered}, 45 * time.Minute},
		"alerts, none":     {registry.Subscription{Way: registry.Alerts, To: receiver, FailingSince: &delivered}, 0},
		"alerts, no fault": {registry.Subscription{Way: registry.Alerts, To: receiver, Stored: 2}, 0},
	} {
		one = x.s
		one.Way, one.State = cmp.Or(one.Way, registry.Webhook), cmp.Or(one.State, registry.Active)
		if one.Way != registry.Alerts {
			one.Query = id
		}
		want := fmt.Sprintf("\nfreshet_delivery_lag_seconds{way=\"%s\"} %v\n", one.Way, x.want.Seconds())
		if s := string(w.get("/metrics").status(200).body); !strings.Contains(s, want) {
			t.Errorf("%s: no %s in\n%s", name, want, s[strings.Index(s, "\nfreshet_delivery_lag"):][:600])
		}
		lag, err := w.config.lagOf(one, w.m.now)
		if err != nil || time.Duration(lag.Behind) != x.want && one.State != registry.SubscriptionPaused {
			t.Errorf("%s: %+v, %v, want %s", name, lag, err, x.want)
		}
	}
}
