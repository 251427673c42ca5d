package store

// This file creates the buckets of a new store and migrates old ones.

import (
	"bytes"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const storeMagic = "freshet store"

// currentSchema is the version that this program reads and writes.
const currentSchema = 10

// migrations upgrade a file from version i to i+1; each runs in the transaction that
// opens the store. The first creates a store in an empty file.
var migrations = [currentSchema]func(tx *bbolt.Tx) error{create, addSubscriptions, addProfiles, upgradeHolders, renameHealth, addHoldings, addHoldings, compactRegistrations, addSnapshots, dropMembers}

func addSubscriptions(tx *bbolt.Tx) error {
	_, err := tx.CreateBucketIfNotExists(bSubscriptions)
	return err
}

// addSnapshots prepares for results beside the log. The changes so far have none.
func addSnapshots(tx *bbolt.Tx) error {
	_, err := tx.CreateBucketIfNotExists(bSnapshots)
	return err
}

// dropMembers removes the index that listed the queries of each endpoint. Queries that were
// never executed keep their entries in stats, which new ones do not have.
func dropMembers(tx *bbolt.Tx) error {
	if err := tx.DeleteBucket([]byte("members")); err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
		return err
	}
	return nil
}

func addProfiles(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bProfiles, bProgress, bRounds, bOpen, bEnds, bCaptures, bModels} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// upgradeHolders gives each holder its own pause and consent. It runs before any loop,
// so no query needs a new revision.
func upgradeHolders(tx *bbolt.Tx) error {
	var changed []storedQuery
	err := tx.Bucket(bQueries).ForEach(func(id, v []byte) error {
		if !bytes.Contains(v, []byte(`"pause":`)) && !bytes.Contains(v, []byte(`"public":`)) {
			return nil
		}
		s, err := parseQuery(string(id), v)
		if err != nil {
			return fmt.Errorf("query %s: %w", id, err)
		}
		if !s.Upgrade() {
			return nil
		}
		s.body = appendRegistration(nil, &s.Query)
		changed = append(changed, s)
		return nil
	})
	for _, s := range changed {
		err = errors.Join(err, s.save(tx))
	}
	return err
}

// renameHealth replaces the former name of a failing endpoint's state, "open", with
// the current one.
func renameHealth(tx *bbolt.Tx) error {
	b, c := tx.Bucket(bHealth), tx.Bucket(bHealth).Cursor()
	renamed := map[string][]byte{}
	for k, v := c.First(); k != nil; k, v = c.Next() {
		var h registry.Health
		if len(k) != 8 || json.Unmarshal(v, &h) != nil || h.State != "open" {
			continue
		}
		h.State = registry.HealthFailing
		v, err := json.Marshal(h)
		if err != nil {
			return err
		}
		renamed[string(k)] = v
	}
	for k, v := range renamed {
		if err := b.Put([]byte(k), v); err != nil {
			return err
		}
	}
	return nil
}

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
	if v > currentSchema {
		return 0, fmt.Errorf("%w %d: this program knows up to %d; use the freshet that wrote the file, or a newer one",
			ErrSchema, v, currentSchema)
	}
	return v, nil
}

func migrate(tx *bbolt.Tx, from uint64) error {
	for v := from; v < currentSchema; v++ {
		if err := migrations[v](tx); err != nil {
			return fmt.Errorf("bring the schema from version %d to %d: %w", v, v+1, err)
		}
	}
	return tx.Bucket(bMeta).Put(kSchema, key8(currentSchema))
}

// randomText returns n random lower-case letters and digits.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// addHoldings computes the counts for a file of an older schema, which had none or
// only some of them.
func addHoldings(tx *bbolt.Tx) error {
	if err := tx.DeleteBucket(bHoldings); err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
		return err
	}
	b, err := tx.CreateBucket(bHoldings)
	if err != nil {
		return err
	}
	all, err := countHoldings(tx)
	if err != nil {
		return err
	}
	for _, caller := range slices.Sorted(maps.Keys(all)) {
		if err := b.Put(holdingsKey(caller), appendHoldings(all[caller])); err != nil {
			return err
		}
	}
	return nil
}

// compactRegistrations rewrites registrations that are JSON. It sets aside those that it
// cannot read, so that they do not prevent the use of the others.
func compactRegistrations(tx *bbolt.Tx) error {
	var unreadable []string
	b := tx.Bucket(bQueries)
	next := []byte{}
	for next != nil {
		var some []storedQuery // a cursor is invalid after a Put
		c := b.Cursor()
		k, v := c.Seek(next)
		for ; k != nil && len(some) < 1000; k, v = c.Next() {
			s, err := parseQuery(string(k), v)
			if err != nil {
				unreadable = append(unreadable, string(k))
				continue
			}
			some = append(some, s)
		}
		next = bytes.Clone(k)
		for i := range some {
			some[i].body = appendRegistration(nil, &some[i].Query)
			if err := some[i].save(tx); err != nil {
				return err
			}
		}
	}
	return setAside(tx, unreadable)
}

// setAside moves registrations that cannot be read to the bucket unreadable, and removes
// the queries.
func setAside(tx *bbolt.Tx, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	b, err := tx.CreateBucketIfNotExists(bUnreadable)
	if err != nil {
		return err
	}
	sums := newTotals(tx)
	for _, id := range ids {
		v := bytes.Clone(tx.Bucket(bQueries).Get([]byte(id)))
		if len(v) < queryHead {
			return fmt.Errorf("query %s: %w: a registration is missing: %s", id, ErrDamaged, putBackup)
		}
		s := storedQuery{serial: number(v), space: number(v[8:]), revision: number(v[16:])}
		s.ID, s.Endpoint = id, owner(tx, s.space)
		remove := removeQuery
		if s.Endpoint == "" { // the query waits for the purge with its endpoint
			remove = discard
		}
		if err := errors.Join(b.Put([]byte(id), v), remove(sums, &s)); err != nil {
			return err
		}
	}
	if err := sums.save(); err != nil {
		return err
	}
	for _, x := range []struct {
		bucket []byte
		query  func(k, v []byte) []byte
	}{
		{bNames, func(_, v []byte) []byte { return v }},
		{bLive, func(k, _ []byte) []byte { id, _, _ := bytes.Cut(k, []byte{0}); return id }},
	} {
		if err := each(tx.Bucket(x.bucket), nil, func(c *bbolt.Cursor, k, v []byte) (bool, error) {
			if slices.Contains(ids, string(x.query(k, v))) {
				return true, c.Delete()
			}
			return true, nil
		}); err != nil {
			return err
		}
	}
	return addHoldings(tx)
}

// reportUnreadable logs the registrations that were set aside and not made again.
func (d *boltFile) reportUnreadable(tx *bbolt.Tx) error {
	b := tx.Bucket(bUnreadable)
	if b == nil {
		return nil
	}
	return b.ForEach(func(id, _ []byte) error {
		if tx.Bucket(bQueries).Get(id) == nil {
			d.log.Error("a registration could not be read when the store was brought to the present schema, and its query was removed: register it again",
				"file", d.path, "query", string(id))
		}
		return nil
	})
}
