package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
)

// History reads results, changes and slots. It implements web.History and notify.Log.
type History struct {
	*boltFile
	walks chan struct{} // walks over the log that are in progress
}

// mostWalks bounds the walks over logs at a time, because each unpacks whole changes.
const mostWalks = 2

// walk waits until another walk over a log may begin. The caller calls done at its end.
func (d *History) walk(ctx context.Context) (done func(), err error) {
	select {
	case d.walks <- struct{}{}:
		return func() { <-d.walks }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A changePage collects changes up to a size limit; it always accepts the first one.
type changePage struct {
	limit, bytes int
	list         []logEntry
}

func newPage(limit int) changePage { return changePage{limit: limit, bytes: pageBytes} }

// add copies l and reports whether there is space for another change.
func (p *changePage) add(l logEntry) bool {
	size := unpackedSize(l.delta)
	if len(p.list) > 0 && size > p.bytes {
		return false
	}
	p.bytes -= size
	l.delta = slices.Clone(l.delta)
	p.list = append(p.list, l)
	return len(p.list) < p.limit && p.bytes > 0
}

func (p *changePage) unpack(with *packer, e storeEpoch) ([]registry.Change, error) {
	var out []registry.Change
	for i := range p.list {
		c, err := p.list[i].unpack(with, e)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// After returns the changes of a query after p, oldest first. It returns a
// *registry.GapError if the log does not continue from p. Seq 0 in the query's epoch
// is the position before its first change.
func (d *History) After(query string, p registry.Position, limit int) ([]registry.Change, error) {
	list, err := newest(d.boltFile, func(tx *bbolt.Tx) (changePage, error) {
		list := newPage(limit)
		r, _, ok := liveRecord(tx, query)
		if !ok {
			return list, fmt.Errorf("query %s: %w", query, registry.ErrNotFound)
		}
		err := follow(tx, &r, d.epoch, p, &list)
		return list, err
	})
	if err != nil {
		return nil, err
	}
	return list.unpack(d.pack, d.epoch)
}

func follow(tx *bbolt.Tx, r *record, e storeEpoch, p registry.Position, list *changePage) error {
	switch {
	case p.Epoch != e.of(r.serial):
		return &registry.GapError{Reason: registry.OtherEpoch}
	case p.Seq > r.seq:
		return &registry.GapError{Reason: registry.Ahead}
	case p.Seq == r.seq || list.limit <= 0:
		return nil
	}
	c := tx.Bucket(bChanges).Cursor()
	k, v := c.Seek(key16(r.serial, p.Seq+1))
	if !hasPrefix(k, key8(r.serial)) || number(skipNumber(k)) != p.Seq+1 {
		return &registry.GapError{Reason: registry.TooOld}
	}
	for ; hasPrefix(k, key8(r.serial)); k, v = c.Next() {
		l, err := parseLogEntry(k, v)
		if err != nil {
			return err
		}
		if !list.add(l) {
			return nil
		}
	}
	return nil
}

// All returns the changes of all queries after o, oldest first. Retention trims each
// query separately, so old changes may have gaps between them, which a follower must
// not miss. For a zero Offset, All therefore starts at the first change after which
// none is missing. Changes of removed queries are left out.
func (d *History) All(o registry.Offset, limit int) ([]registry.Change, error) {
	list, err := newest(d.boltFile, func(tx *bbolt.Tx) (changePage, error) {
		list, n := newPage(limit), loadCounters(tx)
		from := o.Seq
		switch {
		case o == registry.Offset{}:
			from = n.trimmed
		case o.Epoch != string(d.epoch):
			return list, &registry.GapError{Reason: registry.OtherEpoch}
		case o.Seq > n.offset:
			return list, &registry.GapError{Reason: registry.Ahead}
		case o.Seq < n.trimmed:
			return list, &registry.GapError{Reason: registry.TooOld}
		}
		if limit <= 0 {
			return list, nil
		}
		err := followAll(tx, from, &list)
		return list, err
	})
	if err != nil {
		return nil, err
	}
	return list.unpack(d.pack, d.epoch)
}

func followAll(tx *bbolt.Tx, from uint64, list *changePage) error {
	c, changes := tx.Bucket(bOffsets).Cursor(), tx.Bucket(bChanges)
	for k, at := c.Seek(key8(from + 1)); k != nil; k, at = c.Next() {
		l, err := parseLogEntry(at, changes.Get(at))
		if err != nil {
			return err
		}
		if r, _, ok := liveRecord(tx, l.query); !ok || r.serial != l.serial {
			continue
		}
		if !list.add(l) {
			return nil
		}
	}
	return nil
}

// Head returns the offset of the newest change in the store.
func (d *History) Head() (registry.Offset, error) {
	return fetch(d.boltFile, func(tx *bbolt.Tx) (registry.Offset, error) {
		return registry.Offset{Epoch: string(d.epoch), Seq: loadCounters(tx).offset}, nil
	})
}

// Latest returns the newest change of a query. It wraps registry.ErrNotFound. After
// the start of a new epoch there is none until the next change.
func (d *History) Latest(query string) (registry.Change, error) {
	list, err := newest(d.boltFile, func(tx *bbolt.Tx) (changePage, error) {
		list := newPage(1)
		r, _, ok := liveRecord(tx, query)
		if !ok {
			return list, fmt.Errorf("query %s: %w", query, registry.ErrNotFound)
		}
		k := key16(r.serial, r.seq)
		v := tx.Bucket(bChanges).Get(k)
		if v == nil {
			return list, fmt.Errorf("latest change of query %s: %w", query, registry.ErrNotFound)
		}
		l, err := parseLogEntry(k, v)
		list.add(l)
		return list, err
	})
	if err != nil {
		return registry.Change{}, err
	}
	return list.list[0].unpack(d.pack, d.epoch)
}

// errNoResult says that a query has no result yet.
var errNoResult error = &registry.Problem{Kind: registry.KindNoResult, Detail: "no execution has been complete so far"}

// Current returns a query's status and, if requested, its last complete result.
func (d *History) Current(query string, withResult bool) (registry.Status, *diff.Result, error) {
	var packed []byte
	item, err := newest(d.boltFile, func(tx *bbolt.Tx) (item registry.ListedQuery, err error) {
		s, err := findQuery(tx, query)
		if err != nil {
			return item, err
		}
		if item, err = withStatus(tx, &s, d.epoch, d.now()); err != nil || !withResult {
			return item, err
		}
		packed = slices.Clone(tx.Bucket(bResults).Get(key8(s.serial)))
		if packed == nil {
			err = errNoResult
		}
		return item, err
	})
	if err == errNoResult {
		return item.Status, nil, nil
	}
	if err != nil || packed == nil {
		return item.Status, nil, err
	}
	r, err := d.pack.unpackResult(packed)
	if err != nil {
		return registry.Status{}, nil, fmt.Errorf("result of %s: %w", query, err)
	}
	return item.Status, r, nil
}

// Slots returns an endpoint's last slots, newest first.
func (d *History) Slots(endpoint string, limit int) ([]scheduler.Slot, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (list []scheduler.Slot, err error) {
		s, ok := findSpace(tx, endpoint)
		if !ok {
			if tx.Bucket(bEndpoints).Get([]byte(endpoint)) == nil {
				return nil, fmt.Errorf("endpoint %s: %w", endpoint, registry.ErrNotFound)
			}
			return nil, nil
		}
		b := tx.Bucket(bSlots)
		last, _ := lastWith(b, key8(s.number))
		if last == nil {
			return nil, nil
		}
		c := b.Cursor()
		for k, v := c.Seek(last); hasPrefix(k, key8(s.number)) && len(list) < limit; k, v = c.Prev() {
			var slot scheduler.Slot
			if err := parseJSON(v, &slot, "a slot of "+endpoint); err != nil {
				return list, err
			}
			list = append(list, slot)
		}
		return list, nil
	})
}
