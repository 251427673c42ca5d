package notify

import (
	"context"
	"errors"
	"runtime"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// errTooLarge says that a net change grew above what is sent as one.
var errTooLarge = errors.New("net change too large")

// A folding adds up changes into one exact net change.
type folding struct {
	last  registry.Change // what the sum ends at, without its rows
	steps diff.Chain
	net   *diff.Delta // after end; nil when everything cancelled out
	count int
}

// begin starts from what is added up already, nil for nothing.
func (f *folding) begin(net *diff.Delta, last registry.Change) error {
	f.last = last
	_, err := f.steps.Add(net)
	return err
}

// add takes more changes; limit bounds the sum's size in bytes (0: none).
func (f *folding) add(page []registry.Change, limit int64) error {
	for i := range page {
		part, err := f.steps.Add(page[i].Delta)
		if err != nil {
			return err
		}
		f.last = page[i]
		f.count++
		if limit > 0 && part != nil && deltaSize(part) > limit {
			return errTooLarge
		}
	}
	f.last.Delta = nil
	return nil
}

// end adds everything up.
func (f *folding) end(limit int64) (err error) {
	if f.net, err = f.steps.Sum(); err != nil {
		return err
	}
	if f.steps = (diff.Chain{}); limit > 0 && f.net != nil && deltaSize(f.net) > limit {
		return errTooLarge
	}
	return nil
}

// rest adds what the log still has up to a position (until 0: all of it), page by
// page, and ends. Before it reads more than a page it calls long, unless that is
// nil. ctx ends the work.
func (f *folding) rest(ctx context.Context, long func(context.Context) (leave func()), log Log, query string, until uint64, limit int64) error {
	for pages := 0; until == 0 || f.last.Seq < until; pages++ {
		if pages == 1 && long != nil {
			defer long(ctx)()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n := pageSize
		if until > 0 {
			n = int(min(pageSize, until-f.last.Seq))
		}
		page, err := log.After(query, f.last.Position(), n)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		if err := f.add(page, limit); err != nil {
			return err
		}
	}
	return f.end(limit)
}

// foldPlaces are for followers for whom more than a page of the log is added up.
// Each keeps a processor busy for as long as that takes: one is left to everybody
// else.
func foldPlaces() chan struct{} { return make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)) }

// longFold waits for a place, or for the end of ctx.
func (s *Server) longFold(ctx context.Context) (leave func()) {
	select {
	case s.folds <- struct{}{}:
		return func() { <-s.folds }
	case <-ctx.Done():
		return func() {}
	}
}

// addUp adds up everything that follows at: what is pending, a page that was read
// already, and the rest of the log.
func (s *Server) addUp(ctx context.Context, long func(context.Context) (leave func()), f *folding, p *pending, query string, at registry.Position, page []registry.Change, limit int64) error {
	f.last = registry.Change{Query: query, Epoch: at.Epoch, Seq: at.Seq}
	if p != nil {
		if !p.kept {
			return f.rest(ctx, long, s.opts.Log, query, 0, limit)
		}
		if err := f.begin(p.net, p.last); err != nil {
			return err
		}
	}
	if err := f.add(page, limit); err != nil {
		return err
	}
	return f.rest(ctx, long, s.opts.Log, query, 0, limit)
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
	limit := s.srv.opts.Limits.Change
	if sub.pending.short(sub.filter, page) {
		return nil
	}
	var f folding
	err := s.whileHere(func(ctx context.Context) error {
		long := func(ctx context.Context) func() {
			s.detach()
			return s.srv.longFold(ctx)
		}
		return s.srv.addUp(ctx, long, &f, sub.pending, sub.query.ID, sub.pos, page, limit)
	})
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

// whileHere does what may take long. It ends when the client goes away or the
// server goes down.
func (s *session) whileHere(do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.interrupt.Store(&cancel)
	defer s.interrupt.Store(nil)
	if s.lost.Load() {
		cancel()
	}
	err := do(ctx)
	if ctx.Err() != nil && err != nil {
		return errGone
	}
	return err
}

// lose notes that the client has gone, whatever is being done for it.
func (s *session) lose() {
	s.lost.Store(true)
	if cancel := s.interrupt.Load(); cancel != nil {
		(*cancel)()
	}
}

// deliverFiltered sends the sum, or holds it back as long as the filter says.
func (s *session) deliverFiltered(sub *subscription, f *folding) error {
	net := sub.filter.delta(f.net)
	if !sub.filter.passes(net) {
		sub.pending = withheld(sub.filter, f, net)
		return nil
	}
	if sub.snapshots {
		return s.snapshot(sub)
	}
	c := f.change(sub.pos)
	c.Delta = net
	return s.delta(sub, &c, nil)
}

// withheld is a sum of which a filter leaves net, which is not worth a message yet.
func withheld(want *filter, f *folding, net *diff.Delta) *pending {
	p := &pending{last: f.last, empty: net == nil}
	if p.kept = f.net == nil || deltaSize(f.net) <= keepPending; p.kept {
		p.net = compact(f.net)
	} else {
		p.bound = boundOf(want, f.net, net)
	}
	return p
}

// compact gives a delta memory of its own: its rows do not hold the changes that
// they came with.
func compact(d *diff.Delta) *diff.Delta {
	if d == nil {
		return nil
	}
	b, err := d.MarshalBinary()
	if err != nil {
		return d
	}
	own := new(diff.Delta)
	if own.UnmarshalBinary(b) != nil {
		return d
	}
	return own
}
