// Tests of an engine that needs a lease, as in a cluster.

package alert_test

import (
	"errors"
	"net/http"
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
	rule := r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	late := registry.RuleEdit{Queue: []registry.AlertMessage{{ID: "late", Rule: rule.ID, Name: rule.Name, Query: q, To: rule.To,
		Caller: rule.Caller, State: registry.AlertFiring, At: time.Now()}}}
	if err := r.db.Rules.EditRules(&late); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Refresh([]string{rule.ID}), r.deliver.Refresh([]string{rule.To[0].ID(rule.Caller)})); err != nil {
		t.Fatal(err)
	}
	until(t, "the message", func() bool { return len(h.messages()) == 1 })
}

// Without the lease an engine edits nothing. With it, after Reload, it does.
func TestLease(t *testing.T) {
	r := newRig(t)
	h := newHook(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11")
	settings := registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}}
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

// A node that loses the host of a receiver while it sends ends what it has begun and records it. The
// next owner waits for that, and sends no message twice.
func TestLeaseEndsWhileSending(t *testing.T) {
	r := newRig(t)
	var requests atomic.Int32
	begun, gate := make(chan struct{}), make(chan struct{})
	url := newServer(t, func(*http.Request) int {
		if requests.Add(1) == 1 {
			close(begun)
			<-gate
		}
		return http.StatusNoContent
	})
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11", "b=12")
	r.stop()
	r.owns.Store(true)
	r.start()
	r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: url}}})
	<-begun
	r.owns.Store(false)
	if !r.deliver.Calling() {
		t.Error("the engine reports no call while a request runs")
	}
	close(gate)
	until(t, "the end of the call", func() bool { return !r.deliver.Calling() })
	r.owns.Store(true)
	r.deliver.Recheck()
	until(t, "the record of both messages", func() bool { return r.stored() == 0 })
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests for 2 messages", n)
	}
}

// A message that was sent while the store took no writes is not sent again later.
func TestSentWithoutRoom(t *testing.T) {
	r := newRig(t)
	var requests atomic.Int32
	url := newServer(t, func(*http.Request) int {
		requests.Add(1)
		r.readOnly.Store(true)
		return http.StatusNoContent
	})
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11")
	r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: url}}})
	until(t, "the request", func() bool { return requests.Load() > 0 })
	if r.stored() != 1 {
		t.Fatal("the store took a write")
	}
	if err := alert.Reload(r.Engine); err != nil { // as when a lease comes back
		t.Fatal(err)
	}
	r.readOnly.Store(false)
	until(t, "the record of the message", func() bool { return r.stored() == 0 })
	r.stop()
	r.start()
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests for one message", n)
	}
}

// stored returns how many messages the store has.
func (r *rig) stored() (n int) {
	list, err := r.db.Subscriptions.Subscriptions("", 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range list {
		n += list[i].Stored
	}
	return n
}
