package ui

import (
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

// A queryHead shows a query's name, its state and the available actions.
type queryHead struct {
	ID, Name, Path         string
	Endpoint, EndpointLink string
	Form                   string
	State                  state
	Tags                   []string
	Paused, MayAct, Mine   bool
	Watch                  bool // its changes can be shown in words
}

func (v queryHandler) head(q *registry.Query, st registry.Status) queryHead {
	_, holds := q.Holder(v.caller.Name)
	v.halts.Show(q.Endpoint, &st)
	h := queryHead{ID: q.ID, Name: clip(v.name(q), 300), Path: queryPath(q.ID), Endpoint: q.Endpoint, Form: string(q.Form), State: stateOf(q, st), Tags: q.Tags(),
		Paused: q.PausedFor(v.caller) != nil, Mine: holds, MayAct: v.May(registry.RoleApp) && (holds || v.May(registry.RoleAdmin))}
	_, h.Watch = watch.Of(q, v.caller.Name)
	if v.Has("endpoint") {
		h.EndpointLink = endpointPath(q.Endpoint)
	}
	return h
}

// resolve finds the query that the path names, by id or name.
func (v *visit) resolve() (registry.Query, error) {
	id := v.r.PathValue("id")
	q, err := v.Registry.Resolve(v.caller, id)
	if isMissing(err) {
		return q, &registry.Problem{Kind: registry.KindNotFound, Title: "There is no query " + clip(id, 60),
			Detail: "It may have ended: a query ends when it has no holder any more. Its id is made from its text, so registering the same query again brings it back under the same address."}
	}
	return q, err
}

func stateOf(q *registry.Query, st registry.Status) state {
	if q.Paused() != nil {
		return state{"paused", "paused"}
	}
	return state{string(st.State), string(st.State)}
}

// A resultSize is the size of a result; the template "size" has the words.
type resultSize struct {
	Form    diff.Form
	Ordered bool
	Rows    int
}

func sizeOf(q *registry.Query, rows int) resultSize { return resultSize{q.Form, q.Ordered, rows} }

type kv struct{ Label, Link string }
