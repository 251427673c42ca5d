package store

import (
	"fmt"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/zeebo/xxh3"
	"go.etcd.io/bbolt"
)

// digests caches what was read of each query, so that the cost of a further read
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
	fields           *registry.Query // the fields on which the state depends
	serial, revision uint64
	sum              uint64 // hash of the statistics when they were read
}

// read returns the digests of the queries that a search finds.
func (d *digests) read(f *boltFile, search *textSearch) ([]registry.QueryDigest, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, oldFrom := d.list, d.from
	var list, found []registry.QueryDigest
	var from []digestSource
	if d.names == nil {
		d.names = map[string][]string{}
	}
	err := f.view(func(tx *bbolt.Tx) error {
		n := loadCounters(tx).queries
		list, from = make([]registry.QueryDigest, 0, n), make([]digestSource, 0, n)
		owners := map[uint64]string{}
		stats, queries := along{c: tx.Bucket(bStats).Cursor()}, tx.Bucket(bQueries).Cursor()
		for k, qv := queries.First(); k != nil; k, qv = queries.Next() {
			if len(qv) < queryHead {
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
			space := number(skipNumber(qv))
			name, ok := owners[space]
			if !ok {
				name = owner(tx, space)
				owners[space] = name
			}
			if name == "" { // its endpoint was deleted
				continue
			}
			x, source, err := d.digest(f, was, wasFrom, k, name, qv, stats.get(k))
			if err != nil {
				return fmt.Errorf("query %s: %w", k, err)
			}
			list, from = append(list, x), append(from, source)
			if search.text == "" {
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
		return nil, err
	}
	d.list, d.from = list, from
	if search.text == "" {
		return list, nil
	}
	return found, nil
}

// digest returns a query's digest and reads only what has changed.
func (d *digests) digest(f *boltFile, was *registry.QueryDigest, source digestSource, id []byte, endpoint string, query, stats []byte) (registry.QueryDigest, digestSource, error) {
	var x registry.QueryDigest
	serial, revision, sum := number(query), number(query[16:]), xxh3.Hash(stats)
	if was != nil {
		x = *was
	}
	x.Endpoint = endpoint
	now := f.now()
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
		x.ID, x.Name, source.fields = s.ID, s.NameFor(""), stateFields(&s.Query)
		x.Tags, x.Holders = d.share(s.Tags()), d.share(callers)
	}
	r, err := parseRecord(entryOf(stats, query))
	if err != nil {
		return x, source, err
	}
	st := &r.stats
	source.serial, source.revision, source.sum = serial, revision, sum
	x.State = policy.StateOf(source.fields, st, now)
	x.CheckedAt, x.ChangedAt, x.Executions, x.Changes, x.Median = st.CheckedAt, st.ChangedAt, st.Executions, st.Changes, st.Median()
	x.Lately = registry.RecentRuns{Runs: len(st.Samples), Changed: changedOf(st.Samples)}
	return x, source, nil
}

// mostShared is how many lists are kept for sharing.
const mostShared = 1000

// share returns one list for all queries that have the same single element.
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

// plainFields is stateFields of a query with an active holder that sets no limit.
var plainFields = &registry.Query{Holders: []registry.Holder{{}}}

// stateFields returns the fields of a query on which its state depends.
func stateFields(q *registry.Query) *registry.Query {
	w := registry.Query{Pause: q.Paused()}
	limit := registry.Duration(q.MaxStaleness())
	for _, h := range q.Holders {
		if h.Pause == nil && h.From == nil && h.Until == nil { // one active holder is enough
			if limit == 0 && w.Pause == nil {
				return plainFields
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
	return s.fields.Paused() == nil && s.fields.Active(now) == (state == registry.Idle)
}

func changedOf(samples []policy.Sample) (n int) {
	for _, s := range samples {
		if s.Changed {
			n++
		}
	}
	return n
}
