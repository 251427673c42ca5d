package store

import (
	"encoding/binary"

	"go.etcd.io/bbolt"
)

// Keys of the meta bucket.
var (
	kMagic      = []byte("magic")
	kSchema     = []byte("schema")
	kSeed       = []byte("seed")
	kEpoch      = []byte("epoch")
	kGeneration = []byte("generation")
	kCopy       = []byte("copy") // marks a copy made by Backup, or one that waits for a journal
	kCounters   = []byte("counters")

	// Only with a journal.
	kApplied = []byte("applied") // the number and the hash of the entry that was applied last
	kPurges  = []byte("purges")  // number of the last step of the purge
	kOrigin  = []byte("origin")  // identifies the content with which a store comes to a journal (see enter)
)

// counters are stored as one value, which each transaction that assigns a number
// rewrites.
type counters struct {
	offset   uint64 // of the newest change
	trimmed  uint64 // largest offset of a change that retention dropped
	revision uint64 // of the newest registration or removal
	serial   uint64 // the last one assigned to a query or an endpoint
	logBytes uint64 // size of the change log
	queries  uint64 // number of live queries
}

func loadCounters(tx *bbolt.Tx) (c counters) {
	b := tx.Bucket(bMeta).Get(kCounters)
	for _, p := range c.fields() {
		*p = number(b)
		b = skipNumber(b)
	}
	return c
}

func (c *counters) fields() [6]*uint64 {
	return [...]*uint64{&c.offset, &c.trimmed, &c.revision, &c.serial, &c.logBytes, &c.queries}
}

func (c *counters) save(tx *bbolt.Tx) error {
	fields := c.fields()
	b := make([]byte, 0, 8*len(fields))
	for _, p := range fields {
		b = binary.BigEndian.AppendUint64(b, *p)
	}
	return tx.Bucket(bMeta).Put(kCounters, b)
}
