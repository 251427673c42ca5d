package web

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A memory is a small store in memory that implements everything that the API needs.
type memory struct {
	mu        sync.Mutex
	now       time.Time
	queries   map[string]registry.Query
	endpoints map[string]registry.Endpoint
	files     map[string]registry.Endpoint
	edits     map[string]map[string]registry.Edit
	status    map[string]registry.Status
	results   map[string]*diff.Result
	log       []registry.Change
	trimmed   map[string]uint64 // seq up to which a query's changes are gone
	slots     map[string][]scheduler.Slot
	tokenList []registry.Token
	failure   error // what every read of a query's state fails with
	backup    func(io.Writer) (int64, error)
	trial     func(*registry.Query) (scheduler.Answer, error)
	tick      func(context.Context) (scheduler.Slot, error)
	due       map[string]time.Time // when queries run next
	asked     int                  // how often Due was called
}

const epoch = "Zq81"

var (
	_ registry.QueryStore    = (*memory)(nil)
	_ registry.EndpointStore = (*memory)(nil)
	_ Queries                = (*memory)(nil)
	_ History                = (*memory)(nil)
	_ Daemon                 = (*memory)(nil)
	_ TokenStore             = (*memory)(nil)
)

func newMemory(now time.Time) *memory {
	return &memory{now: now, queries: map[string]registry.Query{}, endpoints: map[string]registry.Endpoint{},
		files: map[string]registry.Endpoint{}, edits: map[string]map[string]registry.Edit{},
		status: map[string]registry.Status{}, results: map[string]*diff.Result{}, trimmed: map[string]uint64{},
		slots: map[string][]scheduler.Slot{}, due: map[string]time.Time{}}
}

func (m *memory) PublicQuery(id string) (registry.Query, error) {
	q, err := m.Query(id)
	if err == nil && !q.Public() {
		return registry.Query{}, registry.ErrNotFound
	}
	return q, err
}

func (m *memory) Query(id string) (registry.Query, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q, ok := m.queries[id]
	if !ok {
		return q, registry.ErrNotFound
	}
	q.Holders = slices.Clone(q.Holders)
	return q, nil
}

func (m *memory) EditQueries(n registry.Names, edit func(*registry.Query, []*registry.Query, bool) error) (registry.Query, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q, found := m.queries[n.Query]
	q.ID, q.Holders = n.Query, slices.Clone(q.Holders)
	var others []*registry.Query
	for _, id := range slices.Sorted(maps.Keys(m.queries)) {
		x := m.queries[id]
		if h, holds := x.Holder(n.Caller); holds && id != n.Query && (h.Name == n.Name && n.Name != "" || id == n.Instead) {
			x.Holders = slices.Clone(x.Holders)
			others = append(others, &x)
		}
	}
	if err := edit(&q, others, found); err != nil {
		return registry.Query{}, err
	}
	after := len(m.queries)
	if !found {
		after++
	}
	if err := n.Bounds.Check(len(m.queries), after, registry.Holdings{}, registry.Holdings{}); err != nil {
		return registry.Query{}, err
	}
	for _, x := range others {
		m.keep(*x)
	}
	m.keep(q)
	return q, nil
}

func (m *memory) keep(q registry.Query) {
	if len(q.Holders) == 0 {
		delete(m.queries, q.ID)
		return
	}
	if _, found := m.queries[q.ID]; !found {
		m.status[q.ID] = registry.Status{State: registry.New, Position: registry.Position{Epoch: epoch}}
	}
	m.queries[q.ID] = q
}

func (m *memory) FindName(caller, name string, public bool, most int) (list []registry.Query, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.queries)) {
		q := m.queries[id]
		called := func(h registry.Holder) bool {
			return h.Name == name && name != "" && (caller == "" || caller == h.Caller) && (!public || h.Public)
		}
		if slices.ContainsFunc(q.Holders, called) && (!public || q.Public()) && len(list) < most {
			list = append(list, q)
		}
	}
	return list, nil
}

func (m *memory) LiveHolds() ([]registry.LiveHold, error) { return nil, nil }
func (m *memory) Endpoint(name string) (registry.Endpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.endpoints[name]
	if !ok {
		return e, registry.ErrNotFound
	}
	return e, nil
}

func (m *memory) Endpoints() ([]registry.Endpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []registry.Endpoint{}
	for _, n := range slices.Sorted(maps.Keys(m.endpoints)) {
		out = append(out, m.endpoints[n])
	}
	return out, nil
}

func (m *memory) Configured(name string) (registry.Configured, error) {
	e, err := m.Endpoint(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	return registry.Configured{Endpoint: e, File: m.files[name], Edits: maps.Clone(m.edits[name])}, err
}

func (m *memory) EditEndpoint(name string, edit func(c *registry.Configured, found bool) error) (registry.Endpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, found := m.endpoints[name]
	c := registry.Configured{Endpoint: e, File: m.files[name], Edits: maps.Clone(m.edits[name])}
	if err := edit(&c, found); err != nil {
		return registry.Endpoint{}, err
	}
	if c.Endpoint.URL == "" {
		delete(m.endpoints, name)
		return c.Endpoint, nil
	}
	m.endpoints[name], m.files[name], m.edits[name] = c.Endpoint, c.File, c.Edits
	return c.Endpoint, nil
}

func (m *memory) Digests(string) ([]registry.QueryDigest, error) { return nil, nil }

func (m *memory) Recent(o registry.Offset, _ time.Time, _ func(string, time.Time)) (registry.Offset, error) {
	return o, nil
}

func (m *memory) List(f registry.QueryFilter, cursor string, limit int) ([]registry.ListedQuery, string, error) {
	var out []registry.ListedQuery
	for _, id := range slices.Sorted(maps.Keys(m.queries)) {
		it, _ := m.Item(id)
		q := it.Query
		if id <= cursor || f.Endpoint != "" && q.Endpoint != f.Endpoint || f.State != "" && it.Status.State != f.State ||
			f.Tag != "" && !slices.Contains(q.Tags(), f.Tag) || !strings.Contains(strings.ToLower(q.Text), strings.ToLower(f.Text)) {
			continue
		}
		if len(out) == limit {
			return out, out[limit-1].Query.ID, nil
		}
		out = append(out, it)
	}
	return out, "", nil
}

func (m *memory) Item(id string) (registry.ListedQuery, error) {
	q, err := m.Query(id)
	if err == nil {
		err = m.failure
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return registry.ListedQuery{Query: q, Status: m.status[id]}, err
}

func (m *memory) Stats(id string) (policy.Stats, error) {
	return policy.Stats{Last: 3, Executions: 2, Samples: []policy.Sample{{Slot: 1, Elapsed: time.Second},
		{Slot: 3, Elapsed: time.Second, Changed: true, Jaccard: .5}}}, nil
}

// publish makes r the result of a query, as a slot would.
func (m *memory) publish(id string, r *diff.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st, q := m.status[id], m.queries[id]
	old := m.results[id]
	d := diff.Compare(old, r)
	if d == nil {
		return
	}
	st.State, st.Hash, st.Rows = registry.Live, r.Hash(), r.Len()
	st.CheckedAt, st.ChangedAt = m.now, m.now
	st.Executions++
	st.Median = 500 * time.Millisecond
	if old != nil {
		st.Changes++
	}
	st.Position.Seq++
	m.status[id], m.results[id] = st, r
	m.log = append(m.log, registry.Change{Query: id, Endpoint: q.Endpoint, Epoch: epoch, Prev: st.Position.Seq - 1, Seq: st.Position.Seq,
		Offset: uint64(len(m.log) + 1), Time: m.now, CheckedAt: m.now, Slot: 1, Baseline: old == nil, Delta: d})
}

func (m *memory) After(query string, p registry.Position, limit int) ([]registry.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st, ok := m.status[query]
	switch {
	case !ok:
		return nil, registry.ErrNotFound
	case p.Epoch != epoch:
		return nil, &registry.GapError{Reason: registry.OtherEpoch}
	case p.Seq > st.Position.Seq:
		return nil, &registry.GapError{Reason: registry.Ahead}
	case p.Seq < m.trimmed[query]:
		return nil, &registry.GapError{Reason: registry.TooOld}
	}
	var out []registry.Change
	for _, c := range m.log {
		if c.Query == query && c.Seq > p.Seq && len(out) < limit {
			out = append(out, c)
		}
	}
	return out, nil
}

func (m *memory) All(o registry.Offset, limit int) ([]registry.Change, error) {
	if o != (registry.Offset{}) && o.Epoch != epoch {
		return nil, &registry.GapError{Reason: registry.OtherEpoch}
	}
	if o.Seq > uint64(len(m.log)) {
		return nil, &registry.GapError{Reason: registry.Ahead}
	}
	rest := m.log[o.Seq:]
	return slices.Clone(rest[:min(limit, len(rest))]), nil
}

func (m *memory) Current(query string, withResult bool) (registry.Status, *diff.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return registry.Status{}, nil, m.failure
	}
	st, ok := m.status[query]
	if !ok {
		return st, nil, registry.ErrNotFound
	}
	if !withResult {
		return st, nil, nil
	}
	return st, m.results[query], nil
}

func (m *memory) Latest(query string) (registry.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range slices.Backward(m.log) {
		if c.Query == query {
			return c, nil
		}
	}
	return registry.Change{}, registry.ErrNotFound
}

func (m *memory) Head() (registry.Offset, error) {
	return registry.Offset{Epoch: epoch, Seq: uint64(len(m.log))}, nil
}

func (m *memory) Slots(endpoint string, limit int) ([]scheduler.Slot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slots[endpoint]
	return s[:min(limit, len(s))], nil
}

func (m *memory) Tick(ctx context.Context, endpoint string) (scheduler.Slot, error) {
	if m.tick != nil {
		return m.tick(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := scheduler.Slot{Endpoint: endpoint, Number: uint64(len(m.slots[endpoint]) + 1), Started: m.now, Finished: m.now, Tick: true,
		Budget: 10}
	m.slots[endpoint] = append([]scheduler.Slot{s}, m.slots[endpoint]...)
	return s, nil
}

func (m *memory) Explain(_, query string) (scheduler.Explanation, error) {
	q, err := m.Query(query)
	return scheduler.Explanation{Query: query, Endpoint: q.Endpoint, Policy: "rr", Slot: 4, Eligible: true, Tier: "ranked",
		Code: plan.CodeOrder, Rank: 1, Of: 2,
		Inputs: map[string]float64{"last": 3}, Why: "it is first in line", LastRun: policy.Run{Slot: 3, At: m.now, Elapsed: time.Second,
			Outcome: registry.Changed, Why: "ranked"},
		PassedOver: &scheduler.PassedOver{Slot: 2, Reason: "budget"}}, err
}

func (m *memory) Due(endpoint string, queries []string) ([]time.Time, error) {
	due := make([]time.Time, len(queries))
	for i, id := range queries {
		if q, err := m.Query(id); err == nil && q.Endpoint == endpoint {
			due[i] = m.due[id]
		}
	}
	m.mu.Lock()
	m.asked++
	m.mu.Unlock()
	return due, nil
}

func (m *memory) State(endpoint string) (scheduler.LoopState, error) {
	if _, err := m.Endpoint(endpoint); err != nil {
		return scheduler.LoopState{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	st := scheduler.LoopState{Endpoint: endpoint, Next: m.now.Add(time.Minute),
		Oldest: m.now.Add(-90 * time.Second).Truncate(time.Second), Queries: len(m.queries),
		States: map[registry.State]int{registry.New: len(m.queries)}, Health: registry.Health{State: registry.Healthy}}
	if s := m.slots[endpoint]; len(s) > 0 {
		st.Last, st.Debt = s[0], s[0].Debt
	}
	return st, nil
}

func (m *memory) Trial(_ context.Context, q *registry.Query) (scheduler.Answer, error) {
	if m.trial == nil {
		return scheduler.Answer{}, errors.New("no endpoint behind this")
	}
	return m.trial(q)
}

func (m *memory) Backup(w io.Writer) (int64, error) {
	if m.backup != nil {
		return m.backup(w)
	}
	n, err := io.WriteString(w, "the store")
	return int64(n), err
}

func (m *memory) Tokens() ([]registry.Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.tokenList), nil
}

func (m *memory) Newest(bool) ([]registry.Token, error) { return m.Tokens() }

func (m *memory) PutToken(t registry.Token) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.tokenList, func(x registry.Token) bool { return x.Name == t.Name }) {
		return registry.ErrExists
	}
	m.tokenList = append(m.tokenList, t)
	return nil
}

func (m *memory) DeleteToken(name string, keeps bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	lasts := func(x registry.Token) bool { return x.Lasts() }
	rest := slices.DeleteFunc(slices.Clone(m.tokenList), func(x registry.Token) bool { return x.Name == name })
	switch {
	case len(rest) == len(m.tokenList):
		return registry.ErrNotFound
	case keeps && slices.ContainsFunc(m.tokenList, lasts) && !slices.ContainsFunc(rest, lasts):
		return registry.ErrLastToken
	}
	m.tokenList = rest
	return nil
}

// versions returns the states of a query that are kept.
func (m *memory) versions(query string) (list []registry.Version) {
	for _, c := range m.log {
		if c.Query == query && c.Seq > m.trimmed[query] {
			list = append(list, registry.Version{Position: c.Position(), Time: c.Time, CheckedAt: c.CheckedAt})
		}
	}
	return list
}

func (m *memory) Place(query string, x registry.Moment) (p registry.Place, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.versions(query)
	if len(list) == 0 {
		return p, &registry.Problem{Kind: registry.KindNoResult, Detail: "no result yet"}
	}
	at := -1
	for i, v := range list {
		if v.Seq == x.Seq || !x.Time.IsZero() && !v.Time.After(x.Time) {
			at = i
		}
	}
	switch {
	case x.Seq > list[len(list)-1].Seq:
		return p, &registry.Problem{Kind: registry.KindNotFound, Detail: "there is no such change yet"}
	case x.Epoch != "" && x.Epoch != epoch:
		return p, &registry.GapError{Reason: registry.OtherEpoch}
	case at < 0 && m.trimmed[query] == 0:
		return p, &registry.Problem{Kind: registry.KindNoResult, Detail: "the first result is of later"}
	case at < 0:
		return p, &registry.GapError{Reason: registry.TooOld, Detail: "retention.changes says how much is kept"}
	}
	p.First, p.Last, p.Version = list[0], list[len(list)-1], list[at]
	if at > 0 {
		p.Prev = list[at-1]
	}
	if at+1 < len(list) {
		p.Next = list[at+1]
	}
	return p, nil
}

func (m *memory) StateAt(ctx context.Context, query string, at registry.Position) (r *diff.Result, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.log {
		if c.Query == query && c.Seq <= at.Seq && err == nil {
			r, err = c.Delta.Apply(r)
		}
	}
	return r, errors.Join(err, ctx.Err())
}

func (m *memory) Versions(query string, after uint64, limit int) (list []registry.Version, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.versions(query) {
		if v.Seq > after && len(list) < limit {
			list = append(list, v)
		}
	}
	return list, nil
}

func (m *memory) Origins(_ context.Context, _ string, _ registry.Position, rows diff.Rows) ([]registry.Version, registry.Version, error) {
	return make([]registry.Version, len(rows)), registry.Version{}, nil
}
