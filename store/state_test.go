package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// A query is in the list of its state and in no other list, also in its digest and wherever it
// is shown. This includes the begin and end of a holder's time, which writes nothing.
func TestStatesAgree(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	d := open(t, t.TempDir(), Options{Now: func() time.Time { return now }})
	putEndpointURL(t, d, "city", "http://127.0.0.1:1/")
	soon, later := now.Add(time.Hour), now.Add(2*time.Hour)
	outcomes := []registry.Outcome{"", registry.Changed, registry.Failed, registry.Rejected, registry.Throttled, registry.Cut,
		registry.Outdated}
	n := 0
	for _, executions := range []uint64{0, 2} {
		for _, o := range outcomes {
			for _, window := range [][2]*time.Time{{nil, nil}, {nil, &soon}, {&soon, nil}, {&soon, &later}} {
				n++
				id := fmt.Sprintf("q_%03d", n)
				put(t, d, id, "city", registry.Holder{Caller: "a", From: window[0], Until: window[1]})
				s := policy.Stats{Executions: executions, LastRun: policy.Run{Slot: 1, At: now, Outcome: o}}
				switch o {
				case registry.Failed, registry.Rejected:
					s.Failures, s.NotBefore, s.IncompleteSince = 1, 9, now
				case registry.Throttled:
					s.Failures = 1
				case registry.Cut:
					s.Cuts, s.NotBefore, s.IncompleteSince = 3, 9, now
				case registry.Outdated:
					s.Outdated, s.NotBefore, s.IncompleteSince = 3, 9, now
				}
				if _, err := d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{{Query: id, Stats: s}}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for range 4 {
		listed := map[string]registry.State{}
		for _, state := range registry.States() {
			items, _, err := d.Catalog.List(registry.QueryFilter{State: state}, "", 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range items {
				if was, twice := listed[it.Query.ID]; twice {
					t.Errorf("%s is listed as %s and %s", it.Query.ID, was, state)
				}
				listed[it.Query.ID] = state
			}
		}
		digests, err := d.Catalog.Digests("")
		if err != nil || len(digests) != n || len(listed) != n {
			t.Fatalf("%d queries, %d digests, %d listed, %v", n, len(digests), len(listed), err)
		}
		for _, x := range digests {
			it, err := d.Catalog.Item(x.ID)
			if err != nil || it.Status.State != x.State || listed[x.ID] != x.State {
				t.Errorf("at %s %s is %s, its digest says %s, its list %s (%v)", now, x.ID, it.Status.State, x.State, listed[x.ID], err)
			}
			if idle := x.State == registry.Idle; idle && it.Status.Error == "" {
				t.Errorf("%s does not say why it is idle", x.ID)
			}
		}
		now = now.Add(45 * time.Minute)
	}
}

// Only edits after which executions may end differently are recorded.
func TestEditsOfExecutionsAreNoted(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	d := open(t, t.TempDir(), Options{Now: func() time.Time { return now }})
	for name, c := range map[string]struct {
		edit  func(*registry.Endpoint)
		noted bool
	}{
		"url":     {func(e *registry.Endpoint) { e.URL = "http://127.0.0.1:1/other" }, true},
		"graphs":  {func(e *registry.Endpoint) { e.DefaultGraphURI = []string{"http://g"} }, true},
		"auth":    {func(e *registry.Endpoint) { e.Auth.Bearer = &registry.Bearer{Token: "x"} }, true},
		"timeout": {func(e *registry.Endpoint) { e.Timeout++ }, true},
		"budget":  {func(e *registry.Endpoint) { e.Budget++ }, true},
		"slot":    {func(e *registry.Endpoint) { e.Slot = "@every 1h" }, false},
		"policy":  {func(e *registry.Endpoint) { e.Policy = "rr" }, false},
		"pause":   {func(e *registry.Endpoint) { e.Pause = &registry.Pause{By: "ops"} }, false},
	} {
		putEndpointURL(t, d, name, "http://127.0.0.1:1/")
		fails := registry.Health{State: registry.HealthFailing, Since: now, Incomplete: 9, Error: "text/html"}
		if _, err := d.Ledger.Record(name, scheduler.Batch{Health: &fails}); err != nil {
			t.Fatal(err)
		}
		if n, err := d.Ledger.Since(name, 0); err != nil || !n.Edited.IsZero() {
			t.Errorf("%s: edited at %s before any edit, %v", name, n.Edited, err)
		}
		if _, err := d.Endpoints.EditEndpoint(name, func(x *registry.Configured, _ bool) error { c.edit(&x.Endpoint); return nil }); err != nil {
			t.Fatal(err)
		}
		n, err := d.Ledger.Since(name, 0)
		if err != nil || n.Edited.Equal(now) != c.noted || (n.Health == fails) == c.noted {
			t.Errorf("%s: edited at %s, %+v, %v", name, n.Edited, n.Health, err)
		}
	}
}
