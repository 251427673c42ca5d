// The first command of a journal.

package store

import (
	"context"
	"errors"

	"go.etcd.io/bbolt"
)

// beginID is the id of the first command of every journal.
const beginID = "begin"

// Errors of a store that does not belong to its journal.
var (
	errOther = errors.New("the journal was begun by another store: start this node with an empty data directory or from a backup of a member, or give the cluster another name")
	errEmpty = errors.New("the journal was begun by a store that had data already: start this node from a backup of a member")
)

// A beginning is the first command of a journal. It gives all nodes the same epoch and seed.
type beginning struct {
	file  *boltFile
	epoch storeEpoch
	seed  uint64
	data  bool // the store that begins the journal has data that the journal does not contain
}

func (c *beginning) kind() byte { return kindBegin }

func (c *beginning) frees() bool { return false }

func (c *beginning) append(b []byte) ([]byte, error) {
	return putBool(append(putText(b, string(c.epoch)), key8(c.seed)...), c.data), nil
}

func (c *beginning) decode(in *scan) {
	c.epoch, c.seed, c.data = storeEpoch(in.text()), in.fixed(), in.bool()
}

func (c *beginning) resume(*bbolt.Tx) error { return nil }

func (c *beginning) apply(tx *bbolt.Tx) error {
	m := tx.Bucket(bMeta)
	switch own := storeEpoch(m.Get(kEpoch)); {
	case own == "" && c.data:
		return errEmpty
	case own != "" && own != c.epoch:
		return errOther
	}
	c.file.epoch, c.file.seed = c.epoch, c.seed
	return errors.Join(m.Put(kEpoch, []byte(c.epoch)), m.Put(kSeed, key8(c.seed)))
}

// begin appends the first command if the journal is empty. The file has not applied any.
func (r *replica) begin(ctx context.Context) error {
	head, err := r.head(ctx)
	if err != nil {
		return err
	}
	d := r.file
	switch {
	case head.Seq > 0 && d.epoch != "":
		return errOther
	case head.Seq > 0:
		return nil
	}
	c := &beginning{epoch: d.epoch, seed: d.seed, data: d.epoch != ""}
	if !c.data {
		c.epoch, c.seed = storeEpoch(randomText(5)), randomSeed()
	}
	form, err := encodeCommand(c)
	if err == nil {
		_, err = r.journal.Append(ctx, beginID, form)
	}
	return err
}
