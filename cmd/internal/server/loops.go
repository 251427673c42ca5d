// The loops of all endpoints, those at other nodes of the cluster included.

package server

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/web/api"
)

// loops answers what only the loop of an endpoint knows, and does what only it may do. A loop
// that runs at another node is asked there, so that every node answers every call of the API and
// shows every page.
//
// A hint is sent there, too, and not through the journal: its answer counts the queries that the plan
// of the owner marks, and a hint that no owner took must not be accepted.
type loops struct {
	*fleet
	peers *peers // nil without a cluster: then all loops run here
	alone bool   // other nodes are not asked, because one of them asks

	mu     sync.Mutex
	states map[string]seenState // by endpoint, of loops at other nodes
}

// A seenState is a state that a node had at a time.
type seenState struct {
	scheduler.LoopState
	at time.Time
}

// stateAge is how old the state of a loop at another node may be. Pages read the states of all
// endpoints several times a second.
const stateAge = time.Second

func newLoops(f *fleet, p *peers, alone bool) *loops {
	return &loops{fleet: f, peers: p, alone: alone, states: map[string]seenState{}}
}

// local reports whether the loop of an endpoint runs at this node.
func (l *loops) local(endpoint string) bool { return l.peers == nil || l.hold(endpoint) != nil }

// at asks the loop of an endpoint by own if it runs here, or else by remote.
func at[T any](l *loops, endpoint string, own func() (T, error), remote func(*T) error) (x T, err error) {
	if l.peers == nil {
		return own()
	}
	if _, err := l.store.Endpoints.Endpoint(endpoint); err != nil {
		return x, err
	}
	switch {
	case l.hold(endpoint) != nil:
		return ownLoop(l, endpoint, own)
	case l.alone:
		return x, l.peers.moves(asks(endpoint))
	}
	err = remote(&x)
	return x, err
}

// ownLoop asks a loop of this node. Between the begin of its lease and that of the loop, and between
// their ends, there is no loop.
func ownLoop[T any](l *loops, endpoint string, own func() (T, error)) (T, error) {
	_, none := l.Manager.State(endpoint)
	x, err := own()
	if errors.Is(err, scheduler.ErrFenced) || errors.Is(err, registry.ErrNotFound) && (none != nil || l.hold(endpoint) == nil) {
		err = l.peers.moves(asks(endpoint))
	}
	return x, err
}

// current brings the settings in force at the loop up to date, in case that another node has edited
// them just now.
func (l *loops) current(endpoint string) error {
	if !l.alone {
		return nil
	}
	return l.sync(endpoint)
}

func endpointPath(name, rest string) string { return "/v1/endpoints/" + url.PathEscape(name) + rest }

// Tick implements web.Daemon.
func (l *loops) Tick(ctx context.Context, endpoint string) (scheduler.Slot, error) {
	return at(l, endpoint, func() (scheduler.Slot, error) {
		if err := l.current(endpoint); err != nil {
			return scheduler.Slot{}, err
		}
		return l.Manager.Tick(ctx, endpoint)
	}, func(s *scheduler.Slot) error {
		return l.peers.ask(ctx, asks(endpoint), request{method: http.MethodPost, path: endpointPath(endpoint, "/tick"), runs: endpoint}, s)
	})
}

// Trial implements web.Daemon.
func (l *loops) Trial(ctx context.Context, q *registry.Query) (scheduler.Answer, error) {
	return at(l, q.Endpoint, func() (scheduler.Answer, error) {
		if err := l.current(q.Endpoint); err != nil {
			return scheduler.Answer{}, err
		}
		return l.Manager.Trial(ctx, q)
	}, func(a *scheduler.Answer) error {
		var analysis struct{ Run api.Trial }
		body := map[string]any{"endpoint": q.Endpoint, "query": q.Text, "ordered": q.Ordered, "default_graph_uri": q.DefaultGraphs,
			"named_graph_uri": q.NamedGraphs}
		err := l.peers.ask(ctx, asks(q.Endpoint), request{method: http.MethodPost, path: "/v1/queries/validate?run=1&whole=1",
			body: body, runs: q.Endpoint}, &analysis)
		if err == nil {
			*a, err = trialAnswer(&analysis.Run, q)
		}
		return err
	})
}

// trialAnswer returns the answer to q that a trial run describes.
func trialAnswer(t *api.Trial, q *registry.Query) (a scheduler.Answer, err error) {
	a = scheduler.Answer{Outcome: registry.Outcome(t.Outcome), Error: t.Error, Elapsed: seconds(t.Elapsed)}
	if t.Results == nil {
		return a, nil
	}
	if a.Outcome = registry.Changed; !q.Form.Graph() {
		a.Result, err = diff.DecodeJSON(t.Results, q.Form, diff.Options{Ordered: q.Ordered})
		return a, err
	}
	_, rows, err := diff.ParseRowsJSON(q.Form, t.Results)
	if err != nil {
		return a, err
	}
	var text []byte
	for _, r := range rows {
		text = append(append(text, r...), '\n')
	}
	a.Result, err = diff.Decode(text, q.Form, false)
	return a, err
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// Explain implements web.Daemon.
func (l *loops) Explain(endpoint, query string) (scheduler.Explanation, error) {
	return at(l, endpoint, func() (scheduler.Explanation, error) { return l.Manager.Explain(endpoint, query) },
		func(x *scheduler.Explanation) error {
			var e struct {
				scheduler.Explanation
				LastRun struct {
					policy.Run
					Elapsed float64 `json:"elapsed_seconds"`
				} `json:"last_run"`
			}
			err := l.peers.ask(context.Background(), asks(endpoint), request{method: http.MethodGet, path: "/v1/queries/" +
				url.PathEscape(query) + "/explain"}, &e)
			*x = e.Explanation
			x.LastRun = e.LastRun.Run
			x.LastRun.Elapsed = seconds(e.LastRun.Elapsed)
			return err
		})
}

// Due implements web.Daemon. The times are unknown while no node can answer.
func (l *loops) Due(endpoint string, queries []string) ([]time.Time, error) {
	due, err := at(l, endpoint, func() ([]time.Time, error) { return l.Manager.Due(endpoint, queries) }, func(due *[]time.Time) error {
		var x struct {
			Due []time.Time `json:"next_due"`
		}
		err := l.peers.ask(context.Background(), asks(endpoint), request{method: http.MethodGet, path: endpointPath(endpoint,
			"/due?"+url.Values{"query": queries}.Encode())}, &x)
		*due = x.Due
		return err
	})
	if unavailableDetail(err) != "" || err == nil && len(due) != len(queries) {
		return make([]time.Time, len(queries)), nil
	}
	return due, err
}

// State implements web.Daemon. While no node can answer it is what is recorded of the endpoint,
// and Halted says why.
func (l *loops) State(endpoint string) (scheduler.LoopState, error) {
	if l.local(endpoint) && !l.alone {
		return l.Manager.State(endpoint)
	}
	l.mu.Lock()
	s, seen := l.states[endpoint]
	l.mu.Unlock()
	if seen && time.Since(s.at) < stateAge {
		return s.LoopState, nil
	}
	st, err := at(l, endpoint, func() (scheduler.LoopState, error) { return l.Manager.State(endpoint) }, func(st *scheduler.LoopState) error {
		x := struct{ State *scheduler.LoopState }{st}
		err := l.peers.ask(context.Background(), asks(endpoint), request{method: http.MethodGet, path: endpointPath(endpoint, ""),
			page: true}, &x)
		st.Endpoint = endpoint
		return err
	})
	if l.alone {
		return st, err
	}
	if why := unavailableDetail(err); why != "" {
		st, err = l.recorded(endpoint, why)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.states, endpoint); err == nil {
		l.states[endpoint] = seenState{st, time.Now()}
	}
	return st, err
}

// recorded returns what the store knows of the state of an endpoint.
func (l *loops) recorded(endpoint, halted string) (s scheduler.LoopState, err error) {
	news, err := l.store.Ledger.Since(endpoint, math.MaxUint64-1) // nothing is newer
	if err != nil {
		return s, err
	}
	s = scheduler.LoopState{Endpoint: endpoint, Debt: news.Last.Owes().Seconds(), Last: news.Last, Health: news.Health,
		States: map[registry.State]int{}, Halted: halted, Away: true}
	list, err := l.store.Catalog.Digests("")
	for i := range list {
		if x := &list[i]; x.Endpoint == endpoint {
			s.Queries++
			s.States[x.State]++
			if x.Executions > 0 {
				s.Results++
			}
		}
	}
	return s, err
}

// Hint marks the queries that a hint says may be affected.
func (l *loops) Hint(endpoint string, h registry.Hint) (plan.Hinted, error) {
	return at(l, endpoint, func() (plan.Hinted, error) { return l.Manager.Hint(endpoint, h) }, func(done *plan.Hinted) error {
		body := map[string]any{}
		switch {
		case h.New:
			body["new"] = true
		case !h.All:
			var changed strings.Builder
			for _, x := range h.Changed {
				changed.WriteString(registry.Line(x) + "\n")
			}
			body["touched"], body["added"] = append([]string{}, h.Touched...), changed.String()
		}
		err := l.peers.ask(context.Background(), asks(endpoint), request{method: http.MethodPost, path: endpointPath(endpoint,
			"/hints"), body: body}, done)
		done.Skipped = h.Skipped
		return err
	})
}

// Templates implements web.Merging.
func (l *loops) Templates(endpoint string) ([]cohort.Snapshot, error) {
	return at(l, endpoint, func() ([]cohort.Snapshot, error) { return l.Manager.Templates(endpoint) }, func(list *[]cohort.Snapshot) error {
		x := struct{ Templates *[]cohort.Snapshot }{list}
		return l.peers.ask(context.Background(), asks(endpoint), request{method: http.MethodGet, path: endpointPath(endpoint, "/templates")}, &x)
	})
}

// NextRound returns when the schedule opens a profile's next round, zero if unknown. It is unknown while no node can answer.
func (l *loops) NextRound(p registry.Profile) time.Time {
	t, err := at(l, p.Endpoint, func() (time.Time, error) { return l.Manager.NextRound(p), nil }, func(t *time.Time) error {
		x := struct {
			Due *time.Time `json:"next_due"`
		}{t}
		return l.peers.ask(context.Background(), asks(p.Endpoint), request{method: http.MethodGet, path: "/v1/profiles/" +
			url.PathEscape(p.ID)}, &x)
	})
	if err != nil {
		return time.Time{}
	}
	return t
}

// InForce implements shadow.Endpoints. What the settings in force are is known without the loop.
func (l *loops) InForce(endpoint string) (registry.Endpoint, policy.Policy, error) {
	if l.local(endpoint) {
		return l.Manager.InForce(endpoint)
	}
	e, err := l.store.Endpoints.Endpoint(endpoint)
	if err != nil {
		return e, nil, err
	}
	return scheduler.InForce(e)
}
