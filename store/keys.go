package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// This file names the buckets of the store and writes their keys.

var (
	bMeta      = []byte("meta")
	bSpaces    = []byte("spaces")
	bOwners    = []byte("owners")
	bEndpoints = []byte("endpoints")
	bHealth    = []byte("health")
	bSlots     = []byte("slots")
	bQueries   = []byte("queries")
	bStats     = []byte("stats")
	bNames     = []byte("names")
	bLive      = []byte("live")
	bRevisions = []byte("revisions")
	bRemovals  = []byte("removals")
	bResults   = []byte("results")
	bChanges   = []byte("changes")
	bSnapshots = []byte("snapshots") // past results, by query number and seq
	bOffsets   = []byte("offsets")
	bOld       = []byte("old")
	bPurge     = []byte("purge")
	bTokens    = []byte("tokens")
	bHoldings  = []byte("holdings") // the number of queries and profiles of each caller

	bSubscriptions = []byte("subscriptions")

	bProfiles = []byte("profiles") // registrations, by id
	bProgress = []byte("progress") // their state, by id
	bRounds   = []byte("rounds")   // by profile number and round
	bOpen     = []byte("open")     // the open rounds
	bEnds     = []byte("ends")     // by profile number and position among its ends: the round
	bCaptures = []byte("captures") // by profile number and capture: its position among the ends
	bModels   = []byte("models")   // of queries that profiles predict, by id

	bRules      = []byte("rules")      // by id
	bRuleStates = []byte("rulestates") // by id; under keys with the id, also its alerts and events
	bAlerts     = []byte("alerts")     // messages that are not delivered, by receiver and number
	bAlertBytes = []byte("alertbytes") // how many bytes of them there are, by caller and receiver

	bFeeds   = []byte("feeds")   // name → proof.Feed, as JSON; 0, name → its cursor, which may be long
	bTouched = []byte("touched") // by query id: serial, space, revision, proof.Touch as JSON
	bTouches = []byte("touches") // by space, revision and query id

	bNodes  = []byte("nodes")  // name → registry.Node, as JSON
	bLeases = []byte("leases") // key → Lease, as JSON
)

// buckets of a new store, all of them on the top level.
func buckets() [][]byte {
	return [][]byte{bMeta, bSpaces, bOwners, bEndpoints, bHealth, bSlots, bQueries, bStats, bNames,
		bLive, bRevisions, bRemovals, bResults, bChanges, bOffsets, bOld, bPurge, bTokens, bSubscriptions,
		bProfiles, bProgress, bRounds, bOpen, bEnds, bCaptures, bModels, bHoldings, bSnapshots,
		bRules, bRuleStates, bAlerts, bAlertBytes, bNodes, bLeases, bFeeds, bTouched, bTouches}
}

func key8(a uint64) []byte { return binary.BigEndian.AppendUint64(nil, a) }

func key16(a, b uint64) []byte {
	k := binary.BigEndian.AppendUint64(make([]byte, 0, 16), a)
	return binary.BigEndian.AppendUint64(k, b)
}

func number(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// numbers reads numbers that follow each other. Those that are missing are 0.
func numbers(b []byte, to ...*uint64) {
	for _, n := range to {
		*n = number(b)
		b = skipNumber(b)
	}
}

// putNumbers is the reverse of numbers.
func putNumbers(from ...*uint64) (b []byte) {
	for _, n := range from {
		b = binary.BigEndian.AppendUint64(b, *n)
	}
	return b
}

// skipNumber removes the number at the front of a key or value.
func skipNumber(b []byte) []byte { return b[min(8, len(b)):] }

// Names are indexed in two orders: for all callers, oldest query first, and per
// caller. The reader of an entry compares it with the query, because a name may
// contain any byte.
func nameKey(name string, serial uint64, caller string) []byte {
	k := append(make([]byte, 0, 10+len(name)+len(caller)), 'n')
	k = append(append(k, name...), 0)
	k = binary.BigEndian.AppendUint64(k, serial)
	return append(k, caller...)
}

func callerKey(caller, name string, serial uint64) []byte {
	k := append(make([]byte, 0, 11+len(name)+len(caller)), 'c')
	k = append(append(k, caller...), 0)
	k = append(append(k, name...), 0)
	return binary.BigEndian.AppendUint64(k, serial)
}

func liveKey(id, caller string) []byte {
	k := append([]byte(id), 0)
	return append(k, caller...)
}

// each calls f for the entries whose keys begin with prefix until f returns false. f
// must delete entries with the cursor's Delete.
func each(b *bbolt.Bucket, prefix []byte, f func(c *bbolt.Cursor, k, v []byte) (bool, error)) error {
	c := b.Cursor()
	for k, v := c.Seek(prefix); k != nil && hasPrefix(k, prefix); k, v = c.Next() {
		if more, err := f(c, k, v); err != nil || !more {
			return err
		}
	}
	return nil
}

func hasPrefix(k, prefix []byte) bool {
	return len(k) >= len(prefix) && string(k[:len(prefix)]) == string(prefix)
}

// Kinds of tasks in the bucket purge.
const (
	purgeHistory byte = 'h' // data of a query, by its serial number
	purgeSpace   byte = 's' // data of an endpoint, by its space number
	purgeRounds  byte = 'r' // data of a profile, by its serial number
)

func purgeKey(kind byte, n uint64) []byte { return append([]byte{kind}, key8(n)...) }

// An ascendingReader reads the values of keys that are asked for in ascending order. Keys that
// follow each other in the bucket cost a fraction of a search.
type ascendingReader struct {
	c    *bbolt.Cursor
	k, v []byte
}

// get returns the value of a key, nil if there is none.
func (a *ascendingReader) get(key []byte) []byte {
	if a.k != nil && bytes.Compare(a.k, key) < 0 {
		a.k, a.v = a.c.Next()
	}
	if a.k == nil || bytes.Compare(a.k, key) < 0 {
		a.k, a.v = a.c.Seek(key)
	}
	if !bytes.Equal(a.k, key) {
		return nil
	}
	return a.v
}

// lastWith returns the last key with an eight-byte prefix, and its value.
func lastWith(b *bbolt.Bucket, prefix []byte) (k, v []byte) {
	c := b.Cursor()
	if k, _ = c.Seek(key8(number(prefix) + 1)); k == nil {
		k, v = c.Last()
	} else {
		k, v = c.Prev()
	}
	if !hasPrefix(k, prefix) {
		return nil, nil
	}
	return k, v
}

// pageBytes is the approximate maximum size of an unpacked page: for changes, of their
// rows; for queries, of their texts.
const pageBytes = 4 << 20

// deleteUntil deletes the entries from a key until before another one.
func deleteUntil(b *bbolt.Bucket, from, to []byte) error {
	c := b.Cursor()
	for k, _ := c.Seek(from); k != nil && bytes.Compare(k, to) < 0; k, _ = c.Seek(from) {
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// A storeEpoch is the epoch of the store, which scopes offsets.
type storeEpoch string

// of returns the epoch of a query or profile. It combines the store's epoch with a serial
// number, which differs after the query is registered again.
func (e storeEpoch) of(serial uint64) string {
	return string(e) + "-" + strconv.FormatUint(serial, 36)
}

// queryHead is the size of the keys before a registration.
const queryHead = 24

func notFoundIsFine(err error) error {
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	return err
}
