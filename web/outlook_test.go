package web

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// A haltingDaemon runs no slot for a reason that a test sets.
type haltingDaemon struct {
	Daemon
	why *string
}

func (d haltingDaemon) State(endpoint string) (scheduler.LoopState, error) {
	st, err := d.Daemon.State(endpoint)
	st.Halted, st.States = *d.why, map[registry.State]int{registry.Live: st.Queries}
	return st, err
}

// firing are rules with alerts of two callers.
type firing struct{ inner }

type inner interface{ Rules }

func (firing) Totals() (registry.RuleTotals, error) {
	return registry.RuleTotals{Rules: map[registry.RuleStatus]int{registry.RuleFailing: 1},
		Alerts: map[registry.AlertState]int{registry.AlertFiring: 3},
		Firing: map[string]int{"parking": 2, "other": 1}, Failing: map[string]int{"parking": 1}}, nil
}

// The status, the lists of queries and the metrics agree about what is fresh and what is in trouble.
func TestOutlook(t *testing.T) {
	disk, why := registry.Storage{}, ""
	nodes := newTwoNodes()
	w := newWorld(t, func(c *Config) {
		c.Health, c.Daemon, c.Cluster, c.Rules = condition{disk: &disk, starting: new(int)}, haltingDaemon{c.Daemon, &why}, nodes, firing{c.Rules}
	})
	q := w.register(selectText)
	w.m.status[q] = registry.Status{State: registry.Live}
	type status struct {
		Results, Fresh int
		States         map[registry.State]int
		Troubles       []Trouble
	}
	look := func() (s status, kinds string) {
		t.Helper()
		if err := json.Unmarshal(w.get("/v1/status").status(200).body, &s); err != nil {
			t.Fatal(err)
		}
		for _, x := range s.Troubles {
			kinds += x.Kind + " "
		}
		return s, kinds
	}
	if s, kinds := look(); s.Results != 1 || s.Fresh != 1 || kinds != "alert rule " {
		t.Fatalf("%+v", s)
	}
	disk, why = registry.Storage{ReadOnly: true, Reason: "full"}, "no slot runs"
	nodes.Nodes[1].State = registry.NodeSilent
	s, kinds := look()
	if s.Fresh != 0 || s.States[registry.Stale] != 1 || kinds != "storage node endpoint alert rule " {
		t.Errorf("%+v", s)
	}
	if a := string(w.get("/v1/queries/" + q).status(200).body); !strings.Contains(a, `"state":"stale"`) ||
		!strings.Contains(a, "no slot runs") {
		t.Errorf("the query: %s", a)
	}
	for state, n := range map[string]int{"live": 0, "stale": 1} {
		if got := strings.Count(string(w.get("/v1/queries?state="+state).status(200).body), `"id":`); got != n {
			t.Errorf("%d queries are listed as %s, want %d", got, state, n)
		}
	}
	metrics := string(w.get("/metrics").status(200).body)
	for _, m := range []string{`freshet_troubles{kind="storage"} 1`, `freshet_troubles{kind="node"} 1`, `freshet_troubles{kind="endpoint"} 1`,
		`freshet_troubles{kind="alert"} 3`, `freshet_troubles{kind="rule"} 1`, `freshet_troubles{kind="query"} 0`,
		`freshet_queries{endpoint="city",state="stale"} 1`} {
		if !strings.Contains(metrics, "\n"+m+"\n") {
			t.Errorf("the metrics lack %s", m)
		}
	}
	o, err := w.config.Outlook()
	if err != nil {
		t.Fatal(err)
	}
	for role, n := range map[registry.Role]int{registry.RoleAdmin: 3, registry.RoleApp: 2} {
		if got := o.Firing(registry.Caller{Name: "parking", Role: role}); got != n {
			t.Errorf("%d alerts fire for the role %s, want %d", got, role, n)
		}
	}
	for caller, n := range map[string]int{"parking": 1, "other": 0} { // each hears about its own rules
		count := 0
		for _, x := range o.Troubles(registry.Caller{Name: caller, Role: registry.RoleApp}) {
			if x.Kind == "rule" {
				count += x.Count
			}
		}
		if count != n {
			t.Errorf("%d rules fail for %s, want %d", count, caller, n)
		}
	}
}

// An ill daemon has a health and a last slot that a test sets.
type illDaemon struct {
	Daemon
	st *scheduler.LoopState
}

func (d illDaemon) State(endpoint string) (scheduler.LoopState, error) {
	st, err := d.Daemon.State(endpoint)
	st.Health, st.Last, st.States = d.st.Health, d.st.Last, map[registry.State]int{registry.Live: st.Queries}
	return st, err
}

// No answer calls a result fresh while its endpoint fails, or while a whole slot got nothing because the endpoint asked to wait.
func TestResultsOfAFailingEndpointAreStale(t *testing.T) {
	var st scheduler.LoopState
	w := newWorld(t, func(c *Config) { c.Daemon = illDaemon{c.Daemon, &st} })
	q := w.register(selectText)
	w.m.status[q] = registry.Status{State: registry.Live}
	look := func() (states [4]registry.State, why string) {
		t.Helper()
		var s struct{ Fresh int }
		var x struct{ State, Error string }
		if err := json.Unmarshal(w.get("/v1/status").status(200).body, &s); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(w.get("/v1/queries/"+q).status(200).body, &x); err != nil {
			t.Fatal(err)
		}
		states = [4]registry.State{registry.Stale, registry.State(x.State), registry.Stale, registry.Stale}
		if s.Fresh == 1 {
			states[0] = registry.Live
		}
		if strings.Contains(string(w.get("/v1/queries?state=live").status(200).body), q) {
			states[2] = registry.Live
		}
		if strings.Contains(string(w.get("/metrics/results?query="+q).status(200).body), "query=\""+q+"\"} 0") {
			states[3] = registry.Live
		}
		return states, x.Error
	}
	failing, throttled := registry.HealthFailing, registry.HealthThrottled
	for _, c := range []struct {
		health registry.Health
		last   scheduler.Slot
		want   registry.State
		why    string
	}{
		{registry.Health{}, scheduler.Slot{}, registry.Live, ""},
		{registry.Health{State: registry.Healthy}, scheduler.Slot{Error: "429", Throttled: true}, registry.Live, ""}, // it answers again
		{registry.Health{State: failing, Error: "no route"}, scheduler.Slot{}, registry.Stale, "the endpoint fails: no route"},
		{registry.Health{State: failing}, scheduler.Slot{Complete: 1}, registry.Stale, "the endpoint fails"},
		{registry.Health{State: throttled, Error: "429"}, scheduler.Slot{Complete: 1, Throttled: true}, registry.Live, ""}, // a short time
		{registry.Health{State: throttled, Error: "429"}, scheduler.Slot{Throttled: true}, registry.Stale,
			"the endpoint asked us to wait: 429"},
	} {
		st = scheduler.LoopState{Health: c.health, Last: c.last}
		if got, why := look(); got != [4]registry.State{c.want, c.want, c.want, c.want} || why != c.why {
			t.Errorf("%s %q, %d complete, throttled %v: status, query, list and metric say %s: %q, want %s: %q", c.health.State,
				c.health.Error, c.last.Complete, c.last.Throttled, got, why, c.want, c.why)
		}
	}
}
