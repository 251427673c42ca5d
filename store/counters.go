package store

import (
	"errors"
	"slices"

	"github.com/freshet/freshet/registry"
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
	kAging      = []byte("aging") // what time it is as far as ages are concerned

	// Only with a journal, like the entries of package replica.
	kPurges = []byte("purges") // number of the last step of the purge
	kOrigin = []byte("origin") // identifies the content with which a store comes to a journal (see enterGeneration)
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
	numbers(tx.Bucket(bMeta).Get(kCounters), c.fields()...)
	return c
}

func (c *counters) fields() []*uint64 {
	return []*uint64{&c.offset, &c.trimmed, &c.revision, &c.serial, &c.logBytes, &c.queries}
}

func (c *counters) save(tx *bbolt.Tx) error {
	return tx.Bucket(bMeta).Put(kCounters, putNumbers(c.fields()...))
}

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

func (s *storedSpace) fields() []*uint64 {
	return []*uint64{&s.number, &s.queries, &s.removals, &s.floor, &s.profiled}
}

func findSpace(tx *bbolt.Tx, name string) (storedSpace, bool) {
	s := storedSpace{name: name}
	if name == "" {
		return s, false
	}
	b := tx.Bucket(bSpaces).Get([]byte(name))
	if b == nil {
		return s, false
	}
	numbers(b, s.fields()...)
	return s, true
}

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
	return tx.Bucket(bSpaces).Put([]byte(s.name), putNumbers(s.fields()...))
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

// What each caller holds is counted, so that checking a limit does not read all queries. Queries and profiles of a
// deleted endpoint count until they are purged.

func loadHoldings(tx *bbolt.Tx, caller string) registry.Holdings {
	var queries, bytes, profiles uint64
	numbers(tx.Bucket(bHoldings).Get(holdingsKey(caller)), &queries, &bytes, &profiles)
	return registry.Holdings{Queries: int(queries), Bytes: int64(bytes), Profiles: int(profiles)}
}

// holdingsKey is never empty.
func holdingsKey(caller string) []byte { return append([]byte{'c'}, caller...) }

func addToHoldings(tx *bbolt.Tx, caller string, more registry.Holdings) error {
	h := loadHoldings(tx, caller)
	h.Queries, h.Bytes, h.Profiles = h.Queries+more.Queries, h.Bytes+more.Bytes, h.Profiles+more.Profiles
	if h == (registry.Holdings{}) {
		return tx.Bucket(bHoldings).Delete(holdingsKey(caller))
	}
	queries, bytes, profiles := uint64(h.Queries), uint64(h.Bytes), uint64(h.Profiles)
	return tx.Bucket(bHoldings).Put(holdingsKey(caller), putNumbers(&queries, &bytes, &profiles))
}

// account updates the counts from a query's old holders to its new ones.
func account(t *totals, q *registry.Query, had, has []registry.Holder) {
	size := q.Size()
	for _, h := range had {
		if !heldBy(has, h.Caller) {
			t.hold(h.Caller, -1, -size)
		}
	}
	for _, h := range has {
		if !heldBy(had, h.Caller) {
			t.hold(h.Caller, 1, size)
		}
	}
}

func heldBy(list []registry.Holder, caller string) bool {
	return slices.ContainsFunc(list, func(h registry.Holder) bool { return h.Caller == caller })
}

// totals are the counters, spaces and holdings that an edit of queries changes. They are written once, at its end.
type totals struct {
	tx       *bbolt.Tx
	counters counters
	spaces   map[string]*storedSpace
	holdings map[string]registry.Holdings // what to add
}

func newTotals(tx *bbolt.Tx) *totals {
	return &totals{tx, loadCounters(tx), map[string]*storedSpace{}, map[string]registry.Holdings{}}
}

// space is findSpace. The caller may modify the space.
func (t *totals) space(name string) (*storedSpace, bool) {
	if s := t.spaces[name]; s != nil {
		return s, true
	}
	s, ok := findSpace(t.tx, name)
	if ok {
		t.spaces[name] = &s
	}
	return &s, ok
}

func (t *totals) hold(caller string, queries int, bytes int64) {
	h := t.holdings[caller]
	h.Queries, h.Bytes = h.Queries+queries, h.Bytes+bytes
	t.holdings[caller] = h
}

func (t *totals) held(caller string) registry.Holdings {
	h, more := loadHoldings(t.tx, caller), t.holdings[caller]
	h.Queries, h.Bytes = h.Queries+more.Queries, h.Bytes+more.Bytes
	return h
}

// save writes the totals. They must not be used afterwards.
func (t *totals) save() error {
	err := t.counters.save(t.tx)
	for _, s := range t.spaces {
		err = errors.Join(err, s.save(t.tx))
	}
	return errors.Join(err, t.saveHoldings())
}

func (t *totals) saveHoldings() (err error) {
	for caller, more := range t.holdings {
		err = errors.Join(err, addToHoldings(t.tx, caller, more))
	}
	return err
}

// kTokens is the entry of meta that has the last fencing token.
var kTokens = []byte("tokens")
