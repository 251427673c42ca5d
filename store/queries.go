package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/catalog"
	"go.etcd.io/bbolt"
)

// A QueryStore stores registrations. It implements registry.QueryStore.
type QueryStore struct{ *boltFile }

func (d *QueryStore) Query(id string) (registry.Query, error) {
	s, err := newest(d.boltFile, func(tx *bbolt.Tx) (storedQuery, error) { return findQuery(tx, id) })
	return s.Query, err
}

// PublicQuery implements registry.QueryStore. It takes as long for a private query as for one that does not exist.
func (d *QueryStore) PublicQuery(id string) (registry.Query, error) {
	find := func() (registry.Query, error) {
		s, err := fetch(d.boltFile, func(tx *bbolt.Tx) (storedQuery, error) { return findQuery(tx, id) })
		if err == nil && !s.Public() {
			return registry.Query{}, fmt.Errorf("query %s: %w", id, registry.ErrNotFound)
		}
		return s.Query, err
	}
	q, err := find()
	if !errors.Is(err, registry.ErrNotFound) {
		return q, err
	}
	if err := d.confirmStranger(); err != nil {
		return q, err
	}
	return find()
}

func (d *QueryStore) FindName(caller, name string, public bool, most int) (list []registry.Query, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		return eachNamed(tx, caller, name, public, func(s *storedQuery) bool {
			list = append(list, s.Query)
			return len(list) < most
		})
	})
	return list, err
}

// CountQueries counts the queries of all endpoints.
func (d *QueryStore) CountQueries() (int, error) {
	return fetch(d.boltFile, func(tx *bbolt.Tx) (int, error) { return int(loadCounters(tx).queries), nil })
}

// Holdings returns what a caller holds. What belonged to a deleted endpoint may be counted for a while.
func (d *QueryStore) Holdings(caller string) (registry.Holdings, error) {
	return fetch(d.boltFile, func(tx *bbolt.Tx) (registry.Holdings, error) { return loadHoldings(tx, caller), nil })
}

// LiveHolds implements registry.QueryStore. The order is by id.
func (d *QueryStore) LiveHolds() (holds []registry.LiveHold, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		return each(tx.Bucket(bLive), nil, func(_ *bbolt.Cursor, k, v []byte) (bool, error) {
			id, caller, _ := bytes.Cut(k, []byte{0})
			var h storedHold
			if err := parseJSON(v, &h, "a live hold of query "+string(id)); err != nil {
				return false, err
			}
			if owned(tx, h.Space) {
				holds = append(holds, registry.LiveHold{Query: string(id), Caller: string(caller), ReleaseAt: h.ReleaseAt, Node: h.Node})
			}
			return true, nil
		})
	})
	return holds, err
}

// EditQueries implements registry.QueryStore. An edit without effect assigns no revision.
func (d *QueryStore) EditQueries(n registry.Names, edit func(q *registry.Query, others []*registry.Query,
	found bool) error) (registry.Query, error) {
	e := &queryEdit{Names: n, edit: edit}
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) {
		if err := e.prepare(tx, d.disk.room); err != nil {
			return e, err
		}
		return e, e.within(newTotals(tx))
	})
	if err != nil {
		return registry.Query{}, err
	}
	return e.Queries[0].now, nil
}

// EditQuery is EditQueries for one query.
func (d *QueryStore) EditQuery(id string, edit func(q *registry.Query, found bool) error) (registry.Query, error) {
	return d.EditQueries(registry.Names{Query: id}, func(q *registry.Query, _ []*registry.Query, found bool) error { return edit(q, found) })
}

// A queryEdit is one call of EditQueries. It is a command.
type queryEdit struct {
	Names   registry.Names
	Queries []queryDiff // those that Names concerns, in its order
	edit    func(q *registry.Query, others []*registry.Query, found bool) error
}

// A queryDiff is a query before and after an edit.
type queryDiff struct {
	old   storedQuery
	now   registry.Query
	found bool
	ID    string
	Seen  uint64          // the revision that was edited, 0 if there was none
	Body  json.RawMessage `json:",omitempty"` // now, as stored; nil if the query is removed, or remains the same
	Same  bool            `json:",omitempty"` // the edit had no effect
}

// prepare reads the queries, edits them in memory, and checks that they can be stored. It
// returns errUnchanged if the edit has no effect.
func (e *queryEdit) prepare(tx *bbolt.Tx, room func() error) error {
	ids, err := namedBy(tx, e.Names)
	if err != nil {
		return err
	}
	e.Queries = make([]queryDiff, len(ids))
	others := make([]*registry.Query, 0, len(ids))
	for i, id := range ids {
		x := &e.Queries[i]
		if *x, err = beginEdit(tx, id); err != nil {
			return err
		}
		if i > 0 {
			others = append(others, &x.now)
		}
	}
	if err := e.edit(&e.Queries[0].now, others, e.Queries[0].found); err != nil {
		return err
	}
	same := true
	for i, id := range ids {
		if err := e.Queries[i].check(id, room); err != nil {
			return err
		}
		same = same && e.Queries[i].Same
	}
	if same {
		return errUnchanged
	}
	return nil
}

// within returns a problem if the edit exceeds its bounds after what the totals say, or its endpoint was removed.
func (e *queryEdit) within(t *totals) error {
	b := &e.Names.Bounds
	if err := needsEndpoint(t.tx, b.Endpoint); err != nil {
		return err
	}
	if *b == (registry.Bounds{Endpoint: b.Endpoint, Caller: b.Caller}) {
		return nil
	}
	before, held := int(t.counters.queries), t.held(b.Caller)
	queries, holds := before, held
	count := func(q *registry.Query, sign int) {
		queries += sign
		if _, ok := q.Holder(b.Caller); ok {
			holds.Queries += sign
			holds.Bytes += int64(sign) * q.Size()
		}
	}
	for i := range e.Queries {
		x := &e.Queries[i]
		if x.Same {
			continue
		}
		if x.found {
			count(&x.old.Query, -1)
		}
		if len(x.now.Holders) > 0 {
			count(&x.now, 1)
		}
	}
	return b.Check(before, queries, held, holds)
}

func (e *queryEdit) kind() byte { return kindQueries }

// Resume compares all queries that the names concern with those that were seen.
func (e *queryEdit) Resume(tx *bbolt.Tx) error {
	ids, err := namedBy(tx, e.Names)
	if err != nil {
		return err
	}
	if len(ids) != len(e.Queries) {
		return errMoved
	}
	for i, id := range ids {
		x := &e.Queries[i]
		if x.old, x.found, err = lookForQuery(tx, id); err != nil {
			return err
		}
		if x.ID != id || x.old.revision != x.Seen {
			return errMoved
		}
		if x.now.ID = id; x.Body != nil {
			if err := decodeRegistration(x.Body, &x.now); err != nil {
				return err
			}
		}
	}
	if e.within(newTotals(tx)) != nil {
		return errMoved // the caller decides again, and learns why
	}
	return nil
}

func (e *queryEdit) frees() bool {
	return !slices.ContainsFunc(e.Queries, func(x queryDiff) bool { return !x.Same && !x.removes() })
}

// removes reports whether the edit removes a query that exists.
func (x *queryDiff) removes() bool { return !x.Same && len(x.now.Holders) == 0 }

// Apply stores or removes the edited queries.
func (e *queryEdit) Apply(tx *bbolt.Tx) error {
	t := newTotals(tx)
	for i := range slices.Backward(e.Queries) { // releases come first
		x := &e.Queries[i]
		if x.Same {
			continue
		}
		if err := applyEdit(t, x); err != nil {
			return err
		}
	}
	return t.save()
}

// namedBy lists the ids that an edit affects, its query first.
func namedBy(tx *bbolt.Tx, n registry.Names) ([]string, error) {
	ids := []string{n.Query}
	if n.Caller != "" && n.Name != "" {
		err := eachNamed(tx, n.Caller, n.Name, false, func(s *storedQuery) bool {
			if s.ID != n.Query && s.ID != n.Instead {
				ids = append(ids, s.ID)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	if n.Instead == "" || n.Instead == n.Query {
		return ids, nil
	}
	s, err := findQuery(tx, n.Instead)
	if err != nil {
		return ids, notFoundIsFine(err)
	}
	if _, holds := s.Holder(n.Caller); holds {
		ids = append(ids, s.ID)
	}
	return ids, nil
}

func beginEdit(tx *bbolt.Tx, id string) (queryDiff, error) {
	old, found, err := lookForQuery(tx, id)
	x := queryDiff{old: old, now: registry.Query{ID: id}, found: found, ID: id, Seen: old.revision}
	if found { // edits get a deep copy, so that they cannot modify old
		err = decodeRegistration(old.body, &x.now)
	}
	return x, err
}

// check returns an error if the edited query cannot be stored.
func (x *queryDiff) check(id string, room func() error) error {
	switch {
	case x.now.ID != id || x.found && x.now.Endpoint != x.old.Endpoint:
		return fmt.Errorf("query %s: its id and endpoint cannot be edited", id)
	case len(x.now.Holders) == 0:
		x.Same = !x.found
		return nil
	case x.now.Endpoint == "" || len(id) > 500:
		return fmt.Errorf("query %s: it needs an endpoint, and an id of at most 500 bytes", id)
	}
	var err error
	if x.Body, err = encodeRegistration(x.now); err != nil {
		return err
	}
	if x.Same = x.found && bytes.Equal(x.Body, x.old.body); x.Same {
		x.Body = nil
	}
	if x.found {
		return nil
	}
	return room()
}

// applyEdit stores or removes an edited query.
func applyEdit(t *totals, x *queryDiff) error {
	if len(x.now.Holders) == 0 {
		return removeQuery(t, &x.old)
	}
	next := storedQuery{Query: x.now, body: x.Body, serial: x.old.serial, space: x.old.space}
	var err error
	if x.found {
		err = unindex(t.tx, &x.old)
	} else {
		err = admit(t, &next)
	}
	if err != nil {
		return err
	}
	t.counters.revision++
	next.revision = t.counters.revision
	account(t, &next.Query, x.old.Holders, x.now.Holders)
	return errors.Join(index(t.tx, &next), next.save(t.tx))
}

func (e *queryEdit) relist(*catalog.Catalog) (ids []string) {
	for i := range e.Queries {
		if !e.Queries[i].Same {
			ids = append(ids, e.Queries[i].ID)
		}
	}
	return ids
}

func (e *queryEdit) touch(o *Others) {
	var everybody registry.Caller
	for i := range e.Queries {
		x := &e.Queries[i]
		if x.Same {
			continue
		}
		o.Queries.add(x.ID)
		if x.found && len(x.now.Holders) > 0 && everybody.MayRead(&x.old.Query) && !everybody.MayRead(&x.now) {
			o.Hidden.add(x.ID)
		}
	}
}
