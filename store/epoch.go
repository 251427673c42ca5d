package store

import "strconv"

// A storeEpoch is the epoch of the store, which scopes offsets.
type storeEpoch string

// of returns the epoch of a query or profile. It combines the store's epoch with a serial
// number, which differs after the query is registered again.
func (e storeEpoch) of(serial uint64) string {
	return string(e) + "-" + strconv.FormatUint(serial, 36)
}
