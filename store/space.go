package store

import (
	"encoding/binary"

	"go.etcd.io/bbolt"
)

// A storedSpace identifies an endpoint for its lifetime. An endpoint created later under the
// same name gets another number and shares no data with this one.
type storedSpace struct {
	name     string
	number   uint64
	queries  uint64
	removals uint64 // number of entries in the removals bucket
	floor    uint64 // revision up to which removals are no longer listed
	profiled uint64 // revision of the newest profile or its removal
}

func (s *storedSpace) fields() [5]*uint64 {
	return [...]*uint64{&s.number, &s.queries, &s.removals, &s.floor, &s.profiled}
}

// findSpace returns the space of an endpoint, and false if it has none.
func findSpace(tx *bbolt.Tx, name string) (storedSpace, bool) {
	s := storedSpace{name: name}
	if name == "" {
		return s, false
	}
	b := tx.Bucket(bSpaces).Get([]byte(name))
	if b == nil {
		return s, false
	}
	for _, p := range s.fields() {
		*p = number(b)
		b = skipNumber(b)
	}
	return s, true
}

// ensureSpace returns the space, creating it if needed.
func ensureSpace(tx *bbolt.Tx, c *counters, name string) (storedSpace, error) {
	s, ok := findSpace(tx, name)
	if ok {
		return s, nil
	}
	c.serial++
	s.number, s.floor = c.serial, c.revision
	return s, tx.Bucket(bOwners).Put(key8(s.number), []byte(name))
}

func (s *storedSpace) save(tx *bbolt.Tx) error {
	fields := s.fields()
	b := make([]byte, 0, 8*len(fields))
	for _, p := range fields {
		b = binary.BigEndian.AppendUint64(b, *p)
	}
	return tx.Bucket(bSpaces).Put([]byte(s.name), b)
}

// owner returns the endpoint of a space number, "" if it was removed.
func owner(tx *bbolt.Tx, number uint64) string {
	return string(tx.Bucket(bOwners).Get(key8(number)))
}

// owned reports whether the endpoint of a space number exists.
func owned(tx *bbolt.Tx, number uint64) bool {
	return len(tx.Bucket(bOwners).Get(key8(number))) > 0
}

// maxRemovals is the number of removals per endpoint that Since can report.
const maxRemovals = 10_000

// addRemoval records a removal and deletes the oldest beyond the limit.
func (s *storedSpace) addRemoval(tx *bbolt.Tx, revision uint64, id string) error {
	b := tx.Bucket(bRemovals)
	if err := b.Put(key16(s.number, revision), []byte(id)); err != nil {
		return err
	}
	s.removals++
	c := b.Cursor()
	for k, _ := c.Seek(key8(s.number)); s.removals > maxRemovals && hasPrefix(k, key8(s.number)); k, _ = c.Seek(key8(s.number)) {
		s.floor = number(skipNumber(k))
		if err := c.Delete(); err != nil {
			return err
		}
		s.removals--
	}
	return nil
}
