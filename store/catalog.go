package store

import (
	"fmt"
	"sort"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"go.etcd.io/bbolt"
)

// A Catalog reads queries together with the state of their results. It implements web.Queries.
type Catalog struct{ *boltFile }

// readAtOnce is the number of queries that a list reads in one transaction. A long read
// transaction prevents the reuse of freed pages.
const readAtOnce = 500

// List returns a page of at most limit queries after cursor in id order, and the next
// cursor, "" at the end. Each item is consistent in itself; a page of many queries may combine
// several snapshots.
func (d *Catalog) List(f registry.QueryFilter, cursor string, limit int) (items []registry.ListedQuery, next string, err error) {
	if limit <= 0 {
		return nil, "", nil
	}
	for room := pageBytes; ; {
		// One item beyond the limit shows whether there is a next page.
		ids, err := d.find(&f, cursor, min(limit+1-len(items), readAtOnce))
		if err == nil && len(ids) > 0 {
			cursor = ids[len(ids)-1]
			items, err = d.read(&f, ids, items, &room)
		}
		if err != nil {
			return nil, "", fmt.Errorf("list queries: %w", err)
		}
		if n := len(items); n > limit || room <= 0 && n > 1 {
			return items[:n-1], items[n-2].Query.ID, nil
		}
		if len(ids) == 0 {
			return items, "", nil
		}
	}
}

func (d *Catalog) find(f *registry.QueryFilter, cursor string, most int) ([]string, error) {
	c, err := d.all()
	if err != nil {
		return nil, err
	}
	return c.Find(f, cursor, most, d.now()), nil
}

// read appends queries to items until their texts leave no room.
func (d *Catalog) read(f *registry.QueryFilter, ids []string, items []registry.ListedQuery, room *int) ([]registry.ListedQuery, error) {
	err := d.view(func(tx *bbolt.Tx) error {
		for _, id := range ids {
			s, found, err := lookForQuery(tx, id)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			item, err := withStatus(tx, &s, d.epoch, d.now())
			if err != nil {
				return err
			}
			if f.State != "" && item.Status.State != f.State { // since it was found
				continue
			}
			items = append(items, item)
			if *room -= len(item.Query.Text); *room <= 0 && len(items) > 1 {
				return nil
			}
		}
		return nil
	})
	return items, err
}

// Item returns one query. It wraps registry.ErrNotFound.
func (d *Catalog) Item(id string) (registry.ListedQuery, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (registry.ListedQuery, error) {
		s, err := findQuery(tx, id)
		if err != nil {
			return registry.ListedQuery{}, err
		}
		return withStatus(tx, &s, d.epoch, d.now())
	})
}

// Stats returns the scheduler's statistics of one query.
func (d *Catalog) Stats(id string) (policy.Stats, error) {
	r, err := newest(d.boltFile, func(tx *bbolt.Tx) (record, error) {
		_, v, ok := liveRecord(tx, id)
		if !ok {
			return record{}, fmt.Errorf("query %s: %w", id, registry.ErrNotFound)
		}
		return readRecord(v, d.epoch)
	})
	return r.stats, err
}

// Digests returns the data by which lists of queries are sorted and counted, in id
// order: of all queries, or of those that contain a text as in QueryFilter.Text. The caller
// must not modify their lists of tags and holders.
func (d *Catalog) Digests(text string) ([]registry.QueryDigest, error) {
	c, err := d.all()
	if err != nil {
		return nil, fmt.Errorf("digest queries: %w", err)
	}
	return c.Digests(text, d.now()), nil
}

// Recent calls f for the changes after an offset that were committed at or after
// since, without baselines, oldest first. It returns the offset up to which it read. A
// zero Offset, or one of another epoch, precedes all changes. Recent reads no deltas
// and examines some thousand changes per transaction, so that read transactions stay
// short.
func (d *Catalog) Recent(o registry.Offset, since time.Time, f func(query string, at time.Time)) (registry.Offset, error) {
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

// statusOf returns the status of a query's result. It leaves out the time of the next
// run, which only the scheduler knows.
func statusOf(q *registry.Query, s *policy.Stats, now time.Time) registry.Status {
	st := registry.Status{
		State:      policy.StateOf(q, s, now),
		Position:   s.Position,
		Hash:       s.Hash,
		Rows:       s.Rows,
		CheckedAt:  s.CheckedAt,
		ChangedAt:  s.ChangedAt,
		Executions: s.Executions,
		Changes:    s.Changes,
		Median:     s.Median(),
		Outcome:    s.LastRun.Outcome,

		FailingSince: s.IncompleteSince,
		Failures:     s.Missed(),
		AgeIgnored:   s.AgeIgnored(),
	}
	switch {
	case st.State == registry.Idle:
		st.Error = q.DormantReason(now)
	case !s.LastRun.Outcome.Complete():
		st.Error = s.LastRun.Error
	}
	return st
}

func withStatus(tx *bbolt.Tx, s *storedQuery, e storeEpoch, now time.Time) (registry.ListedQuery, error) {
	r := record{serial: s.serial, space: s.space}
	r.stats.Position = r.position(e)
	if v := tx.Bucket(bStats).Get([]byte(s.ID)); v != nil {
		var err error
		if r, err = readRecord(v, e); err != nil {
			return registry.ListedQuery{}, fmt.Errorf("query %s: %w", s.ID, err)
		}
	}
	return registry.ListedQuery{Query: s.Query, Status: statusOf(&s.Query, &r.stats, now)}, nil
}
