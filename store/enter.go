package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/freshet/freshet/store/replica"
	"go.etcd.io/bbolt"
)

// enterGeneration upgrades the schema and renews the generation. On a full disk, a store with
// the current schema is read-only until that is possible.
//
// With a journal, the file is identified by its position in the journal, so a copy continues
// the epoch. A new file gets its epoch and seed from the journal. A file with data that has not
// followed a journal yet is identified by its generation and by the number of its last
// transaction. Only the one that was last in use begins a journal, and its copies join that if
// their content is the same.
func (d *boltFile) enterGeneration(journaled bool) error {
	inode, err := inodeOf(d.path)
	if err != nil {
		return err
	}
	g := generationFile{d.path + generationSuffix}
	var from uint64
	var token string
	fresh, origin, member := "", "", false
	err = d.bolt.View(func(tx *bbolt.Tx) (err error) {
		d.durable.last.Store(int64(tx.ID()))
		if from, err = schemaVersion(tx); err != nil || from == 0 {
			return err
		}
		token = string(tx.Bucket(bMeta).Get(kGeneration))
		if tx.Bucket(bMeta).Get(kEpoch) != nil {
			origin = fmt.Sprintf("%s-%d", token, tx.ID())
			if tx.Bucket(bMeta).Get(kCopy) != nil { // that mark is a transaction that the original lacks
				origin += "-copy"
			}
		}
		follows := tx.Bucket(bMeta).Get(replica.Applied) != nil
		switch {
		case follows && journaled:
			member = true
		case follows:
			fresh = "it followed a journal, which other stores may continue"
		case tx.Bucket(bMeta).Get(kCopy) != nil:
			fresh = "this is a backup"
		}
		return nil
	})
	if err != nil {
		return err
	}
	if from > 0 && fresh == "" && !member {
		if _, fresh, err = g.trusts(token, inode); err != nil {
			return err
		}
	}
	switch {
	case !journaled, member:
		origin = ""
	case origin != "" && fresh != "":
		d.copied, fresh = fresh, ""
	}
	next := rand.Text()
	tokens := []string{next}
	if from > 0 && fresh == "" {
		tokens = append(tokens, token) // a crash before the commit leaves the current token in force
	}
	d.renewal = func() error {
		if err := g.write(inode, tokens...); err != nil {
			return err
		}
		tx, err := d.bolt.Begin(true)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := d.renew(tx, from, next, fresh, origin, journaled); err != nil {
			return err
		}
		if err := d.commit(tx); err != nil {
			return err
		}
		return g.write(inode, next)
	}
	err = d.renewal()
	if err == nil {
		d.entered.Store(true)
		return nil
	}
	if !isFull(err) || from < currentSchema() || fresh != "" || journaled {
		return err
	}
	// Existing data can be read and followed without a write.
	d.disk.markFull(err, 0)
	return d.look()
}

// look reads the epoch and the seed of a file that is not written. Its journal, if it follows one, goes on with them.
func (d *boltFile) look() error {
	return d.bolt.View(func(tx *bbolt.Tx) error {
		switch v, err := schemaVersion(tx); {
		case err != nil:
			return err
		case v == 0:
			return fmt.Errorf("%w (it is empty)", ErrNotStore)
		case v < currentSchema():
			return fmt.Errorf("%w %d: start the server once, which brings it to %d", ErrSchema, v, currentSchema())
		}
		d.durable.last.Store(int64(tx.ID()))
		d.epoch, d.seed = storeEpoch(tx.Bucket(bMeta).Get(kEpoch)), number(tx.Bucket(bMeta).Get(kSeed))
		return nil
	})
}

func (d *boltFile) renew(tx *bbolt.Tx, from uint64, token, fresh, origin string, journaled bool) error {
	if err := migrate(tx, from); err != nil {
		return err
	}
	m := tx.Bucket(bMeta)
	empty := m.Get(kEpoch) == nil
	if !journaled {
		err := emptied(tx, bNodes, bLeases) // those of a cluster that the file no longer belongs to
		for _, k := range [][]byte{replica.Applied, replica.State, replica.Diverged, kPurges, kOrigin, kTokens} {
			err = errors.Join(err, m.Delete(k))
		}
		if err != nil {
			return err
		}
	}
	if empty && !journaled || !empty && fresh != "" {
		if err := newEpoch(tx); err != nil {
			return err
		}
	}
	if fresh != "" {
		d.log.Warn("numbering begins again: followers will be sent a snapshot", "file", d.path, "reason", fresh,
			"epoch", string(m.Get(kEpoch)))
	}
	d.epoch = storeEpoch(m.Get(kEpoch))
	d.seed = number(m.Get(kSeed))
	err := m.Put(kGeneration, []byte(token))
	if origin != "" && m.Get(kOrigin) == nil {
		err = errors.Join(err, m.Put(kOrigin, []byte(origin)))
	}
	if d.copied != "" { // until it has joined a journal
		return errors.Join(err, m.Put(kCopy, []byte{1}))
	}
	return errors.Join(err, m.Delete(kCopy))
}

// newEpoch drops the logs that cannot be continued: changes, and rounds of profiles,
// whose intervals have ended.
func newEpoch(tx *bbolt.Tx) error {
	if err := emptied(tx, bChanges, bSnapshots, bOffsets, bOld, bRounds, bOpen, bEnds, bCaptures); err != nil {
		return err
	}
	c := loadCounters(tx)
	c.trimmed, c.logBytes = c.offset, 0
	if err := errors.Join(c.save(tx), closeRounds(tx)); err != nil {
		return err
	}
	return tx.Bucket(bMeta).Put(kEpoch, []byte(randomEpoch()))
}

func emptied(tx *bbolt.Tx, names ...[]byte) error {
	for _, name := range names {
		if err := tx.DeleteBucket(name); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return nil
}

// The first command of a journal.

// Errors of a store that does not belong to its journal.
var (
	errOther = errors.New("the journal was begun by another store: " +
		"start this node with an empty data directory or after freshet cluster rebuild, or give the cluster another name")
	errCopy = errors.New("this store is a copy, and the one that it was copied from has not begun the journal: " +
		"start that member, or start this server once without the block cluster, which begins a new epoch")
	errEmpty = errors.New("the journal was begun by a store that had data already, and this one is empty: " +
		"run freshet cluster rebuild with the URL of a running member, and start this node again. " +
		"If the cluster is new, and no majority of its members runs yet: " +
		"stop all, copy the freshet.db of the server with the data into the empty data directory of each other node, remove their " +
		"directories named journal, and start them all")
)

// A beginning is the first command of a journal. It gives all nodes the same epoch and seed.
type beginning struct {
	file  *boltFile
	Epoch storeEpoch
	Seed  uint64
	// Origin identifies the data of the store that begins the journal, which the journal does not
	// contain. It is empty if there is none.
	Origin string
}

func (c *beginning) kind() byte { return kindBegin }

func (c *beginning) frees() bool { return false }

func (c *beginning) Resume(*bbolt.Tx) error { return nil }

func (c *beginning) Apply(tx *bbolt.Tx) error {
	m := tx.Bucket(bMeta)
	switch own := storeEpoch(m.Get(kEpoch)); {
	case own == "" && c.Origin != "":
		return errEmpty
	case own != "" && (own != c.Epoch || c.Origin == "" || string(m.Get(kOrigin)) != c.Origin):
		return errOther
	}
	c.file.epoch, c.file.seed = c.Epoch, c.Seed
	return errors.Join(m.Put(kEpoch, []byte(c.Epoch)), m.Put(kSeed, key8(c.Seed)), m.Delete(kOrigin), m.Delete(kCopy))
}

// beginning returns the first command of a journal that this store begins.
func (d *boltFile) beginning() (replica.Command, error) {
	c := &beginning{Epoch: d.epoch, Seed: d.seed}
	if d.epoch == "" {
		c.Epoch, c.Seed = storeEpoch(randomEpoch()), randomSeed()
	}
	origin, err := fetch(d, func(tx *bbolt.Tx) (string, error) { return string(tx.Bucket(bMeta).Get(kOrigin)), nil })
	c.Origin = origin
	return c, err
}

func (c *beginning) touch(*Others) {}

const storeMagic = "freshet store"

// firstSchema is the version of the oldest files that are read. Nothing that was released has written older ones.
const firstSchema = 2

// migrations upgrade a file from one version to the next; each runs in the transaction that
// opens the store. The first creates a store of firstSchema in an empty file.
var migrations = []func(tx *bbolt.Tx) error{create, addFeeds}

// currentSchema is the version that this program writes.
func currentSchema() uint64 { return firstSchema - 1 + uint64(len(migrations)) }

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

func addFeeds(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bFeeds, bTouched, bTouches} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
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
	if v < firstSchema || v > currentSchema() {
		return 0, fmt.Errorf("%w %d: this program knows %d to %d; use the freshet that wrote the file, or a newer one, "+
			"or move its registrations: 'freshet store export' with that one, 'freshet store import' with this one", ErrSchema, v,
			firstSchema, currentSchema())
	}
	return v, nil
}

func migrate(tx *bbolt.Tx, from uint64) error {
	for v := max(from, firstSchema-1); v < currentSchema(); v++ {
		if err := migrations[v-firstSchema+1](tx); err != nil {
			return fmt.Errorf("bring the schema from version %d to %d: %w", v, v+1, err)
		}
	}
	return tx.Bucket(bMeta).Put(kSchema, key8(currentSchema()))
}

// randomEpoch returns eight random lower-case letters and digits.
func randomEpoch() string { return strings.ToLower(rand.Text()[:8]) }
