package store

import "go.etcd.io/bbolt"

// Size tells how many bytes the file has, and how many of them are free to be
// used again; "store compact" gives those back.
func (d *DB) Size() (size, free int64, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		size = tx.Size()
		return nil
	})
	return size, int64(d.bolt.Stats().FreeAlloc), err
}
