package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	fastjson "github.com/go-json-experiment/json" // restarts decode all registrations: it takes half the time
	"go.etcd.io/bbolt"
)

// A storedQuery is a registration with its internal keys.
type storedQuery struct {
	registry.Query
	serial, space, revision uint64
	body                    []byte // the registration as stored
}

func parseQuery(id string, v []byte) (storedQuery, error) {
	if len(v) < queryHead {
		return storedQuery{}, fmt.Errorf("%w: a registration is missing", ErrDamaged)
	}
	s := storedQuery{Query: registry.Query{ID: id}, serial: number(v), space: number(v[8:]), revision: number(v[16:]), body: v[queryHead:]}
	err := decodeRegistration(s.body, &s.Query)
	return s, err
}

// encodeRegistration returns the stored form of a registration. Times are in UTC, so that all nodes store the same.
func encodeRegistration(q registry.Query) ([]byte, error) {
	q.CreatedAt, q.Pause = q.CreatedAt.UTC(), pauseInUTC(q.Pause)
	q.Holders = slices.Clone(q.Holders)
	for i := range q.Holders {
		h := &q.Holders[i]
		h.Since, h.From, h.Until, h.ReleaseAt, h.Pause = h.Since.UTC(), inUTC(h.From), inUTC(h.Until), inUTC(h.ReleaseAt), pauseInUTC(h.Pause)
	}
	v, err := json.Marshal(&q)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", q.ID, err)
	}
	return v, nil
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}

func pauseInUTC(p *registry.Pause) *registry.Pause {
	if p == nil {
		return nil
	}
	return &registry.Pause{By: p.By, At: p.At.UTC(), All: p.All}
}

// decodeRegistration reads the output of encodeRegistration.
func decodeRegistration(b []byte, q *registry.Query) error {
	if err := fastjson.Unmarshal(b, q); err != nil {
		return fmt.Errorf("%w: a registration cannot be read: %w", ErrDamaged, err)
	}
	return nil
}

func (s *storedQuery) save(tx *bbolt.Tx) error {
	v := make([]byte, 0, queryHead+len(s.body))
	for _, n := range []uint64{s.serial, s.space, s.revision} {
		v = binary.BigEndian.AppendUint64(v, n)
	}
	return tx.Bucket(bQueries).Put([]byte(s.ID), append(v, s.body...))
}

// findQuery returns a live query, or registry.ErrNotFound.
func findQuery(tx *bbolt.Tx, id string) (storedQuery, error) {
	s, found, err := lookForQuery(tx, id)
	if err == nil && !found {
		err = fmt.Errorf("query %s: %w", id, registry.ErrNotFound)
	}
	return s, err
}

// lookForQuery is findQuery for queries that often do not exist.
func lookForQuery(tx *bbolt.Tx, id string) (s storedQuery, found bool, err error) {
	v := tx.Bucket(bQueries).Get([]byte(id))
	if id == "" || v == nil || !owned(tx, number(skipNumber(v))) {
		return s, false, nil
	}
	if s, err = parseQuery(id, v); err != nil {
		return s, false, fmt.Errorf("query %s: %w", id, err)
	}
	return s, true, nil
}

// admit assigns a new query its number and space.
func admit(t *totals, s *storedQuery) error {
	// A removed query of the same id may still wait for the purge with its endpoint.
	if v := t.tx.Bucket(bQueries).Get([]byte(s.ID)); v != nil {
		dead, err := parseQuery(s.ID, v)
		if err != nil {
			return err
		}
		if err := discard(t, &dead); err != nil {
			return err
		}
	}
	sp := t.spaces[s.Endpoint]
	if sp == nil {
		made, err := ensureSpace(t.tx, &t.counters, s.Endpoint)
		if err != nil {
			return err
		}
		sp = &made
		t.spaces[s.Endpoint] = sp
	}
	sp.queries++
	t.counters.queries++
	t.counters.serial++
	s.serial, s.space = t.counters.serial, sp.number
	return nil
}

// A storedHold is the entry of a live hold in the bucket live.
type storedHold struct {
	Space     uint64     `json:"space"`
	ReleaseAt *time.Time `json:"releaseAt,omitempty"`
	Node      string     `json:"node,omitempty"`
}

// index writes the entries that depend on a query's holders and revision.
func index(tx *bbolt.Tx, s *storedQuery) error {
	id := []byte(s.ID)
	err := tx.Bucket(bRevisions).Put(key16(s.space, s.revision), id)
	for i := range s.Holders {
		h := &s.Holders[i]
		if h.Name != "" {
			names := tx.Bucket(bNames)
			err = errors.Join(err, names.Put(nameKey(h.Name, s.serial, h.Caller), id), names.Put(callerKey(h.Caller, h.Name, s.serial), id))
		}
		if h.Live {
			err = errors.Join(err, putJSON(tx.Bucket(bLive), liveKey(s.ID, h.Caller), storedHold{s.space, inUTC(h.ReleaseAt), h.Node}))
		}
	}
	return err
}

// unindex deletes the entries that index wrote.
func unindex(tx *bbolt.Tx, s *storedQuery) error {
	errs := []error{tx.Bucket(bRevisions).Delete(key16(s.space, s.revision))}
	for _, h := range s.Holders {
		errs = append(errs,
			tx.Bucket(bNames).Delete(nameKey(h.Name, s.serial, h.Caller)),
			tx.Bucket(bNames).Delete(callerKey(h.Caller, h.Name, s.serial)),
			tx.Bucket(bLive).Delete(liveKey(s.ID, h.Caller)))
	}
	return errors.Join(errs...)
}

// removeQuery removes a query; its history waits for the purge.
func removeQuery(t *totals, s *storedQuery) error {
	t.counters.revision++
	t.counters.queries--
	sp, ok := t.space(s.Endpoint)
	if !ok {
		return fmt.Errorf("%w: endpoint %s of query %s is missing", ErrDamaged, s.Endpoint, s.ID)
	}
	sp.queries--
	if err := sp.addRemoval(t.tx, t.counters.revision, s.ID); err != nil {
		return err
	}
	return discard(t, s)
}

// discard deletes the data keyed by the query's id and leaves the data keyed by its
// serial number to the purge.
func discard(t *totals, s *storedQuery) error {
	account(t, &s.Query, s.Holders, nil)
	tx := t.tx
	return errors.Join(
		unindex(tx, s),
		tx.Bucket(bQueries).Delete([]byte(s.ID)),
		tx.Bucket(bStats).Delete([]byte(s.ID)),
		tx.Bucket(bModels).Delete([]byte(s.ID)),
		forgetTouch(tx, s.ID),
		tx.Bucket(bPurge).Put(purgeKey(purgeHistory, s.serial), nil),
	)
}

// eachNamed calls f for the queries to which a caller gave a name (any caller for ""),
// oldest first, until f returns false. With public it skips queries that are not public, and names of holders who
// did not make them public.
func eachNamed(tx *bbolt.Tx, caller, name string, public bool, f func(*storedQuery) bool) error {
	if name == "" {
		return nil
	}
	prefix := append(append([]byte{'n'}, name...), 0)
	if caller != "" {
		k := callerKey(caller, name, 0)
		prefix = k[:len(k)-8]
	}
	last := ""
	return each(tx.Bucket(bNames), prefix, func(_ *bbolt.Cursor, _, id []byte) (bool, error) {
		if string(id) == last { // several holders use the name
			return true, nil
		}
		s, err := findQuery(tx, string(id))
		if err != nil {
			return errors.Is(err, registry.ErrNotFound), notFoundIsFine(err)
		}
		called := func(h registry.Holder) bool {
			return h.Name == name && (caller == "" || h.Caller == caller) && (!public || h.Public)
		}
		if !slices.ContainsFunc(s.Holders, called) || public && !s.Public() {
			return true, nil
		}
		last = s.ID
		return f(&s), nil
	})
}
