package web

import (
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// While an endpoint runs no slot, because the disk is full or no node of the cluster asks it,
// its results may no longer be true. The types of this file show its live queries as
// stale, with the reason. The API and the pages read through them, so that all answers agree.

// ShowHalted makes the parts of a configuration that report states do so.
func (c *Config) ShowHalted() {
	c.Daemon = haltedDaemon{c.Daemon}
	c.Queries = haltedQueries{c.Queries, Halts{c.Registry, c.Daemon}}
}

type haltedDaemon struct{ Daemon }

// State implements Planner.
func (d haltedDaemon) State(endpoint string) (scheduler.LoopState, error) {
	st, err := d.Daemon.State(endpoint)
	if err != nil || st.Halted == "" {
		return st, err
	}
	states := map[registry.State]int{}
	for _, s := range registry.States() {
		states[s] = st.States[s]
	}
	states[registry.Stale] += states[registry.Live]
	states[registry.Live] = 0
	if len(st.States) == 0 { // only their number is recorded
		states[registry.Stale] = st.Queries
	}
	st.States = states
	return st, nil
}

// Halts tell which endpoints run no slot.
type Halts struct {
	Registry *registry.Registry
	Daemon   Daemon
}

// Now returns why endpoints run no slot. Those that run are left out.
func (h Halts) Now() map[string]string {
	all, _ := h.Registry.Endpoints() // a list that cannot be read shows no endpoint as halted
	why := map[string]string{}
	for _, e := range all {
		if st, err := h.Daemon.State(e.Name); err == nil && st.Halted != "" {
			why[e.Name] = st.Halted
		}
	}
	return why
}

// Show changes the state of a query that is live if its endpoint runs no slot.
func (h Halts) Show(endpoint string, st *registry.Status) {
	if st.State != registry.Live {
		return
	}
	if s, err := h.Daemon.State(endpoint); err == nil && s.Halted != "" {
		st.State, st.Error = registry.Stale, s.Halted
	}
}

type haltedQueries struct {
	Queries
	halts Halts
}

// List implements Queries. While an endpoint runs no slot, a page of live or stale queries may be
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
