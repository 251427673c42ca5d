package registry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// A Registry registers queries, configures endpoints and keeps profiles. It does
// not call the scheduler: both work on the store.
type Registry struct {
	*EndpointRegistry
	*ProfileRegistry

	store       QueryStore
	admissions  *admissions
	live        *liveHolds
	queryEdited func(query string)
	queryHidden func(query string)
	known       func(Endpoint, *Query) *Learnt
	now         func() time.Time
	revision    atomic.Uint64 // number of edits of queries
}

// Config holds the dependencies and settings of a Registry.
type Config struct {
	Queries         QueryStore
	Endpoints       EndpointStore
	Limits          Limits
	DefaultEndpoint string               // for requests that name none; "" means the only endpoint
	Check           func(Endpoint) error // validates schedule and policy of an endpoint
	// Known returns what is known about the changes of a new query of an endpoint, nil if nothing.
	Known func(Endpoint, *Query) *Learnt

	// Profiles stores profiles; without it, no profile may be asked for. SlotInterval
	// returns the usual distance of an endpoint's slots, 0 if unknown.
	Profiles     ProfileStore
	SlotInterval func(Endpoint) time.Duration

	// QueryEdited and EndpointEdited are called after an edit is committed, so
	// that followers notice a release or a pause and loops notice new settings.
	// QueryEdited is also called for profiles. QueryHidden is called when a query
	// is no longer public, so that followers without a token stop.
	QueryEdited    func(id string)
	QueryHidden    func(id string)
	EndpointEdited func(name string)

	// Node is the name of this node in a cluster, "" without one, and Lives whether another
	// node sends heartbeats. The live holds of a node that is gone begin their grace.
	Node  string
	Lives func(node string) bool

	Now    func() time.Time
	Logger *slog.Logger
}

// Open returns a Registry. The grace period of live holds that a previous
// process left behind starts now.
func Open(c Config) (*Registry, error) {
	c.fill()
	r := &Registry{store: c.Queries, queryEdited: c.QueryEdited, queryHidden: c.QueryHidden, known: c.Known, now: c.Now,
		admissions: &admissions{limits: c.Limits, now: c.Now,
			rates: NewRates(rate.Limit(c.Limits.TokenRate), max(1, int(burst*c.Limits.TokenRate)))}}
	r.EndpointRegistry = &EndpointRegistry{store: c.Endpoints, defaultEndpoint: c.DefaultEndpoint, check: c.Check,
		edited: c.EndpointEdited, now: c.Now}
	r.ProfileRegistry = &ProfileRegistry{store: c.Profiles, endpoints: r.EndpointRegistry, queries: r, admissions: r.admissions,
		slotInterval: c.SlotInterval, edited: c.QueryEdited, now: c.Now}
	r.live = &liveHolds{store: c.Queries, edit: r.edit, now: c.Now, log: c.Logger, node: c.Node, lives: c.Lives,
		connections: map[LiveHold]int{}}
	return r, r.live.restore()
}

// fill sets what is nil to what does nothing.
func (c *Config) fill() {
	nothing := func(string) {}
	for _, f := range []*func(string){&c.QueryEdited, &c.QueryHidden, &c.EndpointEdited} {
		if *f == nil {
			*f = nothing
		}
	}
	if c.SlotInterval == nil {
		c.SlotInterval = func(Endpoint) time.Duration { return 0 }
	}
	if c.Lives == nil {
		c.Lives = func(string) bool { return true }
	}
	if c.Known == nil {
		c.Known = func(Endpoint, *Query) *Learnt { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Register stores a caller's registration. created is false if the query exists
// already; then only the caller's settings are stored.
func (r *Registry) Register(c Caller, reg Registration) (q Query, created bool, err error) {
	return r.register(c, reg, takeover{caller: c.Name, name: reg.Name, replace: reg.Replace}, false)
}

// Exchange registers a query and releases the query old of the same caller, in
// one transaction. If both are the same query, it edits the registration.
func (r *Registry) Exchange(c Caller, old string, reg Registration) (Query, error) {
	q, _, err := r.register(c, reg, takeover{caller: c.Name, name: reg.Name, instead: old}, false)
	return q, err
}

func (r *Registry) register(c Caller, reg Registration, own takeover, live bool) (Query, bool, error) {
	if !c.MayRegister() {
		return Query{}, false, forbidden("registering needs a token with the role app or admin")
	}
	if err := r.admissions.limitRate(c); err != nil {
		return Query{}, false, err
	}
	fresh, err := r.analyse(reg)
	if err != nil {
		return Query{}, false, err
	}
	holder := reg.holder(c.Name, r.now().UTC())
	if holder.Live = live; live {
		holder.Node = r.live.node
	}
	may := false
	if reg.Public {
		if may, err = r.mayPublish(c, fresh.Endpoint); err != nil {
			return Query{}, false, err
		}
	}
	created := false
	names := own.names(fresh.ID)
	names.Bounds = r.admissions.bounds(c, fresh.Endpoint)
	q, err := r.editQueries(names, func(q *Query, others []*Query, found bool) error {
		if err := own.apply(q, others); err != nil {
			return err
		}
		if created = !found; created {
			*q = fresh
			q.CreatedAt = r.now().UTC()
		}
		return publish(q, addHolder(q, holder), may)
	})
	return q, created && err == nil, err
}

// addHolder adds h to the holders. It replaces an earlier registration of the
// same caller except for its pause. An explicit registration never becomes a
// live one.
func addHolder(q *Query, h Holder) *Holder {
	i, found := slices.BinarySearchFunc(q.Holders, h.Caller, func(x Holder, n string) int { return cmp.Compare(x.Caller, n) })
	if !found {
		q.Holders = slices.Insert(q.Holders, i, h)
		return &q.Holders[i]
	}
	old := q.Holders[i]
	if h.Live {
		old.ReleaseAt = nil
		if old.Live {
			old.Node = h.Node
		}
		q.Holders[i] = old
		return &q.Holders[i]
	}
	h.Since, h.Pause, h.MayPublish = old.Since, old.Pause, old.MayPublish
	q.Holders[i] = h
	return &q.Holders[i]
}

// Query returns one query.
func (r *Registry) Query(id string) (Query, error) {
	q, err := r.store.Query(id)
	if errors.Is(err, ErrNotFound) {
		return q, notFound("no query has the id %s", id)
	}
	return q, err
}

// Patch edits the caller's registration.
func (r *Registry) Patch(c Caller, id string, p Patch) (Query, error) {
	if err := p.check(); err != nil {
		return Query{}, err
	}
	if err := checkUntil(p.Until, r.now()); err != nil {
		return Query{}, err
	}
	may, err := r.mayPublishQuery(c, id, p)
	if err != nil {
		return Query{}, err
	}
	n := Names{Query: id}
	if p.Name != nil {
		n.Caller, n.Name = c.Name, *p.Name
	}
	return r.editNamed(n, func(q *Query, others []*Query) error {
		i := slices.IndexFunc(q.Holders, func(h Holder) bool { return h.Caller == c.Name })
		if i < 0 {
			return forbidden("%s does not hold this query: register it first", c.Name)
		}
		if p.Name != nil {
			if err := (takeover{caller: c.Name, name: *p.Name}).apply(q, others); err != nil {
				return err
			}
		}
		p.apply(&q.Holders[i])
		if p.Public != nil {
			if err := publish(q, &q.Holders[i], may); err != nil {
				return err
			}
		}
		return checkWindow(q.Holders[i].From, q.Holders[i].Until)
	})
}

// Release ends the caller's registration or, with force, all registrations. A
// query without holders is deleted.
func (r *Registry) Release(c Caller, id string, force bool) error {
	if force && !c.Role.Includes(RoleAdmin) {
		return forbidden("only an admin may release what others hold")
	}
	_, err := r.edit(id, func(q *Query) error {
		if force {
			q.Holders = nil
			return nil
		}
		if !q.removeHolder(c.Name) {
			return forbidden("%s does not hold this query", c.Name)
		}
		return nil
	})
	return err
}

// Refresh requests an execution in the next slot, ahead of ranked queries.
func (r *Registry) Refresh(c Caller, id string) (Query, error) {
	return r.editAs(c, id, func(q *Query) error {
		q.Refreshes++
		return nil
	})
}

// editAs edits a query on behalf of one of its holders or an admin.
func (r *Registry) editAs(c Caller, id string, do func(*Query) error) (Query, error) {
	return r.edit(id, func(q *Query) error {
		if _, holds := q.Holder(c.Name); !holds && !c.Role.Includes(RoleAdmin) {
			return forbidden("%s does not hold this query", c.Name)
		}
		return do(q)
	})
}

func (r *Registry) edit(id string, edit func(*Query) error) (Query, error) {
	return r.editNamed(Names{Query: id}, func(q *Query, _ []*Query) error { return edit(q) })
}

func (r *Registry) editNamed(n Names, edit func(*Query, []*Query) error) (Query, error) {
	q, err := r.editQueries(n, func(q *Query, others []*Query, found bool) error {
		if !found {
			return notFound("no query has the id %s", n.Query)
		}
		return edit(q, others)
	})
	if err == nil {
		r.queryEdited(n.Query)
	}
	return q, err
}

// editQueries calls the store's EditQueries and then reports queries that are
// no longer public and other queries that lost a holder.
func (r *Registry) editQueries(n Names, edit func(q *Query, others []*Query, found bool) error) (Query, error) {
	var hidden, left []string
	q, err := r.store.EditQueries(n, func(q *Query, others []*Query, found bool) error {
		hidden, left = nil, nil
		all := append([]*Query{q}, others...)
		public, holders := make([]bool, len(all)), make([]int, len(all))
		for i, x := range all {
			public[i], holders[i] = x.Public(), len(x.Holders)
		}
		if err := edit(q, others, found); err != nil {
			return err
		}
		for i, x := range all {
			x.endConsent()
			if public[i] && len(x.Holders) > 0 && !x.Public() {
				hidden = append(hidden, x.ID)
			}
			if i > 0 && len(x.Holders) != holders[i] {
				left = append(left, x.ID)
			}
		}
		return nil
	})
	r.revision.Add(1)
	if err != nil {
		return q, err
	}
	for _, id := range hidden {
		r.queryHidden(id)
	}
	for _, id := range left {
		r.queryEdited(id)
	}
	return q, nil
}

// Edited takes note of edits that another process has made in the store, as if they were its
// own: of queries and profiles, of queries that are no longer public, and of endpoints.
func (r *Registry) Edited(queries, hidden, endpoints []string) {
	r.revision.Add(1)
	for _, id := range hidden {
		r.queryHidden(id)
	}
	for _, id := range queries {
		r.queryEdited(id)
	}
	for _, name := range endpoints {
		r.EndpointRegistry.edited(name)
	}
}

// Revision grows with every edit of a query or an endpoint. While it is
// unchanged, so is everything that depends on their settings.
func (r *Registry) Revision() uint64 { return r.revision.Load() + r.EndpointRegistry.revision.Load() }

// Follow registers a query for a live subscription. The returned function ends
// this connection's hold. A day after the last connection ended, the
// registration is released, unless the caller also registered the query
// explicitly.
func (r *Registry) Follow(ctx context.Context, c Caller, endpoint, text string) (Query, func(), error) {
	return r.FollowGraphs(ctx, c, Registration{Endpoint: endpoint, Text: text})
}

// FollowGraphs is Follow for a registration with more than an endpoint and a
// text, such as graphs.
func (r *Registry) FollowGraphs(_ context.Context, c Caller, reg Registration) (Query, func(), error) {
	q, _, err := r.register(c, reg, takeover{caller: c.Name}, true)
	if err != nil {
		return Query{}, nil, err
	}
	return q, r.live.connect(LiveHold{Query: q.ID, Caller: c.Name, Node: r.live.node}), nil
}

// Sweep releases the live registrations whose grace period has ended.
func (r *Registry) Sweep() error { return r.live.sweep() }

// Pause stops executions until Resume. A holder's pause is its own: the query
// still runs while another holder wants it, and the pause ends with the
// registration. An admin's pause applies to all holders and lasts until an
// admin resumes the query.
func (r *Registry) Pause(c Caller, id string) (Query, error) {
	at := r.now().UTC()
	return r.editAs(c, id, func(q *Query) error {
		p := q.pauseOf(c)
		if *p == nil {
			*p = &Pause{By: c.Name, At: at, All: p == &q.Pause}
		}
		return nil
	})
}

// Resume ends a pause: a holder's own, or for an admin the one that applies to
// all. If there is none, an admin ends the pauses of all holders.
func (r *Registry) Resume(c Caller, id string) (Query, error) {
	return r.editAs(c, id, func(q *Query) error {
		switch {
		case q.Pause != nil && !c.Role.Includes(RoleAdmin):
			return &Problem{Kind: KindConflict,
				Detail: "the admin " + q.Pause.By + " paused the query for all holders: an admin has to resume it"}
		case q.Pause != nil:
			q.Pause = nil
		case c.Role.Includes(RoleAdmin):
			for i := range q.Holders {
				q.Holders[i].Pause = nil
			}
		default:
			*q.pauseOf(c) = nil
		}
		return nil
	})
}

// Resolve finds a query by its id, by the caller's own name for it, or by the
// name that other callers gave to this query only. A caller without the role
// read finds only public queries. A name that others gave to several queries is
// a Problem of type ambiguous-name with their ids.
func (r *Registry) Resolve(c Caller, ref string) (Query, error) {
	find := func(holder string, most int) ([]Query, error) {
		return r.store.FindName(holder, ref, !c.MayRead(nil), most)
	}
	byID := r.store.Query
	if !c.MayRead(nil) {
		byID = r.store.PublicQuery
	}
	return resolve(c, "query", ref, byID, find, func(q *Query) string { return q.ID })
}

// PublicQuery returns a query by its id. It does not find private ones, and takes as long for them.
func (r *Registry) PublicQuery(id string) (Query, error) { return r.store.PublicQuery(id) }

// mayPublishQuery is mayPublish for an edit of a registration.
func (r *Registry) mayPublishQuery(c Caller, id string, p Patch) (bool, error) {
	if p.Public == nil || !*p.Public {
		return false, nil
	}
	q, err := r.Query(id)
	if err != nil {
		return false, err
	}
	return r.mayPublish(c, q.Endpoint)
}

// Analyse checks a registration and returns the query that it would create,
// with its warnings. It stores nothing. Errors are *Problem.
func (r *Registry) Analyse(reg Registration) (Query, error) {
	q, err := r.analyse(reg)
	if err == nil {
		err = checkName(reg.Name)
	}
	return q, err
}

// analyse is Analyse without the check of the name, because a stored name stays
// valid.
func (r *Registry) analyse(reg Registration) (Query, error) {
	e, err := r.Find(reg.Endpoint)
	if err != nil {
		return Query{}, err
	}
	q, err := reg.analyse(e, r.now())
	if err == nil {
		q.Learnt = r.known(e, &q)
	}
	return q, err
}
