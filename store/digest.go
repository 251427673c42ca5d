package store

import (
	"bytes"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/zeebo/xxh3"
	"go.etcd.io/bbolt"
)

// Digests caches what was read of each query, so that the cost of a further read
// depends on what has changed: it compares a registration's revision and a hash of its
// statistics. It needs about 300 bytes per query.
type digests struct {
	mu    sync.Mutex
	list  []registry.QueryDigest // in id order; shared with callers
	from  []digestSource         // parallel to list
	names map[string][]string    // lists of one holder or tag, which many queries share
}

// A digestSource says what a digest was made from.
type digestSource struct {
	wish             *registry.Query // the fields on which the state depends
	serial, revision uint64
	sum              uint64 // hash of the statistics when they were read
}

// Digests returns the data by which lists of queries are sorted and counted, in id
// order: of all queries, or of those that contain a text as in QueryFilter.Text. The
// digests form a consistent snapshot. The caller must not modify them.
func (d *DB) Digests(text string) ([]registry.QueryDigest, error) {
	search := newTextSearch(text)
	d.digests.mu.Lock()
	defer d.digests.mu.Unlock()
	old, oldFrom := d.digests.list, d.digests.from
	var list, found []registry.QueryDigest
	var from []digestSource
	if d.digests.names == nil {
		d.digests.names = map[string][]string{}
	}
	err := d.view(func(tx *bbolt.Tx) error {
		n := loadCounters(tx).queries
		list, from = make([]registry.QueryDigest, 0, n), make([]digestSource, 0, n)
		owners := map[uint64]string{}
		stats, queries := tx.Bucket(bStats).Cursor(), tx.Bucket(bQueries).Cursor()
		qk, qv := queries.First()
		for k, v := stats.First(); k != nil; k, v = stats.Next() {
			for qk != nil && bytes.Compare(qk, k) < 0 {
				qk, qv = queries.Next()
			}
			if !bytes.Equal(qk, k) || len(qv) < queryHead {
				continue
			}
			for len(old) > 0 && old[0].ID < string(k) {
				old, oldFrom = old[1:], oldFrom[1:]
			}
			var was *registry.QueryDigest
			var wasFrom digestSource
			if len(old) > 0 && old[0].ID == string(k) {
				was, wasFrom = &old[0], oldFrom[0]
			}
			space := number(after(qv))
			name, ok := owners[space]
			if !ok {
				name = owner(tx, space)
				owners[space] = name
			}
			if name == "" { // its endpoint was deleted
				continue
			}
			x, source, err := d.digest(was, wasFrom, k, name, qv, v)
			if err != nil {
				return fmt.Errorf("query %s: %w", k, err)
			}
			list, from = append(list, x), append(from, source)
			if text == "" {
				continue
			}
			h, err := readRegistrationHead(qv[queryHead:])
			if err != nil {
				return fmt.Errorf("query %s: %w", k, err)
			}
			if search.finds(k, &h) {
				found = append(found, x)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("digest queries: %w", err)
	}
	d.digests.list, d.digests.from = list, from
	if text == "" {
		return list, nil
	}
	return found, nil
}

// digest returns a query's digest and reads only what has changed.
func (d *DB) digest(was *registry.QueryDigest, source digestSource, id []byte, endpoint string, query, stats []byte) (registry.QueryDigest, digestSource, error) {
	var x registry.QueryDigest
	serial, revision, sum := number(query), number(query[16:]), xxh3.Hash(stats)
	if was != nil {
		x = *was
	}
	x.Endpoint = endpoint
	now := d.now()
	same := was != nil && source.serial == serial && source.revision == revision
	if same && source.sum == sum && !source.turns(x.State, now) {
		return x, source, nil
	}
	if !same {
		s, err := parseQuery(string(id), query)
		if err != nil {
			return x, source, err
		}
		callers := make([]string, len(s.Holders))
		for i, h := range s.Holders {
			callers[i] = h.Caller
		}
		x.ID, x.Name, source.wish = s.ID, s.NameFor(""), wishOf(&s.Query)
		x.Tags, x.Holders = d.digests.share(s.Tags()), d.digests.share(callers)
	}
	r, err := d.parseRecord(stats)
	if err != nil {
		return x, source, err
	}
	st := &r.stats
	source.serial, source.revision, source.sum = serial, revision, sum
	x.State = policy.StateOf(source.wish, st, now)
	x.CheckedAt, x.ChangedAt, x.Executions, x.Changes, x.Median = st.CheckedAt, st.ChangedAt, st.Executions, st.Changes, st.Median()
	x.Lately = registry.RecentRuns{Runs: len(st.Samples), Changed: changedOf(st.Samples)}
	return x, source, nil
}

// mostShared is the number of lists that queries share.
const mostShared = 1000

// share returns a list that others hold already, if it has one element.
func (d *digests) share(list []string) []string {
	if len(list) != 1 {
		return list
	}
	if shared := d.names[list[0]]; shared != nil {
		return shared
	}
	if len(d.names) < mostShared {
		d.names[list[0]] = list
	}
	return list
}

// plainWish is the wish of a query with an active holder that sets no limit.
var plainWish = &registry.Query{Holders: []registry.Holder{{}}}

// wishOf returns the fields of a query on which its state depends.
func wishOf(q *registry.Query) *registry.Query {
	w := registry.Query{Pause: q.Paused()}
	limit := registry.Duration(q.MaxStaleness())
	for _, h := range q.Holders {
		if h.Pause == nil && h.From == nil && h.Until == nil { // one active holder is enough
			if limit == 0 && w.Pause == nil {
				return plainWish
			}
			w.Holders = []registry.Holder{{MaxStaleness: limit}}
			return &w
		}
		w.Holders = append(w.Holders, registry.Holder{From: h.From, Until: h.Until, MaxStaleness: limit, Pause: h.Pause})
	}
	return &w
}

// turns reports whether a holder's time window has opened or closed since the state
// was determined.
func (s *digestSource) turns(state registry.State, now time.Time) bool {
	return s.wish.Paused() == nil && s.wish.Active(now) == (state == registry.Idle)
}

func changedOf(samples []policy.Sample) (n int) {
	for _, s := range samples {
		if s.Changed {
			n++
		}
	}
	return n
}

// Recent calls f for the changes after an offset that were committed at or after
// since, without baselines, oldest first. It returns the offset up to which it read. A
// zero Offset, or one of another epoch, precedes all changes. Recent reads no deltas
// and examines some thousand changes per transaction, so that read transactions stay
// short.
func (d *DB) Recent(o registry.Offset, since time.Time, f func(query string, at time.Time)) (registry.Offset, error) {
	if o.Epoch != string(d.epoch) {
		o = registry.Offset{Epoch: string(d.epoch)}
	}
	for more := true; more; {
		err := d.view(func(tx *bbolt.Tx) error {
			from := max(o.Seq+1, firstSince(tx, since))
			c, changes := tx.Bucket(bOffsets).Cursor(), tx.Bucket(bChanges)
			n := 0
			k, at := c.Seek(key8(from))
			for ; k != nil && n < 5000; k, at = c.Next() {
				l, err := parseLogEntry(at, changes.Get(at))
				if err != nil {
					return err
				}
				if o.Seq = l.offset; !l.baseline && !l.at.Before(since) {
					f(l.query, l.at)
				}
				n++
			}
			if more = k != nil; !more {
				o.Seq = max(o.Seq, loadCounters(tx).offset)
			}
			return nil
		})
		if err != nil {
			return o, fmt.Errorf("recent changes: %w", err)
		}
	}
	return o, nil
}

// firstSince finds by binary search the offset before which all changes are older:
// commit times increase with offsets.
func firstSince(tx *bbolt.Tx, since time.Time) uint64 {
	c, changes := tx.Bucket(bOffsets).Cursor(), tx.Bucket(bChanges)
	head := int(loadCounters(tx).offset)
	return uint64(sort.Search(head+1, func(i int) bool {
		k, at := c.Seek(key8(uint64(i)))
		if k == nil {
			return true
		}
		l, err := parseLogEntry(at, changes.Get(at))
		return err != nil || !l.at.Before(since)
	}))
}
