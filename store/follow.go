// What a store with a journal does.

package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/replica"
	"github.com/zeebo/xxh3"
	"go.etcd.io/bbolt"
)

// ErrNoJournal is wrapped by the errors of a store whose journal does not answer.
var ErrNoJournal = replica.ErrNoJournal

// compareEvery is the number of entries between two comparisons of nodes, 0 for the usual one. Tests lower it.
var compareEvery uint64

// follow brings the file to the end of the journal and keeps following it.
func (d *boltFile) follow(j journal.Journal, patience time.Duration) (err error) {
	o := replica.Options{
		Journal: j, Log: d.log, Patience: patience, CompareEvery: compareEvery, Bucket: bMeta,
		View: d.view,
		Edit: func(f func(tx *bbolt.Tx) error) error {
			return d.edit(func(tx *bbolt.Tx) (bool, error) { return false, f(tx) })
		},
		Refusal: func() error { return cmp.Or(d.breakage(), d.disk.refusal()) },
		Encode:  func(c replica.Command) ([]byte, error) { return encodeCommand(c.(command)) },
		Decode:  func(form []byte) (replica.Command, error) { return d.decodeCommand(form) },
		First:   d.beginning,
		Digest:  digest,
		Ends: func(err error) bool {
			return errors.Is(err, ErrDamaged) || errors.Is(err, errOther) || errors.Is(err, errEmpty)
		},
		Applied: d.applied, Foreign: d.others.add,
		Failed: func(err error) { d.breaks(untrusted(err)) },
	}
	if d.copied != "" {
		o.Copied = fmt.Errorf("%w (%s)", errCopy, d.copied)
	}
	d.replica, err = replica.Start(o)
	return untrusted(err)
}

// untrusted adds to the error of a replica that its file is damaged.
func untrusted(err error) error {
	if errors.Is(err, replica.ErrDiverged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// applied is called with what a transaction has applied.
func (d *boltFile) applied(list []replica.Answer) {
	var done []command
	for _, a := range list {
		if c, ok := a.Command.(command); ok && a.Err == nil {
			done = append(done, c)
		}
	}
	d.refresh(done...)
	d.wakePurge()
	d.wakeLeases(list)
}

// digest adds what a command has done: the counters after it, and the records that a batch has written.
func digest(b []byte, tx *bbolt.Tx, a replica.Answer) []byte {
	b = append(b, tx.Bucket(bMeta).Get(kCounters)...)
	if w, ok := a.Command.(*writer); ok && a.Err == nil {
		b = binary.BigEndian.AppendUint64(b, xxh3.Hash(w.written))
		b = binary.AppendUvarint(b, uint64(len(w.skipped)))
	}
	return b
}

// Confirm waits until this node has applied everything that its cluster had committed when Confirm was
// called. Its error means that this node may lack some of it. Without a journal it does nothing.
func (d *boltFile) Confirm() error {
	if d.replica == nil {
		return nil
	}
	return d.replica.Confirm()
}

// confirmStranger is Confirm for a caller who may read nothing yet. All of them wait for few barriers together.
func (d *boltFile) confirmStranger() error {
	if d.replica == nil {
		return nil
	}
	return d.replica.ConfirmStranger()
}

// catchUpWait bounds how long CatchUp waits for what is done about changes of other nodes.
const catchUpWait = 5 * time.Second

// CatchUp is like Confirm, and also waits until WatchOthers has reported what other nodes had written.
func (d *DB) CatchUp() error {
	if err := d.Confirm(); err != nil || d.replica == nil {
		return err
	}
	if !d.others.wait(catchUpWait) {
		return &registry.Problem{Kind: registry.KindUnavailable, Detail: "this node lags behind the others: ask another node, or ask again", RetryAfter: time.Second}
	}
	return nil
}

// newest is like fetch. If the error of f may only mean that this node lags, it reads again once this node
// knows that it does not.
func newest[T any](d *boltFile, f func(tx *bbolt.Tx) (T, error)) (T, error) {
	v, err := fetch(d, f)
	if d.replica == nil || !mayLag(err) {
		return v, err
	}
	if err := d.Confirm(); err != nil {
		return v, err
	}
	return fetch(d, f)
}

// newestView is like newest for a function that keeps what it finds. f starts from the beginning when it is called again.
func newestView(d *boltFile, f func(tx *bbolt.Tx) error) error {
	_, err := newest(d, func(tx *bbolt.Tx) (struct{}, error) { return struct{}{}, f(tx) })
	return err
}

// mayLag reports whether the answer of a node that is up to date may be another one.
func mayLag(err error) bool {
	var gap *registry.GapError
	var problem *registry.Problem
	return errors.Is(err, registry.ErrNotFound) || errors.As(err, &gap) && gap.Reason != registry.TooOld ||
		errors.As(err, &problem) && problem.Kind == registry.KindNoResult
}
