package store

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// Check verifies the whole store and returns all inconsistencies joined into one
// error. It checks the pages of the file, each registration and its indexes, each
// result and its hash, the numbering of changes per query and overall, and that each
// change starts from the hash of the previous one. Reads continue meanwhile; writes
// wait while the pages are checked.
func (d *DB) Check() error {
	err := walk(d.path, true)
	if err == nil {
		err = guarded(d.check)
	} else {
		err = fmt.Errorf("check %s: %w", d.path, err)
	}
	return err
}

func (d *DB) check() error {
	c := checker{pack: d.pack, serials: map[uint64]string{}, gone: map[uint64]bool{}}
	if err := c.pages(d.boltFile); err != nil {
		return fmt.Errorf("check %s: %w", d.path, err)
	}
	err := d.view(func(tx *bbolt.Tx) error {
		c.tx = tx
		for _, part := range []func() error{c.spaces, c.registrations, c.pending, c.orphans, c.log, c.old, c.subscriptions, c.rules, c.profiles, c.holdings} {
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

// pages checks the file's page structure. It needs the list of free pages, which only
// a write transaction may read.
func (c *checker) pages(f *boltFile) error {
	tx, err := f.bolt.Begin(true)
	if err != nil {
		return err
	}
	for err := range tx.Check() {
		c.found("pages: %v", err)
	}
	return tx.Rollback()
}
