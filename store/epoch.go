package store

import "strconv"

// An epoch is the store's epoch, which scopes offsets.
type epoch string

// of returns the epoch of a query or profile. It combines the store's epoch with a serial
// number, which differs after the query is registered again.
func (e epoch) of(serial uint64) string {
	return string(e) + "-" + strconv.FormatUint(serial, 36)
}
