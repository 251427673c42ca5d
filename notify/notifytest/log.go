// Package notifytest provides a Log in memory for tests, and the conformance suite that
// every implementation of notify.Log passes.
package notifytest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A Log keeps queries, results and changes in memory. It is a notify.Log and a
// notify.Registrar.
type Log struct {
	mu      sync.Mutex
	epoch   string
	queries map[string]*entry
	all     []registry.Change // in offset order, trimmed at the front
	offset  uint64
	edits   []registry.DataEdit
}

// Explain gives the changes from now on the edits of the data that may have caused them.
func (l *Log) Explain(edits ...registry.DataEdit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.edits = edits
}

type entry struct {
	query   registry.Query
	status  registry.Status
	result  *diff.Result
	changes []registry.Change
	holds   int
}

var (
	_ notify.Log       = (*Log)(nil)
	_ notify.Registrar = (*Log)(nil)
)

// NewLog returns an empty log with this epoch of the store.
func NewLog(epoch string) *Log {
	return &Log{epoch: epoch, queries: make(map[string]*entry)}
}

// Add registers a query without a result under a name and returns its id.
func (l *Log) Add(name string, form diff.Form, ordered bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := registry.Identity("test", name, ordered, nil, nil)
	if l.queries[id] == nil {
		l.queries[id] = &entry{
			query: registry.Query{ID: id, Endpoint: "test", Text: name, Form: form, Ordered: ordered,
				Holders: []registry.Holder{{Caller: registry.Anonymous, Name: name}}},
			status: registry.Status{State: registry.New, Position: registry.Position{Epoch: "e1-" + name}},
		}
	}
	return id
}

// Publish says whether a query is public.
func (l *Log) Publish(id string, public bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := &l.queries[id].query
	q.Holders = slices.Clone(q.Holders)
	q.Holders[0].Public, q.Holders[0].MayPublish = public, public
}

// Record commits a complete execution whose answer was true at the time at. It reports
// whether the result changed.
func (l *Log) Record(id string, res *diff.Result, at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record(id, res, at)
}

// RecordAll is Record for results of several queries in one commit.
func (l *Log) RecordAll(ids []string, results []*diff.Result, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, id := range ids {
		l.record(id, results[i], at)
	}
}

func (l *Log) record(id string, res *diff.Result, at time.Time) bool {
	e := l.queries[id]
	e.status.State, e.status.Error, e.status.CheckedAt, e.status.Outcome = registry.Live, "", at, registry.Unchanged
	e.status.Executions++
	d := diff.Compare(e.result, res)
	if d == nil {
		return false
	}
	p := &e.status.Position
	l.offset++
	c := registry.Change{Query: id, Endpoint: "test", Epoch: p.Epoch, Prev: p.Seq, Seq: p.Seq + 1, Offset: l.offset,
		Time: at, CheckedAt: at, Slot: e.status.Executions, Baseline: d.Baseline, Delta: d, Edits: l.edits}
	p.Seq++
	e.result, e.status.Hash, e.status.Rows, e.status.ChangedAt = res, res.Hash(), res.Len(), at
	e.status.Outcome = registry.Changed
	if !d.Baseline {
		e.status.Changes++
	}
	e.changes = append(e.changes, c)
	l.all = append(l.all, c)
	return true
}

// Fail records a failed execution.
func (l *Log) Fail(id, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.queries[id]
	e.status.Outcome, e.status.Error = registry.Failed, reason
	switch e.status.State {
	case registry.Live:
		e.status.State = registry.Stale
	case registry.New:
		e.status.State = registry.Failing
	}
}

// Idle records that no holder wants executions any more.
func (l *Log) Idle(id, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.queries[id]
	e.status.State, e.status.Error = registry.Idle, reason
}

// Trim drops a query's oldest changes until keep are left.
func (l *Log) Trim(id string, keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.queries[id]
	if over := len(e.changes) - keep; over > 0 {
		e.changes = e.changes[over:]
	}
}

// TrimAll drops the oldest changes of all queries until keep are left.
func (l *Log) TrimAll(keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over := len(l.all) - keep; over > 0 {
		l.all = l.all[over:]
	}
}

// Renumber starts a new epoch for a query, like a store that lost its history. Results
// stay, and positions of the old epoch become invalid.
func (l *Log) Renumber(id, epoch string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.queries[id]
	e.changes = nil
	e.status.Position.Epoch = epoch
}

// RenumberAll starts a new epoch for the store and all queries.
func (l *Log) RenumberAll(epoch string) {
	l.mu.Lock()
	l.epoch, l.all = epoch, nil
	var ids []string
	for id := range l.queries {
		ids = append(ids, id)
	}
	l.mu.Unlock()
	for _, id := range ids {
		l.Renumber(id, epoch)
	}
}

// Remove deletes a query.
func (l *Log) Remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.queries, id)
}

// Holds returns the number of live subscriptions that hold a query.
func (l *Log) Holds(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queries[id].holds
}

// After implements notify.Log.
func (l *Log) After(id string, p registry.Position, limit int) ([]registry.Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.queries[id]
	if e == nil {
		return nil, fmt.Errorf("query %s: %w", id, registry.ErrNotFound)
	}
	now := e.status.Position
	oldest := now.Seq // the oldest position the log continues from
	if len(e.changes) > 0 {
		oldest = e.changes[0].Prev
	}
	switch {
	case p.Epoch != now.Epoch:
		return nil, &registry.GapError{Reason: registry.OtherEpoch}
	case p.Seq > now.Seq:
		return nil, &registry.GapError{Reason: registry.Ahead}
	case p.Seq < oldest:
		return nil, &registry.GapError{Reason: registry.TooOld}
	}
	return page(e.changes, int(p.Seq-oldest), limit), nil
}

func page(changes []registry.Change, from, limit int) []registry.Change {
	to := min(from+limit, len(changes))
	return append([]registry.Change(nil), changes[from:to]...)
}

// All implements notify.Log.
func (l *Log) All(o registry.Offset, limit int) ([]registry.Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.offset - uint64(len(l.all))
	switch {
	case o == registry.Offset{}:
		o.Seq = oldest
	case o.Epoch != l.epoch:
		return nil, &registry.GapError{Reason: registry.OtherEpoch}
	case o.Seq > l.offset:
		return nil, &registry.GapError{Reason: registry.Ahead}
	case o.Seq < oldest:
		return nil, &registry.GapError{Reason: registry.TooOld}
	}
	return page(l.all, int(o.Seq-oldest), limit), nil
}

// Head returns the offset of the newest change of all queries.
func (l *Log) Head() (registry.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return registry.Offset{Epoch: l.epoch, Seq: l.offset}, nil
}

// Current implements notify.Log.
func (l *Log) Current(id string, withResult bool) (registry.Status, *diff.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.queries[id]
	if e == nil {
		return registry.Status{}, nil, fmt.Errorf("query %s: %w", id, registry.ErrNotFound)
	}
	if !withResult {
		return e.status, nil, nil
	}
	return e.status, e.result, nil
}

// Resolve implements notify.Registrar.
func (l *Log) Resolve(_ registry.Caller, ref string) (registry.Query, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.queries[ref]; e != nil {
		return e.copy(), nil
	}
	var named []string
	for id, e := range l.queries {
		if ref == e.query.NameFor(registry.Anonymous) {
			named = append(named, id)
		}
	}
	switch {
	case len(named) == 1:
		return l.queries[named[0]].copy(), nil
	case len(named) > 1:
		return registry.Query{}, &registry.Problem{Kind: registry.KindAmbiguousName, Detail: "use an id", IDs: named}
	}
	return registry.Query{}, fmt.Errorf("query %q: %w", ref, registry.ErrNotFound)
}

// Follow implements notify.Registrar. The text of the query is its name. A text that does
// not begin with SELECT is refused.
func (l *Log) Follow(_ context.Context, _ registry.Caller, endpoint, sparql string) (registry.Query, func(), error) {
	if endpoint != "test" || len(sparql) < 6 || sparql[:6] != "SELECT" {
		return registry.Query{}, nil, fmt.Errorf("%w: not a SELECT query on the endpoint test", notify.ErrRefused)
	}
	id := l.Add(sparql, diff.Select, false)
	l.hold(id, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.queries[id]
	if e == nil { // the query was removed meanwhile
		return registry.Query{}, nil, fmt.Errorf("query %s: %w", id, registry.ErrNotFound)
	}
	return e.copy(), func() { l.hold(id, -1) }, nil
}

// copy returns a copy of the query that the caller may modify.
func (e *entry) copy() registry.Query {
	q := e.query
	q.Holders = slices.Clone(q.Holders)
	return q
}

func (l *Log) hold(id string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.queries[id]; e != nil {
		e.holds += n
	}
}
