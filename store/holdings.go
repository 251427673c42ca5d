package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/freshet/freshet/registry"
)

// The number of queries and profiles that each caller holds is updated when holds
// begin and end, so that checking a limit does not read all queries. Queries and
// profiles of a deleted endpoint count until they are purged.

// Holdings implements registry.Store.
func (d *DB) Holdings(caller string) (h registry.Holdings, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		h = loadHoldings(tx, caller)
		return nil
	})
	return h, err
}

func loadHoldings(tx *bbolt.Tx, caller string) registry.Holdings {
	v := tx.Bucket(bHoldings).Get(holdingsKey(caller))
	return registry.Holdings{Queries: int(number(v)), Bytes: int64(number(after(v))), Profiles: int(number(after(after(v))))}
}

// holdingsKey is never empty.
func holdingsKey(caller string) []byte { return append([]byte{'c'}, caller...) }

func addToHoldings(tx *bbolt.Tx, caller string, more registry.Holdings) error {
	h := loadHoldings(tx, caller)
	h.Queries, h.Bytes, h.Profiles = h.Queries+more.Queries, h.Bytes+more.Bytes, h.Profiles+more.Profiles
	if h == (registry.Holdings{}) {
		return tx.Bucket(bHoldings).Delete(holdingsKey(caller))
	}
	return tx.Bucket(bHoldings).Put(holdingsKey(caller), appendHoldings(h))
}

func appendHoldings(h registry.Holdings) []byte {
	v := binary.BigEndian.AppendUint64(key8(uint64(h.Queries)), uint64(h.Bytes))
	return binary.BigEndian.AppendUint64(v, uint64(h.Profiles))
}

// account updates the counts from a query's old holders to its new ones.
func account(tx *bbolt.Tx, q *registry.Query, had, has []registry.Holder) error {
	size := q.Size()
	for _, h := range had {
		if !holds(has, h.Caller) {
			if err := addToHoldings(tx, h.Caller, registry.Holdings{Queries: -1, Bytes: -size}); err != nil {
				return err
			}
		}
	}
	for _, h := range has {
		if !holds(had, h.Caller) {
			if err := addToHoldings(tx, h.Caller, registry.Holdings{Queries: 1, Bytes: size}); err != nil {
				return err
			}
		}
	}
	return nil
}

func holds(list []registry.Holder, caller string) bool {
	return slices.ContainsFunc(list, func(h registry.Holder) bool { return h.Caller == caller })
}

// countHoldings computes the counts from the registrations.
func countHoldings(tx *bbolt.Tx) (map[string]registry.Holdings, error) {
	all := map[string]registry.Holdings{}
	err := tx.Bucket(bQueries).ForEach(func(id, v []byte) error {
		s, err := parseQuery(string(id), v)
		if err != nil {
			return fmt.Errorf("query %s: %w", id, err)
		}
		for _, h := range s.Holders {
			x := all[h.Caller]
			x.Queries, x.Bytes = x.Queries+1, x.Bytes+s.Size()
			all[h.Caller] = x
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = tx.Bucket(bProfiles).ForEach(func(id, v []byte) error {
		n, err := parseNeed(v)
		if err != nil {
			return fmt.Errorf("profile %s: %w", id, err)
		}
		x := all[n.Owner]
		x.Profiles, x.Bytes = x.Profiles+1, x.Bytes+n.Size()
		all[n.Owner] = x
		return nil
	})
	return all, err
}

// addHoldings computes the counts for a file of an older schema, which had none or
// only some of them.
func addHoldings(tx *bbolt.Tx) error {
	if err := tx.DeleteBucket(bHoldings); err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
		return err
	}
	b, err := tx.CreateBucket(bHoldings)
	if err != nil {
		return err
	}
	all, err := countHoldings(tx)
	if err != nil {
		return err
	}
	for _, caller := range slices.Sorted(maps.Keys(all)) {
		if err := b.Put(holdingsKey(caller), appendHoldings(all[caller])); err != nil {
			return err
		}
	}
	return nil
}

// holdings compares the counts with the registrations.
func (c *checker) holdings() error {
	all, err := countHoldings(c.tx)
	if err != nil {
		return nil // reported by the checks of registrations and profiles
	}
	for caller, want := range all {
		if got := loadHoldings(c.tx, caller); got != want {
			c.found("%s is counted to hold %+v, not %+v", caller, got, want)
		}
	}
	if n := c.size(bHoldings, nil); n != uint64(len(all)) {
		c.found("%d callers are counted, %d hold something", n, len(all))
	}
	return nil
}
