package store

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"go.etcd.io/bbolt"
)

// scanAtOnce is the number of queries that a list examines in one transaction. A long
// read transaction prevents the reuse of freed pages.
const scanAtOnce = 500

// List returns a page of at most limit queries after cursor in id order, and the next
// cursor, "" at the end. Each item is consistent in itself; a page that examined many
// queries may combine several snapshots.
func (d *DB) List(f registry.QueryFilter, cursor string, limit int) (items []registry.ListedQuery, next string, err error) {
	if limit <= 0 {
		return nil, "", nil
	}
	l, room := newLister(d, &f), pageBytes
	for more := true; more; {
		// One item beyond the limit shows whether there is a next page.
		var found []registry.ListedQuery
		found, cursor, more, err = l.scanSome(cursor, limit+1-len(items), &room)
		if err != nil {
			return nil, "", fmt.Errorf("list queries: %w", err)
		}
		items = append(items, found...)
		if n := len(items); n > limit || room <= 0 && n > 1 {
			return items[:n-1], items[n-2].Query.ID, nil
		}
	}
	return items, "", nil
}

// scanSome examines the next few queries after cursor and returns where it stopped. It
// subtracts the size of the texts from room and stops when room is used up.
func (l *lister) scanSome(cursor string, limit int, room *int) (items []registry.ListedQuery, stop string, more bool, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		all, ok := newSequence(tx, l.filter.Endpoint)
		if !ok {
			return nil
		}
		l.begin(tx)
		id, v := all.after(cursor)
		var last []byte
		for range scanAtOnce {
			if id == nil || len(items) == limit || *room <= 0 && len(items) > 1 {
				break
			}
			item, fits, err := l.match(id, v)
			if err != nil {
				return fmt.Errorf("query %s: %w", id, err)
			}
			if fits {
				items = append(items, item)
				*room -= len(item.Query.Text)
			}
			last = id
			id, v = all.next()
		}
		stop, more = string(last), id != nil && len(items) < limit
		return nil
	})
	return items, stop, more, err
}

// A sequence iterates over all registrations, or those of one endpoint, in id order.
type sequence struct {
	c       *bbolt.Cursor
	members []byte // prefix of the endpoint's entries in members, nil for all queries
	queries along
}

func newSequence(tx *bbolt.Tx, endpoint string) (sequence, bool) {
	queries := tx.Bucket(bQueries).Cursor()
	if endpoint == "" {
		return sequence{c: queries}, true
	}
	s, ok := findSpace(tx, endpoint)
	return sequence{c: tx.Bucket(bMembers).Cursor(), members: key8(s.number), queries: along{c: queries}}, ok
}

// after returns the query with the smallest id greater than the given one, nil if there is
// none.
func (q *sequence) after(id string) (next, v []byte) {
	from := append(slices.Clone(q.members), id...)
	k, v := q.c.Seek(from)
	if id != "" && string(k) == string(from) {
		k, v = q.c.Next()
	}
	return q.entry(k, v)
}

func (q *sequence) next() (id, v []byte) { return q.entry(q.c.Next()) }

func (q *sequence) entry(k, v []byte) (id, value []byte) {
	switch {
	case q.members == nil:
		return k, v
	case !hasPrefix(k, q.members):
		return nil, nil
	}
	id = k[len(q.members):]
	return id, q.queries.get(id)
}

// along reads the values of keys that are asked for in ascending order. Keys that
// follow each other in the bucket cost a fraction of a search.
type along struct {
	c    *bbolt.Cursor
	k, v []byte
}

// get returns the value of a key, nil if there is none.
func (a *along) get(key []byte) []byte {
	if a.k != nil && bytes.Compare(a.k, key) < 0 {
		a.k, a.v = a.c.Next()
	}
	if a.k == nil || bytes.Compare(a.k, key) < 0 {
		a.k, a.v = a.c.Seek(key)
	}
	if !bytes.Equal(a.k, key) {
		return nil
	}
	return a.v
}

// A lister selects the queries of a list.
type lister struct {
	*DB
	filter *registry.QueryFilter
	text   *textSearch

	// Of one transaction:
	tx    *bbolt.Tx
	stats along
	live  map[uint64]bool // by space: its endpoint exists
}

func newLister(d *DB, f *registry.QueryFilter) *lister {
	return &lister{DB: d, filter: f, text: newTextSearch(f.Text)}
}

func (l *lister) begin(tx *bbolt.Tx) {
	l.tx, l.live = tx, map[uint64]bool{}
	l.stats = along{c: tx.Bucket(bStats).Cursor()}
}

// match reads a query and reports whether the filter accepts it.
func (l *lister) match(id, v []byte) (item registry.ListedQuery, fits bool, err error) {
	if len(v) < queryHead || !l.alive(number(after(v))) {
		return item, false, nil
	}
	h, err := readRegistrationHead(v[queryHead:])
	if err != nil || l.hopeless(id, &h) || !l.text.finds(id, &h) {
		return item, false, err
	}
	s, err := parseQuery(string(id), v)
	if err != nil || !admits(l.filter, &s.Query) {
		return item, false, err
	}
	item, err = l.item(l.tx, &s)
	return item, l.filter.State == "" || item.Status.State == l.filter.State, err
}

// alive reports whether the endpoint of a space exists.
func (l *lister) alive(space uint64) bool {
	alive, known := l.live[space]
	if !known {
		alive = owner(l.tx, space) != ""
		l.live[space] = alive
	}
	return alive
}

// hopeless reports from the stored bytes alone that the filter rejects a query.
// Decoding a registration costs ten times as much, and a selective filter has to
// examine all queries.
func (l *lister) hopeless(id []byte, h *registrationHead) bool {
	switch l.filter.State {
	case "":
	case registry.Paused:
		if h.marks&markPause == 0 {
			return true
		}
	case registry.Idle:
		if h.marks&markWindow == 0 {
			return true
		}
	default:
		if !recordAttempts(l.stats.get(id)).mayBe(l.filter.State) {
			return true
		}
	}
	return !bytes.Contains(h.holders, []byte(l.filter.Tag)) || !bytes.Contains(h.holders, []byte(l.filter.Holder))
}

// admits reports whether a query has the filter's tag and holder.
func admits(f *registry.QueryFilter, q *registry.Query) bool {
	if f.Tag != "" && !slices.ContainsFunc(q.Holders, func(h registry.Holder) bool { return slices.Contains(h.Tags, f.Tag) }) {
		return false
	}
	_, held := q.Holder(f.Holder)
	return f.Holder == "" || held
}

func (d *DB) item(tx *bbolt.Tx, s *storedQuery) (registry.ListedQuery, error) {
	r, err := d.parseRecord(tx.Bucket(bStats).Get([]byte(s.ID)))
	if err != nil {
		return registry.ListedQuery{}, fmt.Errorf("query %s: %w", s.ID, err)
	}
	return registry.ListedQuery{Query: s.Query, Status: statusOf(&s.Query, &r.stats, d.now())}, nil
}

// Item returns one query. It wraps registry.ErrNotFound.
func (d *DB) Item(id string) (item registry.ListedQuery, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		s, err := findQuery(tx, id)
		if err != nil {
			return err
		}
		item, err = d.item(tx, &s)
		return err
	})
	return item, err
}

// Stats returns the scheduler's statistics of one query.
func (d *DB) Stats(id string) (stats policy.Stats, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		_, v, ok := liveRecord(tx, id)
		if !ok {
			return fmt.Errorf("query %s: %w", id, registry.ErrNotFound)
		}
		r, err := d.parseRecord(v)
		stats = r.stats
		return err
	})
	return stats, err
}
