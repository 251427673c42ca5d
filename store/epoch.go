package store

import (
	"strconv"

	"github.com/freshet/freshet/registry"
)

// queryEpoch combines the store's epoch with the query's serial number, which differs
// after a query is registered again.
func (d *DB) queryEpoch(serial uint64) string {
	return d.epoch + "-" + strconv.FormatUint(serial, 36)
}

func (d *DB) position(r *record) registry.Position {
	return registry.Position{Epoch: d.queryEpoch(r.serial), Seq: r.seq}
}
