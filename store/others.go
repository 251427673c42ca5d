// What other nodes have written, for the memory and the followers of this node.

package store

import (
	"context"
	"maps"
	"slices"

	"github.com/freshet/freshet/registry"
)

// Others says what was written by commands that no caller on this node waits for. It names
// things, and does not say how they have changed: read them.
type Others struct {
	Queries       []string // registered, edited or removed; also profiles
	Changed       []string // with another result or status; also profiles
	Hidden        []string // queries that are no longer public; they are also in Queries
	Endpoints     []string // edited or removed
	Subscriptions []string
	Rules         []string
	Tokens        bool
}

// others collects what Others reports. Each set is nil while it is empty.
type others struct {
	queries, changed, hidden, endpoints, subscriptions, rules set
	tokens                                                    bool
}

type set map[string]struct{}

func (s *set) add(id string) {
	if *s == nil {
		*s = set{}
	}
	(*s)[id] = struct{}{}
}

func (s set) list() []string { return slices.Sorted(maps.Keys(s)) }

// WatchOthers calls f after commits of what other nodes have written, until ctx ends. What is
// written while f runs is reported together by the next call. The first call reports what was
// written since Open. It is called once.
func (d *DB) WatchOthers(ctx context.Context, f func(Others)) {
	r := d.replica
	if r == nil {
		<-ctx.Done()
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.foreign:
		}
		r.mu.Lock()
		o := r.others
		r.others = others{}
		r.mu.Unlock()
		f(Others{
			Queries: o.queries.list(), Changed: o.changed.list(), Hidden: o.hidden.list(), Endpoints: o.endpoints.list(),
			Subscriptions: o.subscriptions.list(), Rules: o.rules.list(), Tokens: o.tokens,
		})
	}
}

// The following methods add what an applied command has changed.

func (c *beginning) touch(*others) {}

func (s *purgeStep) touch(*others) {}

func (e *queryEdit) touch(o *others) {
	var everybody registry.Caller
	for i := range e.queries {
		x := &e.queries[i]
		if x.same {
			continue
		}
		o.queries.add(x.now.ID)
		if x.found && len(x.now.Holders) > 0 && everybody.MayRead(&x.old.Query) && !everybody.MayRead(&x.now) {
			o.hidden.add(x.now.ID)
		}
	}
}

func (e *endpointEdit) touch(o *others) { o.endpoints.add(e.now.Endpoint.Name) }

func (e *profileEdit) touch(o *others) { o.queries.add(e.now.ID) }

func (e *tokenEdit) touch(o *others) { o.tokens = true }

func (w *subscriptionWrites) touch(o *others) {
	for _, x := range w.list {
		o.subscriptions.add(x.id)
	}
}

func (w *writer) touch(o *others) {
	for i := range w.changes {
		o.changed.add(w.changes[i].Query)
	}
	for i := range w.b.Outcomes {
		if x := &w.b.Outcomes[i]; x.Turned {
			o.changed.add(x.Query)
		}
	}
	for i := range w.b.Rounds {
		if x := &w.b.Rounds[i]; x.State != registry.RoundOpen {
			o.changed.add(x.Profile)
		}
	}
}

func (e *ruleEdit) touch(o *others) {
	for i := range e.edit.Put {
		o.rules.add(e.edit.Put[i].ID)
	}
	for id := range e.edit.States {
		o.rules.add(id)
	}
	for _, id := range e.edit.Remove {
		o.rules.add(id)
	}
	for i := range e.edit.Queue {
		o.subscriptions.add(e.edit.Queue[i].To.ID(e.edit.Queue[i].Caller))
	}
}

func (e *nodeEdit) touch(*others) {} // see LeaseStore.Changed

func (e *leaseEdit) touch(*others) {}
