package store

import (
	"bytes"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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
	kCopy       = []byte("copy") // marks a copy made by Backup
	kCounters   = []byte("counters")
)

const magic = "freshet store"

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
		b = after(b)
	}
	return c
}

func (c *counters) fields() []*uint64 {
	return []*uint64{&c.offset, &c.trimmed, &c.revision, &c.serial, &c.logBytes, &c.queries}
}

func (c *counters) save(tx *bbolt.Tx) error {
	var b []byte
	for _, p := range c.fields() {
		b = binary.BigEndian.AppendUint64(b, *p)
	}
	return tx.Bucket(bMeta).Put(kCounters, b)
}

// schema is the version that this program reads and writes.
const schema = 8

// migrations upgrade a file from version i to i+1; each runs in the transaction that
// opens the store. The first creates a store in an empty file.
var migrations = [schema]func(tx *bbolt.Tx) error{create, addSubscriptions, addProfiles, upgradeHolders, renameHealth, addHoldings, addHoldings, compactRegistrations}

func addSubscriptions(tx *bbolt.Tx) error {
	_, err := tx.CreateBucketIfNotExists(bSubscriptions)
	return err
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
	if err := m.Put(kMagic, []byte(magic)); err != nil {
		return err
	}
	var c counters
	if err := c.save(tx); err != nil {
		return err
	}
	seed := make([]byte, 8)
	rand.Read(seed)
	return m.Put(kSeed, seed)
}

// version returns the schema version, 0 for an empty file.
func version(tx *bbolt.Tx) (uint64, error) {
	m := tx.Bucket(bMeta)
	if m == nil {
		if k, _ := tx.Cursor().First(); k != nil {
			return 0, fmt.Errorf("%w (it holds other data)", ErrNotStore)
		}
		return 0, nil
	}
	if string(m.Get(kMagic)) != magic {
		return 0, fmt.Errorf("%w (it holds other data)", ErrNotStore)
	}
	v := number(m.Get(kSchema))
	if v == 0 || v > schema {
		return 0, fmt.Errorf("%w %d: this program knows up to %d; use the freshet that wrote the file, or a newer one",
			ErrSchema, v, schema)
	}
	return v, nil
}

func migrate(tx *bbolt.Tx, from uint64) error {
	for v := from; v < schema; v++ {
		if err := migrations[v](tx); err != nil {
			return fmt.Errorf("bring the schema from version %d to %d: %w", v, v+1, err)
		}
	}
	return tx.Bucket(bMeta).Put(kSchema, key8(schema))
}

// randomText returns n random lower-case letters and digits.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}
