// Tests of firing alerts that Alertmanager is sent again.

package alert_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
)

// newAlertmanager counts the requests of a server that takes what Alertmanager takes.
func newAlertmanager(t *testing.T) (url string, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	return newServer(t, func(r *http.Request) int {
		var list []struct{ Labels map[string]string }
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil || len(list) == 0 {
			t.Errorf("%d alerts: %v", len(list), err)
		}
		requests.Add(1)
		return http.StatusOK
	}), requests
}

// Alertmanager is sent the alerts of a rule that fire when it becomes a receiver of the rule, and
// again after its subscription was dropped.
func TestFiringAlertsOfNewAlertmanager(t *testing.T) {
	r, h := newRig(t), newHook(t)
	url, requests := newAlertmanager(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	s := registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}}
	v := r.create(s)
	r.delivered("late")
	s.To = append(s.To, registry.Receiver{Kind: "alertmanager", Address: url})
	v, err := r.Replace(t.Context(), app, v.ID, s)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the alert", func() bool { return requests.Load() > 1 })
	if err := r.deliver.Drop(v.Receivers[1].ID, nil); err != nil {
		t.Fatal(err)
	}
	before := requests.Load()
	until(t, "the alert after the drop", func() bool { return requests.Load() > before+2 })
	if n := len(h.messages()); n != 1 {
		t.Errorf("the webhook has got %d messages", n)
	}
}

// A receiver that has had messages of one rule, and has none to get, is told what fires when it joins another one. It ends
// when no rule has it any more.
func TestKnownReceiverJoinsAndLeaves(t *testing.T) {
	r := newRig(t)
	url, requests := newAlertmanager(t)
	first, second := r.log.Add("first", diff.Select, false), r.log.Add("second", diff.Select, false)
	r.record(first, "a=11")
	r.record(second, "a=11")
	to := []registry.Receiver{{Kind: "alertmanager", Address: url}}
	a := r.create(registry.RuleSettings{Name: "first", Query: first, When: "?value > 10", To: to})
	s := registry.RuleSettings{Name: "second", Query: second, When: "?value > 10"}
	b := r.create(s)
	until(t, "the alert", func() bool { return requests.Load() > 0 })
	r.record(first, "a=1")
	idle := func() bool {
		x, err := r.deliver.Subscription(a.Receivers[0].ID)
		n := r.deliver.Stats()
		return err == nil && x.Reminded == nil && r.rule("first").Receivers[0].Waiting() == 0 && n.Running+n.Queued == 0
	}
	until(t, "its end", func() bool { return r.rule("first").Status == registry.RuleInactive && idle() })
	time.Sleep(100 * time.Millisecond) // more than the pause between two messages about what fires
	before := requests.Load()
	s.To = to
	if _, err := r.Replace(t.Context(), app, b.ID, s); err != nil {
		t.Fatal(err)
	}
	until(t, "what fires", func() bool { return requests.Load() > before })
	r.record(second, "a=1")
	until(t, "the end of the other", func() bool { return r.rule("second").Status == registry.RuleInactive && idle() })
	if err := r.Remove(a.ID); err != nil {
		t.Fatal(err)
	}
	if time.Sleep(20 * time.Millisecond); !r.deliver.Has(a.Receivers[0].ID) {
		t.Error("it has ended, though a rule has it")
	}
	s.To = nil
	if _, err := r.Replace(t.Context(), app, b.ID, s); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the receiver", func() bool { return !r.deliver.Has(a.Receivers[0].ID) })
}

// An alert that goes on is sent again in time although another one, which comes and goes, is told more often than that.
func TestFiringAlertBesideAnother(t *testing.T) {
	var steady atomic.Int32
	url := newServer(t, func(r *http.Request) int {
		var list []struct{ Labels map[string]string }
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Error(err)
		}
		for _, a := range list {
			if a.Labels["s"] == "a" {
				steady.Add(1)
			}
		}
		return http.StatusOK
	})
	r := newRig(t)
	r.stop()
	var passed atomic.Int64
	r.options.Resend = time.Minute
	began := time.Now()
	r.options.Now = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	r.start()
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11", "b=1")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "alertmanager", Address: url}}})
	sent := func(n uint64) {
		t.Helper()
		until(t, "the message", func() bool { return r.rule("late").Receivers[0].Deliveries == n })
	}
	sent(1)
	for i := range 9 {
		passed.Add(int64(20 * time.Second))
		r.record(q, "a=11", []string{"b=12", "b=1"}[i%2])
		sent(uint64(2 + i))
	}
	until(t, "what goes on, once a minute", func() bool { return steady.Load() >= 3 })
}

// A slowStore lets a commit of messages be seen before the engine that makes it goes on, as another
// node of a cluster sees it.
type slowStore struct {
	alert.Store
	after func(*registry.RuleEdit)
}

func (s slowStore) EditRules(e *registry.RuleEdit) error {
	err := s.Store.EditRules(e)
	s.after(e)
	return err
}

// An alert whose end was sent is not sent as a firing one again, although the memory of the engine
// does not know its end yet.
func TestNoFiringAlertAfterItsEnd(t *testing.T) {
	var mu sync.Mutex
	var ended bool
	var late, requests int
	url := newServer(t, func(r *http.Request) int {
		var list []struct{ EndsAt time.Time }
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		requests++
		for _, a := range list {
			switch fires := a.EndsAt.After(time.Now()); {
			case fires && ended:
				late++
			case !fires:
				ended = true
			}
		}
		return http.StatusOK
	})
	r := newRig(t)
	r.stop()
	release := make(chan struct{})
	r.wrap = func(s alert.Store) alert.Store {
		return slowStore{s, func(e *registry.RuleEdit) {
			if len(e.Queue) > 0 && e.Queue[0].State == registry.AlertResolved {
				<-release
			}
		}}
	}
	r.start()
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11")
	v := r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "alertmanager", Address: url}}})
	r.delivered("late")
	r.record(q, "a=1")
	stored := func() *registry.Subscription {
		s, err := r.db.Subscriptions.Subscription(v.Receivers[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		return &s
	}
	until(t, "the end of the alert", func() bool { return stored().Newest == 2 })
	until(t, "its delivery", func() bool { r.deliver.Recheck(); return stored().Stored == 0 })
	next, err := alert.Target{Engine: r.Engine}.Next(t.Context(), stored(), time.Now().Add(time.Hour))
	if err != nil || next.Call != nil {
		t.Errorf("the alert is sent again: %v", err)
	}
	let()
	until(t, "the rule", func() bool { return r.rule("late").Status == registry.RuleInactive })
	mu.Lock()
	defer mu.Unlock()
	if late > 0 {
		t.Errorf("%d of %d requests say that the alert fires, after its end", late, requests)
	}
}

// Alertmanager that answers 410 to an alert that is sent again is disabled.
func TestGoneAlertmanager(t *testing.T) {
	var requests atomic.Int32
	url := newServer(t, func(*http.Request) int {
		if requests.Add(1) == 1 {
			return http.StatusOK
		}
		return http.StatusGone
	})
	r := newRig(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "alertmanager", Address: url}}})
	until(t, "the repetition", func() bool { return r.rule("late").Receivers[0].Failures > 0 })
	if v := r.rule("late").Receivers[0]; v.State != registry.Disabled || !strings.Contains(v.Reason, "410") {
		t.Errorf("%+v", v)
	}
}
