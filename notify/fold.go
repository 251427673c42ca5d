package notify

import (
	"errors"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// errTooLarge says that a net change grew above what is sent as one.
var errTooLarge = errors.New("net change too large")

// A folding adds up changes into one exact net change.
type folding struct {
	last  registry.Change // what the sum ends at
	net   *diff.Delta     // nil when everything cancelled out
	count int
}

// add takes more changes; limit bounds the sum's size in bytes (0: none).
func (f *folding) add(page []registry.Change, limit int64) error {
	for i := range page {
		net, err := diff.Compose(f.net, page[i].Delta)
		if err != nil {
			return err
		}
		f.net, f.last = net, page[i]
		f.count++
		if limit > 0 && net != nil && deltaSize(net) > limit {
			return errTooLarge
		}
	}
	return nil
}

// rest adds what the log still has, page by page.
func (f *folding) rest(log Log, query string, limit int64) error {
	for {
		page, err := log.After(query, f.last.Position(), pageSize)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := f.add(page, limit); err != nil {
			return err
		}
	}
}

// change is the sum as one change that follows from.
func (f *folding) change(from registry.Position) registry.Change {
	c := f.last
	c.Prev, c.Delta = from.Seq, f.net
	c.Baseline = f.net != nil && f.net.Baseline
	return c
}

// deliverNet sends everything that waits as one change: nothing when it cancels
// out or a filter is against it, a snapshot when it would be too large.
func (s *session) deliverNet(sub *subscription, page []registry.Change) error {
	var f folding
	if p := sub.pending; p != nil {
		f.net, f.last = p.net, p.last
		if p.net == nil { // not kept
			f.last = registry.Change{Query: sub.query.ID, Epoch: sub.pos.Epoch, Seq: sub.pos.Seq}
			page = nil
		}
	}
	limit := s.srv.opts.Limits.Change
	err := f.add(page, limit)
	if err == nil {
		err = f.rest(s.srv.opts.Log, sub.query.ID, limit)
	}
	if errors.Is(err, errTooLarge) || errors.Is(err, diff.ErrMismatch) {
		return s.snapshot(sub)
	}
	if err != nil {
		return err
	}
	if sub.filter != nil {
		return s.deliverFiltered(sub, &f)
	}
	s.srv.folded.Add(uint64(f.count - 1))
	if f.net == nil {
		sub.moved(f.last.Position())
		return s.sayAlive(sub, f.last.CheckedAt)
	}
	c := f.change(sub.pos)
	return s.delta(sub, &c, nil)
}

// deliverFiltered sends the sum, or holds it back as long as the filter says.
func (s *session) deliverFiltered(sub *subscription, f *folding) error {
	net := sub.filter.delta(f.net)
	if !sub.filter.passes(net) {
		sub.pending = &pending{last: f.last, empty: net == nil}
		if f.net != nil && deltaSize(f.net) <= keepPending {
			sub.pending.net = f.net
		}
		sub.pending.last.Delta = nil
		return nil
	}
	if sub.snapshots {
		return s.snapshot(sub)
	}
	c := f.change(sub.pos)
	c.Delta = net
	return s.delta(sub, &c, nil)
}
