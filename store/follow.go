// What a store with a journal does.

package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/replica"
	"github.com/zeebo/xxh3"
	"go.etcd.io/bbolt"
)

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

// wakeLeases signals a change of nodes or leases if one is among the commands.
func (d *boltFile) wakeLeases(answers []replica.Answer) {
	if !slices.ContainsFunc(answers, func(a replica.Answer) bool {
		switch a.Command.(type) {
		case *nodeEdit, *leaseEdit, *endpointEdit:
			return true
		}
		return false
	}) {
		return
	}
	select {
	case d.leased <- struct{}{}:
	default:
	}
}

// WatchOthers calls f after commits of what other nodes have written, until ctx ends. What is
// written while f runs is reported together by the next call. The first call reports what was
// written since Open. It is called once.
func (d *DB) WatchOthers(ctx context.Context, f func(Others)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.others.wake:
		}
		d.others.mu.Lock()
		o, until := d.others.list, d.others.added
		d.others.list = Others{}
		d.others.mu.Unlock()
		f(o)
		d.others.mu.Lock()
		d.others.told = until
		d.others.mu.Unlock()
	}
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

// catchUpWait bounds how long CatchUp waits for what is done about changes of other nodes.
const catchUpWait = 5 * time.Second

// CatchUp is like Confirm, and also waits until WatchOthers has reported what other nodes had written.
func (d *DB) CatchUp() error {
	if err := d.Confirm(); err != nil || d.replica == nil {
		return err
	}
	if !d.others.wait(catchUpWait) {
		return &registry.Problem{Kind: registry.KindUnavailable, Detail: "this node lags behind the others: ask another node, or " +
			"ask again", RetryAfter: time.Second}
	}
	return nil
}
