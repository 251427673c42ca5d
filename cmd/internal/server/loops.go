// The loops of all endpoints, those at other nodes of the cluster included.

package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// loops answers what only the loop of an endpoint knows, and does what only it may do. A loop
// that runs at another node is asked there, so that every node answers every call of the API and
// shows every page.
//
// A hint is passed on like everything else, and not through the journal: its answer counts the
// queries that the plan of the owner marks, and a hint that no owner took must not be accepted.
type loops struct {
	*fleet
	peers *peers // nil without a cluster: then all loops run here

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

func newLoops(f *fleet, p *peers) *loops {
	return &loops{fleet: f, peers: p, states: map[string]seenState{}}
}

// A trialReply is a scheduler.Answer that can be sent.
type trialReply struct {
	Outcome      registry.Outcome
	Error        string
	Elapsed, Age time.Duration
	Result       []byte // its document, if Has
	Has          bool
}

func sendable(a scheduler.Answer) trialReply {
	t := trialReply{Outcome: a.Outcome, Error: a.Error, Elapsed: a.Elapsed, Age: a.Age, Has: a.Result != nil}
	if t.Has {
		t.Result = a.Result.Document()
	}
	return t
}

// answer is the inverse of sendable for the answer to q.
func (t trialReply) answer(q *registry.Query) (a scheduler.Answer, err error) {
	a = scheduler.Answer{Outcome: t.Outcome, Error: t.Error, Elapsed: t.Elapsed, Age: t.Age}
	if t.Has {
		a.Result, err = diff.Decode(t.Result, q.Form, q.Ordered)
	}
	return a, err
}

// perform makes a call of a loop of this node.
func perform(ctx context.Context, m *scheduler.Manager, c nodeCall) (r nodeReply, err error) {
	switch c.Verb {
	case verbTick:
		r.Slot, err = m.Tick(ctx, c.Endpoint)
	case verbExplain:
		r.Explained, err = m.Explain(c.Endpoint, c.Queries[0])
	case verbDue:
		r.Due, err = m.Due(c.Endpoint, c.Queries)
	case verbState:
		r.State, err = m.State(c.Endpoint)
	case verbHint:
		r.Hinted, err = m.Hint(c.Endpoint, *c.Hint)
	case verbTemplates:
		r.Templates, err = m.Templates(c.Endpoint)
	case verbRound:
		r.Round = m.NextRound(*c.Profile)
	case verbTrial:
		var a scheduler.Answer
		if a, err = m.Trial(ctx, c.Query); err == nil {
			r.Trial = sendable(a)
		}
	default:
		err = fmt.Errorf("this node does not know the call %.20q: give all nodes the same version", c.Verb)
	}
	return r, err
}

// own makes a call at the loop of this node. Between the begin of its lease and that of the loop, and
// between their ends, there is no loop.
func (l *loops) own(ctx context.Context, c nodeCall) (r nodeReply, err error) {
	if l.peers == nil {
		return perform(ctx, l.Manager, c)
	}
	_, none := l.Manager.State(c.Endpoint)
	r, err = perform(ctx, l.Manager, c)
	if errors.Is(err, registry.ErrNotFound) {
		if _, unknown := l.store.Endpoints.Endpoint(c.Endpoint); unknown == nil && (none != nil || l.hold(c.Endpoint) == nil) {
			err = l.peers.moving(c.Endpoint)
		}
	}
	return r, err
}

// local reports whether the loop of an endpoint runs at this node.
func (l *loops) local(endpoint string) bool { return l.peers == nil || l.hold(endpoint) != nil }

// ask makes a call where the loop of the endpoint runs. The error is a *registry.Problem of the
// kind unavailable while no node of the cluster can answer.
func (l *loops) ask(ctx context.Context, c nodeCall) (r nodeReply, err error) {
	if l.local(c.Endpoint) {
		r, err = l.own(ctx, c)
	} else {
		r, err = l.peers.forward(ctx, c)
	}
	if errors.Is(err, scheduler.ErrFenced) && l.peers != nil {
		err = l.peers.moving(c.Endpoint)
	}
	return r, err
}

// Tick implements web.Executor.
func (l *loops) Tick(ctx context.Context, endpoint string) (scheduler.Slot, error) {
	r, err := l.ask(ctx, nodeCall{Verb: verbTick, Endpoint: endpoint})
	return r.Slot, err
}

// Trial implements web.Executor.
func (l *loops) Trial(ctx context.Context, q *registry.Query) (scheduler.Answer, error) {
	if l.local(q.Endpoint) {
		return l.Manager.Trial(ctx, q)
	}
	r, err := l.ask(ctx, nodeCall{Verb: verbTrial, Endpoint: q.Endpoint, Query: q})
	if err != nil {
		return scheduler.Answer{}, err
	}
	return r.Trial.answer(q)
}

// Explain implements web.Planner.
func (l *loops) Explain(endpoint, query string) (scheduler.Explanation, error) {
	r, err := l.ask(context.Background(), nodeCall{Verb: verbExplain, Endpoint: endpoint, Queries: []string{query}})
	return r.Explained, err
}

// Due implements web.Planner. The times are unknown while no node can answer.
func (l *loops) Due(endpoint string, queries []string) ([]time.Time, error) {
	r, err := l.ask(context.Background(), nodeCall{Verb: verbDue, Endpoint: endpoint, Queries: queries})
	if unavailable(err) != nil || err == nil && len(r.Due) != len(queries) {
		return make([]time.Time, len(queries)), nil
	}
	return r.Due, err
}

// State implements web.Planner. While no node can answer it is what is recorded of the endpoint,
// and Halted says why.
func (l *loops) State(endpoint string) (scheduler.LoopState, error) {
	if l.local(endpoint) {
		return l.Manager.State(endpoint)
	}
	l.mu.Lock()
	s, seen := l.states[endpoint]
	l.mu.Unlock()
	if seen && time.Since(s.at) < stateAge {
		return s.LoopState, nil
	}
	r, err := l.ask(context.Background(), nodeCall{Verb: verbState, Endpoint: endpoint})
	if p := unavailable(err); p != nil {
		r.State, err = l.recorded(endpoint, p.Detail)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.states, endpoint); err == nil {
		l.states[endpoint] = seenState{r.State, time.Now()}
	}
	return r.State, err
}

// recorded returns what the store knows of the state of an endpoint.
func (l *loops) recorded(endpoint, halted string) (s scheduler.LoopState, err error) {
	n, err := l.store.Queries.CountQueries(endpoint)
	if err != nil {
		return s, err
	}
	news, err := l.store.Ledger.Since(endpoint, math.MaxUint64-1) // nothing is newer
	return scheduler.LoopState{Endpoint: endpoint, Queries: n, Debt: news.Last.Owes().Seconds(), Last: news.Last, Health: news.Health,
		States: map[registry.State]int{}, Halted: halted, Away: true}, err
}

// Hint implements web.Hints.
func (l *loops) Hint(endpoint string, h registry.Hint) (plan.Hinted, error) {
	r, err := l.ask(context.Background(), nodeCall{Verb: verbHint, Endpoint: endpoint, Hint: &h})
	return r.Hinted, err
}

// Templates implements web.Merging.
func (l *loops) Templates(endpoint string) ([]cohort.Snapshot, error) {
	r, err := l.ask(context.Background(), nodeCall{Verb: verbTemplates, Endpoint: endpoint})
	return r.Templates, err
}

// NextRound implements web.RoundClock. It is unknown while no node can answer.
func (l *loops) NextRound(p registry.Profile) time.Time {
	r, err := l.ask(context.Background(), nodeCall{Verb: verbRound, Endpoint: p.Endpoint, Profile: &p})
	if err != nil {
		return time.Time{}
	}
	return r.Round
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
