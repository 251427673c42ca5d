package web

import (
	"cmp"
	"net/http"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An Outlook says what is fresh and what is in trouble. The pages, GET /v1/status and the metrics
// take it from here, so that they agree.
type Outlook struct {
	Results  int // queries of the endpoints that have read theirs
	States   map[registry.State]int
	Starting int // endpoints that still read their queries
	Disk     registry.Storage
	Members  int        // nodes of the cluster that have not left it
	Silent   []string   // those that send no heartbeats
	Troubled []Troubled // endpoints
	Rules    registry.RuleTotals
}

// A Troubled endpoint is not asked as usual, and is not paused.
type Troubled struct{ Endpoint, State, Why string }

// A Trouble is something that keeps results from being fresh, or that alerts of rules report.
type Trouble struct {
	Kind   string `json:"kind"`           // one of TroubleKinds
	Name   string `json:"name,omitempty"` // of the node or the endpoint
	Count  int    `json:"count"`
	Detail string `json:"detail"`
}

// TroubleKinds lists the kinds of troubles, the worst first.
var TroubleKinds = []string{"storage", "node", "endpoint", "alert", "rule", "query"}

// EndpointTrouble says whether an endpoint is asked as usual: "" if it is, else "unasked" (by no
// node), "halted" (nothing can be stored), "failing" or "waiting" (it asked for a pause).
func EndpointTrouble(st scheduler.LoopState) string {
	switch {
	case st.Away:
		return "unasked"
	case st.Halted != "":
		return "halted"
	case st.Health.State == registry.HealthFailing:
		return "failing"
	case st.Health.State == registry.HealthThrottled:
		return "waiting"
	}
	return ""
}

// Outlook looks at everything. Its cost grows with the number of endpoints and rules, not of queries.
func (c *Config) Outlook() (Outlook, error) {
	o := Outlook{States: map[registry.State]int{}, Disk: c.Health.Disk()}
	endpoints, err := c.Registry.Endpoints()
	if err != nil {
		return o, err
	}
	for _, e := range endpoints {
		st, err := c.Daemon.State(e.Name)
		if err != nil {
			o.Starting++
			continue
		}
		o.Results += st.Queries
		for s, n := range st.States {
			o.States[s] += n
		}
		if state := EndpointTrouble(st); state != "" && e.Pause == nil {
			o.Troubled = append(o.Troubled, Troubled{e.Name, state, cmp.Or(st.Halted, st.Health.Error)})
		}
	}
	if c.Cluster != nil {
		if err := o.look(c.Cluster); err != nil {
			return o, err
		}
	}
	o.Rules, err = c.Rules.Totals()
	return o, err
}

func (o *Outlook) look(c Cluster) error {
	s, err := c.Status()
	for _, n := range s.Nodes {
		switch n.State {
		case registry.NodeLeft:
			continue
		case registry.NodeSilent:
			o.Silent = append(o.Silent, n.Name)
		}
		o.Members++
	}
	return err
}

// Firing counts the alerts that a caller may see and that fire.
func (o *Outlook) Firing(c registry.Caller) int {
	if c.Role.Includes(registry.RoleAdmin) {
		return o.Rules.Alerts[registry.AlertFiring]
	}
	return o.Rules.Firing[c.Name]
}

// FailingRules counts the rules that a caller may see and that cannot be evaluated.
func (o *Outlook) FailingRules(c registry.Caller) int {
	if c.Role.Includes(registry.RoleAdmin) {
		return o.Rules.Rules[registry.RuleFailing]
	}
	return o.Rules.Failing[c.Name]
}

// Troubles lists what is wrong as a caller may see it, the worst first.
func (o *Outlook) Troubles(c registry.Caller) []Trouble {
	out := []Trouble{}
	add := func(kind, name string, n int, detail string) {
		if n > 0 {
			out = append(out, Trouble{kind, name, n, detail})
		}
	}
	if o.Disk.ReadOnly {
		add("storage", "", 1, cmp.Or(o.Disk.Reason, "the disk is full: nothing is executed or stored"))
	}
	for _, n := range o.Silent {
		add("node", n, 1, "the node sends no heartbeats")
	}
	for _, e := range o.Troubled {
		if e.State != "waiting" { // it answers, and later again
			add("endpoint", e.Endpoint, 1, e.State+": "+e.Why)
		}
	}
	add("alert", "", o.Firing(c), "alerts of rules fire")
	add("rule", "", o.FailingRules(c), "rules cannot be evaluated")
	add("query", "", o.States[registry.Failing], "queries fail")
	return out
}

// status answers what is fresh and what is in trouble.
func (c serverAPI) status() error {
	o, err := c.Outlook()
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, map[string]any{"results": o.Results, "fresh": o.States[registry.Live], "states": o.States,
		"starting": o.Starting, "troubles": o.Troubles(c.caller)})
}

// collectOutlook reports the troubles.
func (s *server) collectOutlook(put func(metric, float64, ...string)) error {
	o, err := s.Outlook()
	if err != nil {
		return err
	}
	n := map[string]int{}
	for _, t := range o.Troubles(registry.Caller{Role: registry.RoleAdmin}) {
		n[t.Kind] += t.Count
	}
	for _, kind := range TroubleKinds {
		put(troublesDesc, float64(n[kind]), kind)
	}
	return nil
}

// While an endpoint fails, or runs no slot because it is paused, the disk is full or no node of the cluster asks it,
// its results may no longer be true. The types of this file show its live queries as
// stale, with the reason. The API and the pages read through them, so that all answers agree.

// doubt returns why the results of an endpoint may no longer be true, although the last execution of their queries was
// complete; "" if they are kept up to date. An endpoint that asked for a pause counts once a whole slot got nothing, so that
// short pauses leave results live.
func doubt(st scheduler.LoopState) string {
	why := ""
	switch {
	case st.Halted != "":
		return st.Halted
	case st.Health.State == registry.HealthFailing:
		why = "the endpoint fails"
	case st.Health.State == registry.HealthThrottled && st.Last.Throttled && st.Last.Complete == 0:
		why = "the endpoint asked us to wait"
	}
	if why != "" && st.Health.Error != "" {
		why += ": " + st.Health.Error
	}
	return why
}

type haltedDaemon struct{ Daemon }

// State implements Daemon.
func (d haltedDaemon) State(endpoint string) (scheduler.LoopState, error) {
	st, err := d.Daemon.State(endpoint)
	if err != nil || doubt(st) == "" {
		return st, err
	}
	states := map[registry.State]int{}
	for _, s := range registry.States() {
		states[s] = st.States[s]
	}
	states[registry.Stale] += states[registry.Live]
	states[registry.Live] = 0
	st.States = states
	return st, nil
}

// Halts tell the results of which endpoints may no longer be true.
type Halts struct {
	Registry *registry.Registry
	Daemon   Daemon
}

// Now returns why the results of endpoints may no longer be true. Endpoints that keep theirs up to date are left out.
func (h Halts) Now() map[string]string {
	all, _ := h.Registry.Endpoints() // a list that cannot be read shows no endpoint as halted
	why := map[string]string{}
	for _, e := range all {
		if x := h.Why(e.Name); x != "" {
			why[e.Name] = x
		}
	}
	return why
}

// Show changes the state of a query that is live if the results of its endpoint may no longer be true.
func (h Halts) Show(endpoint string, st *registry.Status) {
	if st.State != registry.Live {
		return
	}
	if why := h.Why(endpoint); why != "" {
		st.State, st.Error = registry.Stale, why
	}
}

// Why returns why the results of an endpoint may no longer be true, "" if it keeps them up to date.
func (h Halts) Why(endpoint string) string {
	s, err := h.Daemon.State(endpoint)
	if err != nil {
		return ""
	}
	return doubt(s)
}

type haltedQueries struct {
	Queries
	halts Halts
}

// List implements Queries. While an endpoint fails or runs no slot, a page of live or stale queries may be
// shorter than limit.
func (q haltedQueries) List(f registry.QueryFilter, cursor string, limit int) ([]registry.ListedQuery, string, error) {
	want, halts := f.State, q.halts.Now()
	if len(halts) > 0 && want == registry.Stale {
		f.State = "" // live ones are among them
	}
	list, next, err := q.Queries.List(f, cursor, limit)
	if err != nil || len(halts) == 0 {
		return list, next, err
	}
	kept := list[:0]
	for _, x := range list {
		if why := halts[x.Query.Endpoint]; why != "" && x.Status.State == registry.Live {
			x.Status.State, x.Status.Error = registry.Stale, why
		}
		if want == "" || x.Status.State == want {
			kept = append(kept, x)
		}
	}
	return kept, next, nil
}

// Item implements Queries.
func (q haltedQueries) Item(id string) (registry.ListedQuery, error) {
	x, err := q.Queries.Item(id)
	if err == nil {
		q.halts.Show(x.Query.Endpoint, &x.Status)
	}
	return x, err
}
