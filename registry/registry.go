package registry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// liveGrace is how long a registration made by a live subscription lasts after
// its last connection.
const liveGrace = 24 * time.Hour

// A Registry registers queries and configures endpoints. It does not call the
// scheduler: both work on the store.
type Registry struct {
	store           Store
	profiles        ProfileStore                 // nil: no profiles
	slotInterval    func(Endpoint) time.Duration // distance between slots; 0: unknown
	limits          Limits
	defaultEndpoint string               // for requests that name none
	check           func(Endpoint) error // validates slot, policy and budget together
	queryEdited     func(query string)
	queryHidden     func(query string)
	endpointEdited  func(endpoint string)
	now             func() time.Time
	log             *slog.Logger

	revision atomic.Uint64 // see Revision

	admissions   admissions
	rateLimiters callerLimiters

	mu              sync.Mutex
	liveConnections map[LiveHold]int             // connections of each hold whose ReleaseAt is unset
	fileSources     map[string]map[string]string // what sets each setting in the configuration, by endpoint and setting
	ended           []LiveHold                   // holds without a connection whose ReleaseAt could not be stored yet
}

// Config holds the dependencies and settings of a Registry.
type Config struct {
	Store           Store
	Limits          Limits
	DefaultEndpoint string               // for requests that name none; "" means the only endpoint
	Check           func(Endpoint) error // validates schedule and policy of an endpoint

	// Profiles stores profiles; nil means that there are none. SlotInterval
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

	Now    func() time.Time
	Logger *slog.Logger
}

// Open returns a Registry. The grace period of live holds that a previous
// process left behind starts now.
func Open(c Config) (*Registry, error) {
	r := &Registry{store: c.Store, profiles: c.Profiles, slotInterval: c.SlotInterval, limits: c.Limits, defaultEndpoint: c.DefaultEndpoint, check: c.Check, queryEdited: c.QueryEdited, queryHidden: c.QueryHidden, endpointEdited: c.EndpointEdited, now: c.Now, log: c.Logger, liveConnections: map[LiveHold]int{}}
	if r.now == nil {
		r.now = time.Now
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.queryEdited == nil {
		r.queryEdited = func(string) {}
	}
	if r.queryHidden == nil {
		r.queryHidden = func(string) {}
	}
	if r.endpointEdited == nil {
		r.endpointEdited = func(string) {}
	}
	holds, err := c.Store.LiveHolds()
	if err != nil {
		return nil, err
	}
	for _, h := range holds {
		if h.ReleaseAt == nil {
			r.ended = append(r.ended, LiveHold{Query: h.Query, Caller: h.Caller})
		}
	}
	if err := r.beginGrace(); err != nil && !errors.Is(err, ErrReadOnly) {
		return nil, err
	}
	return r, nil
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
	if err := r.limitRate(c); err != nil {
		return Query{}, false, err
	}
	fresh, err := r.analyse(reg)
	if err != nil {
		return Query{}, false, err
	}
	holder := reg.holder(c.Name, r.now().UTC())
	holder.Live = live
	done, err := r.admit(own, c, &fresh)
	if err != nil {
		return Query{}, false, err
	}
	defer done()
	may := false
	if reg.Public {
		if may, err = r.mayPublish(c, fresh.Endpoint); err != nil {
			return Query{}, false, err
		}
	}
	created := false
	q, err := r.editQueries(own.names(fresh.ID), func(q *Query, others []*Query, found bool) error {
		if err := own.apply(q, others); err != nil {
			return err
		}
		if created = !found; created {
			*q = fresh
			q.CreatedAt = r.now().UTC()
		}
		return publish(q, addHolder(q, holder), may)
	})
	return q, created, err
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

// Revision grows with every edit of a query or an endpoint. While it is
// unchanged, so is everything that depends on their settings.
func (r *Registry) Revision() uint64 { return r.revision.Load() }

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
	key := LiveHold{Query: q.ID, Caller: c.Name}
	r.mu.Lock()
	r.liveConnections[key]++
	r.mu.Unlock()
	return q, sync.OnceFunc(func() { r.unfollow(key) }), nil
}

func (r *Registry) unfollow(key LiveHold) {
	r.mu.Lock()
	r.liveConnections[key]--
	last := r.liveConnections[key] == 0
	if last {
		delete(r.liveConnections, key)
		r.ended = append(r.ended, key)
	}
	r.mu.Unlock()
	if !last {
		return
	}
	if err := r.beginGrace(); err != nil && !errors.Is(err, ErrReadOnly) {
		r.log.Error("storing the end of a live subscription failed", "query", key.Query, "error", err)
	}
}

// beginGrace stores the release time of live holds whose last connection ended.
// What cannot be stored now is retried by the next call.
func (r *Registry) beginGrace() error {
	r.mu.Lock()
	ended := r.ended
	r.ended = nil
	r.mu.Unlock()
	for i, h := range ended {
		if r.connected(h) {
			continue
		}
		if err := r.setRelease(h.Query, h.Caller, r.now().Add(liveGrace)); err != nil {
			r.mu.Lock()
			r.ended = append(r.ended, ended[i:]...)
			r.mu.Unlock()
			return err
		}
	}
	return nil
}

func (r *Registry) setRelease(id, caller string, at time.Time) error {
	_, err := r.edit(id, func(q *Query) error {
		for i := range q.Holders {
			if h := &q.Holders[i]; h.Caller == caller && h.Live {
				at := at.UTC()
				h.ReleaseAt = &at
			}
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Sweep releases the live registrations whose grace period has ended.
func (r *Registry) Sweep() error {
	if err := r.beginGrace(); err != nil {
		return err
	}
	holds, err := r.store.LiveHolds()
	if err != nil {
		return err
	}
	now := r.now()
	for _, h := range holds {
		if h.ReleaseAt == nil || now.Before(*h.ReleaseAt) || r.connected(h) {
			continue
		}
		_, err := r.edit(h.Query, func(q *Query) error {
			q.Holders = slices.DeleteFunc(q.Holders, func(x Holder) bool {
				return x.Caller == h.Caller && x.Live && x.ReleaseAt != nil && !now.Before(*x.ReleaseAt)
			})
			return nil
		})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

func (r *Registry) connected(h LiveHold) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.liveConnections[LiveHold{Query: h.Query, Caller: h.Caller}] > 0
}
