// Tests of firing alerts that Alertmanager is sent again.

package alert_test

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/diff"
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
	s := registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Webhook: h.URL}}}
	v := r.create(s)
	r.delivered("late")
	s.To = append(s.To, registry.Receiver{Alertmanager: url})
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
