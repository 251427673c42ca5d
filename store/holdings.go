package store

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
)

// The number of queries and profiles that each caller holds is updated when holds
// begin and end, so that checking a limit does not read all queries. Queries and
// profiles of a deleted endpoint count until they are purged.

func loadHoldings(tx *bbolt.Tx, caller string) registry.Holdings {
	v := tx.Bucket(bHoldings).Get(holdingsKey(caller))
	return registry.Holdings{Queries: int(number(v)), Bytes: int64(number(skipNumber(v))), Profiles: int(number(skipNumber(skipNumber(v))))}
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
	v := binary.BigEndian.AppendUint64(make([]byte, 0, 24), uint64(h.Queries))
	v = binary.BigEndian.AppendUint64(v, uint64(h.Bytes))
	return binary.BigEndian.AppendUint64(v, uint64(h.Profiles))
}

// account updates the counts from a query's old holders to its new ones.
func account(t *totals, q *registry.Query, had, has []registry.Holder) {
	size := q.Size()
	for _, h := range had {
		if !heldBy(has, h.Caller) {
			t.hold(h.Caller, -1, -size)
		}
	}
	for _, h := range has {
		if !heldBy(had, h.Caller) {
			t.hold(h.Caller, 1, size)
		}
	}
}

func heldBy(list []registry.Holder, caller string) bool {
	return slices.ContainsFunc(list, func(h registry.Holder) bool { return h.Caller == caller })
}
