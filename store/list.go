package store

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
)

// lookAtOnce is the number of queries that a list examines in one transaction. A long
// read transaction prevents the reuse of freed pages.
const lookAtOnce = 500

// List returns a page of at most limit queries after cursor in id order, and the next
// cursor, "" at the end. Each item is consistent in itself; a page that examined many
// queries may combine several snapshots.
func (d *DB) List(f registry.QueryFilter, cursor string, limit int) (items []registry.ListedQuery, next string, err error) {
	f.Text = strings.ToLower(f.Text)
	if limit <= 0 {
		return nil, "", nil
	}
	room := pageBytes
	for more := true; more; {
		// One item beyond the limit shows whether there is a next page.
		var found []registry.ListedQuery
		found, cursor, more, err = d.look(&f, cursor, limit+1-len(items), &room)
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

// look examines the next few queries after cursor and returns where it stopped. It
// subtracts the size of the texts from room and stops when room is used up.
func (d *DB) look(f *registry.QueryFilter, cursor string, limit int, room *int) (items []registry.ListedQuery, stop string, more bool, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		ids, ok := newIDs(tx, f.Endpoint)
		if !ok {
			return nil
		}
		id := ids.after(cursor)
		for range lookAtOnce {
			if id == "" || len(items) == limit || *room <= 0 && len(items) > 1 {
				break
			}
			item, fits, err := d.match(tx, f, id)
			if err != nil {
				return fmt.Errorf("query %s: %w", id, err)
			}
			if fits {
				items = append(items, item)
				*room -= len(item.Query.Text)
			}
			stop, id = id, ids.next()
		}
		more = id != "" && len(items) < limit
		return nil
	})
	return items, stop, more, err
}

// ids iterates over all queries, or those of one endpoint, in id order.
type ids struct {
	c      *bbolt.Cursor
	prefix []byte
}

func newIDs(tx *bbolt.Tx, endpoint string) (ids, bool) {
	if endpoint == "" {
		return ids{c: tx.Bucket(bStats).Cursor()}, true
	}
	s, ok := findSpace(tx, endpoint)
	return ids{c: tx.Bucket(bMembers).Cursor(), prefix: key8(s.number)}, ok
}

// after returns the smallest id greater than the given one, "" if there is none.
func (i *ids) after(id string) string {
	from := append(slices.Clone(i.prefix), id...)
	k, _ := i.c.Seek(from)
	if id != "" && string(k) == string(from) {
		k, _ = i.c.Next()
	}
	return i.id(k)
}

func (i *ids) next() string {
	k, _ := i.c.Next()
	return i.id(k)
}

func (i *ids) id(k []byte) string {
	if !hasPrefix(k, i.prefix) {
		return ""
	}
	return string(k[len(i.prefix):])
}

// match reads a query and reports whether the filter accepts it.
func (d *DB) match(tx *bbolt.Tx, f *registry.QueryFilter, id string) (registry.ListedQuery, bool, error) {
	_, stats, ok := liveRecord(tx, id)
	if !ok {
		return registry.ListedQuery{}, false, nil
	}
	v := tx.Bucket(bQueries).Get([]byte(id))
	if hopeless(f, v, stats) {
		return registry.ListedQuery{}, false, nil
	}
	s, err := parseQuery(v)
	if err != nil || !admits(f, &s.Query) {
		return registry.ListedQuery{}, false, err
	}
	item, err := d.item(tx, &s)
	return item, f.State == "" || item.Status.State == f.State, err
}

// hopeless reports from the stored bytes alone that the filter rejects a query.
// Decoding a registration costs ten times as much, and a selective filter has to
// examine all queries.
func hopeless(f *registry.QueryFilter, v, stats []byte) bool {
	switch f.State {
	case "":
	case registry.Paused:
		if !bytes.Contains(v, []byte(`"pause":`)) {
			return true
		}
	case registry.Idle:
		if !bytes.Contains(v, []byte(`"until":`)) && !bytes.Contains(v, []byte(`"from":`)) {
			return true
		}
	default:
		if !recordTries(stats).mayBe(f.State) {
			return true
		}
	}
	for _, exact := range []string{f.Tag, f.Holder} {
		if exact != "" && verbatim(exact) && !bytes.Contains(v, []byte(`"`+exact+`"`)) {
			return true
		}
	}
	return f.Text != "" && verbatim(f.Text) && !bytes.Contains(bytes.ToLower(v), []byte(f.Text))
}

// verbatim reports whether JSON encodes a text without escapes.
func verbatim(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || strings.IndexByte("\"\\<>&", c) >= 0 {
			return false
		}
	}
	return true
}

func admits(f *registry.QueryFilter, q *registry.Query) bool {
	if f.Tag != "" && !slices.ContainsFunc(q.Holders, func(h registry.Holder) bool { return slices.Contains(h.Tags, f.Tag) }) {
		return false
	}
	if f.Holder != "" {
		if _, ok := q.Holder(f.Holder); !ok {
			return false
		}
	}
	return f.Text == "" || mentions(q, f.Text)
}

// mentions searches a query's user-visible fields for a lower-case text.
func mentions(q *registry.Query, text string) bool {
	in := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return in(q.ID) || in(q.Text) || slices.ContainsFunc(q.Holders, func(h registry.Holder) bool { return in(h.Name) })
}

// wordsOf concatenates the fields that mentions searches, in lower case.
func wordsOf(q *registry.Query) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(q.ID) + wordsEnd + strings.ToLower(q.Text))
	for _, h := range q.Holders {
		b.WriteString(wordsEnd + strings.ToLower(h.Name))
	}
	return b.String()
}

// wordsEnd terminates each field; a search text that contains it is searched in each
// field separately.
const wordsEnd = "\x00"

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
func (d *DB) Stats(id string) (stats scheduler.Stats, err error) {
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
