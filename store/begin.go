// The first command of a journal.

package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// beginID is the id of the first command of every journal.
const beginID = "begin"

// Errors of a store that does not belong to its journal.
var (
	errOther = errors.New("the journal was begun by another store: start this node with an empty data directory or after freshet cluster rebuild, or give the cluster another name")
	errCopy  = errors.New("this store is a copy, and the one that it was copied from has not begun the journal: start that member, or start this server once without the block cluster, which begins a new epoch")
	errEmpty = errors.New("the journal was begun by a store that had data already, and this one is empty: run freshet cluster rebuild with the URL of a running member, and start this node again. If the cluster is new, and no majority of its members runs yet: stop all, copy the freshet.db of the server with the data into the empty data directory of each other node, remove their directories named journal, and start them all")
)

// A beginning is the first command of a journal. It gives all nodes the same epoch and seed.
type beginning struct {
	file  *boltFile
	epoch storeEpoch
	seed  uint64
	// origin identifies the data of the store that begins the journal, which the journal does not
	// contain. It is empty if there is none.
	origin string
}

func (c *beginning) kind() byte { return kindBegin }

func (c *beginning) frees() bool { return false }

func (c *beginning) append(b []byte) ([]byte, error) {
	return putText(append(putText(b, string(c.epoch)), key8(c.seed)...), c.origin), nil
}

func (c *beginning) decode(in *scan) {
	c.epoch, c.seed, c.origin = storeEpoch(in.text()), in.fixed(), in.text()
}

func (c *beginning) resume(*bbolt.Tx) error { return nil }

func (c *beginning) apply(tx *bbolt.Tx) error {
	m := tx.Bucket(bMeta)
	switch own := storeEpoch(m.Get(kEpoch)); {
	case own == "" && c.origin != "":
		return errEmpty
	case own != "" && (own != c.epoch || c.origin == "" || string(m.Get(kOrigin)) != c.origin):
		return errOther
	}
	c.file.epoch, c.file.seed = c.epoch, c.seed
	return errors.Join(m.Put(kEpoch, []byte(c.epoch)), m.Put(kSeed, key8(c.seed)), m.Delete(kOrigin), m.Delete(kCopy))
}

// begin appends the first command if the journal is empty. The file has not applied any. A copy
// waits for the store that it was copied from.
func (r *replica) begin(ctx context.Context) error {
	d := r.file
	for empty := false; ; empty = true {
		head, err := r.head(ctx)
		switch {
		case err == nil && head.Seq > 0:
			return nil
		case empty && ctx.Err() != nil:
			return fmt.Errorf("%w (%s)", errCopy, d.copied)
		case err != nil:
			return err
		}
		if d.copied == "" {
			break
		}
		_ = pause(ctx) // the journal may have been begun when ctx ends
	}
	c := &beginning{epoch: d.epoch, seed: d.seed}
	if d.epoch == "" {
		c.epoch, c.seed = storeEpoch(randomText(5)), randomSeed()
	}
	origin, err := fetch(d, func(tx *bbolt.Tx) (string, error) { return string(tx.Bucket(bMeta).Get(kOrigin)), nil })
	if err != nil {
		return err
	}
	c.origin = origin
	form, err := encodeCommand(c)
	if err == nil {
		_, err = r.journal.Append(ctx, beginID, form)
	}
	return err
}
