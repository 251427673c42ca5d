package store

import (
	"bytes"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// Check verifies the whole store and returns all inconsistencies joined into one
// error. It reads all keys of the file, and checks each registration and its indexes, each
// result and its hash, the numbering of changes per query and overall, and that each
// change starts from the hash of the previous one. Reads and writes continue meanwhile.
func (d *DB) Check() error {
	return guarded(d.check)
}

func (d *DB) check() error {
	c := checker{pack: d.pack, serials: map[uint64]string{}, gone: map[uint64]bool{}}
	err := d.view(func(tx *bbolt.Tx) error {
		c.tx = tx
		for _, part := range []func() error{c.keys, c.spaces, c.registrations, c.pending, c.orphans, c.log, c.old, c.subscriptions, c.rules, c.profiles, c.holdings} {
			if err := part(); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(append(c.findings, err)...); err != nil {
		return fmt.Errorf("check %s: %w: %w", d.path, ErrDamaged, err)
	}
	return nil
}

// keys reads all keys and values. A page that comes again has keys that do not increase, so the walk ends.
func (c *checker) keys() error {
	return c.tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		var last []byte
		cur := b.Cursor()
		for k, v := cur.First(); k != nil; k, v = cur.Next() {
			if last != nil && bytes.Compare(k, last) <= 0 || v == nil {
				return fmt.Errorf("%s: a key is out of place", name)
			}
			last = append(last[:0], k...)
		}
		return nil
	})
}
