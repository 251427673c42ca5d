// Tests of an engine that needs a lease, as in a cluster.

package alert_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
)

// An edit whose outcome was unknown may take effect later. Its messages are sent then.
func TestLateEdit(t *testing.T) {
	r := newRig(t)
	h := newHook(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	rule := r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", To: []registry.Receiver{{Webhook: h.URL}}})
	late := registry.RuleEdit{Queue: []registry.AlertMessage{{ID: "late", Rule: rule.ID, Name: rule.Name, Query: q, To: rule.To[0], State: registry.AlertFiring, At: time.Now()}}}
	if err := r.db.Rules.EditRules(&late); err != nil {
		t.Fatal(err)
	}
	if err := r.Refresh([]string{rule.ID}); err != nil {
		t.Fatal(err)
	}
	until(t, "the message", func() bool { return len(h.messages()) == 1 })
}

// Without the lease an engine edits and sends nothing. With it, after Reload, it does.
func TestLease(t *testing.T) {
	r := newRig(t)
	h := newHook(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11")
	settings := registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", To: []registry.Receiver{{Webhook: h.URL}}}
	r.stop()
	var held atomic.Bool
	r.options.Lease = func() (uint64, bool) { return 0, held.Load() }
	r.start()
	if _, err := r.Create(t.Context(), app, settings); !errors.Is(err, alert.ErrAway) {
		t.Errorf("a rule without the lease: %v", err)
	}
	if list, err := r.Rules("", 10); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
	if err := alert.Reload(r.Engine); err != nil {
		t.Fatal(err)
	}
	held.Store(true)
	r.create(settings)
	until(t, "the message", func() bool { return len(h.messages()) == 1 })
}
