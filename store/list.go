package store

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// scanAtOnce is the number of queries that a list examines in one transaction. A long
// read transaction prevents the reuse of freed pages.
const scanAtOnce = 500

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

// fewQueries is the number of queries up to which those of an endpoint are collected and
// sorted. There is no index by endpoint and id, because each registration would write two
// more pages. An endpoint with more queries finds them among all.
const fewQueries = 2000

// A sequence iterates over all registrations, or those of one endpoint, in id order.
type sequence struct {
	c     *bbolt.Cursor // of queries
	space []byte        // its key, nil for the queries of all endpoints
	few   bool          // all ids of the space are in ids
	ids   [][]byte      // those that follow
	along along
}

func newSequence(tx *bbolt.Tx, endpoint string) (sequence, bool) {
	q := sequence{c: tx.Bucket(bQueries).Cursor()}
	if endpoint == "" {
		return q, true
	}
	s, ok := findSpace(tx, endpoint)
	q.space, q.few = key8(s.number), s.queries <= fewQueries
	if q.few {
		c := tx.Bucket(bRevisions).Cursor()
		for k, id := c.Seek(q.space); hasPrefix(k, q.space); k, id = c.Next() {
			q.ids = append(q.ids, id)
		}
		slices.SortFunc(q.ids, bytes.Compare)
		q.along.c = q.c
	}
	return q, ok
}

// after returns the query with the smallest id greater than the given one, nil if there is
// none.
func (q *sequence) after(id string) (next, v []byte) {
	if q.few {
		at, found := slices.BinarySearchFunc(q.ids, []byte(id), bytes.Compare)
		if found {
			at++
		}
		q.ids = q.ids[at:]
		return q.next()
	}
	k, v := q.c.Seek([]byte(id))
	if id != "" && string(k) == id {
		k, v = q.c.Next()
	}
	return q.own(k, v)
}

func (q *sequence) next() (id, v []byte) {
	if !q.few {
		return q.own(q.c.Next())
	}
	if len(q.ids) == 0 {
		return nil, nil
	}
	id, q.ids = q.ids[0], q.ids[1:]
	return id, q.along.get(id)
}

// own returns the first query of the space from an entry on.
func (q *sequence) own(k, v []byte) (id, value []byte) {
	for q.space != nil && k != nil && !hasPrefix(skipNumber(v), q.space) {
		k, v = q.c.Next()
	}
	return k, v
}

// A lister selects the queries of a list.
type lister struct {
	*boltFile
	filter *registry.QueryFilter
	text   *textSearch

	// Of one transaction:
	tx    *bbolt.Tx
	stats along
	live  map[uint64]bool // by space: its endpoint exists
}

func newLister(d *boltFile, f *registry.QueryFilter) *lister {
	return &lister{boltFile: d, filter: f, text: newTextSearch(f.Text)}
}

func (l *lister) begin(tx *bbolt.Tx) {
	l.tx, l.live = tx, map[uint64]bool{}
	l.stats = along{c: tx.Bucket(bStats).Cursor()}
}

// match reads a query and reports whether the filter accepts it.
func (l *lister) match(id, v []byte) (item registry.ListedQuery, fits bool, err error) {
	if len(v) < queryHead || !l.alive(number(skipNumber(v))) {
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
	item, err = withStatus(l.tx, &s, l.epoch, l.now())
	return item, l.filter.State == "" || item.Status.State == l.filter.State, err
}

// alive reports whether the endpoint of a space exists.
func (l *lister) alive(space uint64) bool {
	alive, known := l.live[space]
	if !known {
		alive = owned(l.tx, space)
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
	if l.filter.Tag == "" && l.filter.Holder == "" {
		return false
	}
	holders, _, ok := h.holders()
	return ok && !(bytes.Contains(holders, []byte(l.filter.Tag)) && bytes.Contains(holders, []byte(l.filter.Holder)))
}

// admits reports whether a query has the filter's tag and holder.
func admits(f *registry.QueryFilter, q *registry.Query) bool {
	if f.Tag != "" && !slices.ContainsFunc(q.Holders, func(h registry.Holder) bool { return slices.Contains(h.Tags, f.Tag) }) {
		return false
	}
	_, held := q.Holder(f.Holder)
	return f.Holder == "" || held
}
