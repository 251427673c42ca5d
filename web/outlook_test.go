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
		Firing: map[string]int{"parking": 2, "other": 1}}, nil
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
}
