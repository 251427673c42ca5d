package store

// This file creates the buckets of a new store and migrates old ones.

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"
)

const storeMagic = "freshet store"

// migrations upgrade a file from version i to i+1; each runs in the transaction that
// opens the store. The first creates a store in an empty file. Their number is the version that this program
// reads and writes.
var migrations = []func(tx *bbolt.Tx) error{create}

func currentSchema() uint64 { return uint64(len(migrations)) }

func create(tx *bbolt.Tx) error {
	for _, name := range buckets() {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	m := tx.Bucket(bMeta)
	if err := m.Put(kMagic, []byte(storeMagic)); err != nil {
		return err
	}
	var c counters
	if err := c.save(tx); err != nil {
		return err
	}
	return m.Put(kSeed, key8(randomSeed()))
}

func randomSeed() uint64 {
	var seed [8]byte
	rand.Read(seed[:])
	return number(seed[:])
}

// schemaVersion returns the version of a file, 0 for an empty file.
func schemaVersion(tx *bbolt.Tx) (uint64, error) {
	m := tx.Bucket(bMeta)
	if m == nil {
		if k, _ := tx.Cursor().First(); k != nil {
			return 0, fmt.Errorf("%w (it holds other data)", ErrNotStore)
		}
		return 0, nil
	}
	if string(m.Get(kMagic)) != storeMagic {
		return 0, fmt.Errorf("%w (it holds other data)", ErrNotStore)
	}
	v := number(m.Get(kSchema))
	if v == 0 {
		return 0, fmt.Errorf("%w: it has no schema version: %s", ErrDamaged, putBackup)
	}
	if v > currentSchema() {
		return 0, fmt.Errorf("%w %d: this program knows up to %d; use the freshet that wrote the file, or a newer one, "+
			"or move its registrations: 'freshet store export' with that one, 'freshet store import' with this one", ErrSchema, v, currentSchema())
	}
	return v, nil
}

func migrate(tx *bbolt.Tx, from uint64) error {
	for v := from; v < currentSchema(); v++ {
		if err := migrations[v](tx); err != nil {
			return fmt.Errorf("bring the schema from version %d to %d: %w", v, v+1, err)
		}
	}
	return tx.Bucket(bMeta).Put(kSchema, key8(currentSchema()))
}

// randomText returns n random lower-case letters and digits.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}
