package store

import "go.etcd.io/bbolt"

// Size returns the size of the file in bytes and the number of them that are free for
// reuse; "store compact" releases those.
func (d *DB) Size() (size, free int64, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		size = tx.Size()
		return nil
	})
	return size, int64(d.bolt.Stats().FreeAlloc), err
}
