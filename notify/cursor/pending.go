package cursor

import (
	"context"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A pending is the net change that a filter withholds. It is not modified.
type pending struct {
	last  registry.Change // the newest change examined, without its rows
	kept  bool            // net is valid; otherwise the log is added up again
	net   *diff.Delta     // nil if everything cancelled out
	bound bound           // of a net change that is not kept
	empty bool            // nothing in it passes the filter
}

// keepPending is the maximum size in bytes of a pending net change that is kept. A larger
// one is added up from the log again once it may pass.
const keepPending = 64 << 10

// withhold keeps a sum that is not worth a message yet. left is what the filter leaves of it.
func withhold(f *Filter, s *summation, left *diff.Delta) *pending {
	p := &pending{last: s.last, empty: left == nil}
	if p.kept = s.net == nil || DeltaSize(s.net) <= keepPending; p.kept {
		p.net = compact(s.net)
	} else {
		p.bound = boundOf(f, s.net, left)
	}
	return p
}

// sum adds up everything after at: the pending changes, a page that was already read, and
// the rest of the log, up to a position (0: all).
func (p *pending) sum(ctx context.Context, r *Reader, query string, at registry.Position, page []registry.Change, until uint64,
	limit int64) (*summation, error) {
	s := &summation{last: registry.Change{Query: query, Epoch: at.Epoch, Seq: at.Seq}, limit: limit}
	if p != nil {
		if !p.kept {
			return s, s.readOn(ctx, r, query, until)
		}
		s.last = p.last
		if _, err := s.steps.Add(p.net); err != nil {
			return s, err
		}
	}
	if err := s.add(page); err != nil {
		return s, err
	}
	return s, s.readOn(ctx, r, query, until)
}

// skip adds the changes of a page to a sum that is not kept if they cannot make it pass. It
// returns nil if they can.
func (p *pending) skip(f *Filter, page []registry.Change) *pending {
	if p == nil || p.kept || f == nil {
		return nil
	}
	next := &pending{bound: p.bound, last: p.last}
	for i := range page {
		next.bound.add(f, page[i].Delta)
		next.last = page[i]
	}
	if !next.bound.fails(f) {
		return nil
	}
	next.empty, next.last.Delta = next.bound.empty, nil
	return next
}

// compact copies a delta, so that its rows do not keep the original changes in memory.
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

// A bound is an upper bound on a net change. It shows that the change does not pass a filter
// yet, without adding up the log again. The sum of two changes differs in at most as many
// rows as both of them together. The zero value is no bound.
type bound struct {
	known  bool
	empty  bool // the filter leaves nothing
	rows   int  // maximum number of rows that differ
	wanted int  // maximum number of them that the filter selects
	old    int  // length of the result before all changes
	new    int  // length of the result after them
}

// boundOf returns the bound of a sum and of what the filter leaves of it.
func boundOf(f *Filter, sum, left *diff.Delta) bound {
	if f == nil || sum == nil || !countable(sum) {
		return bound{}
	}
	b := bound{known: true, empty: left == nil, rows: changedRows(sum), old: sum.OldLen, new: sum.NewLen}
	if left != nil {
		b.wanted = changedRows(left)
	}
	return b
}

// countable reports whether a change consists only of added and removed rows.
func countable(d *diff.Delta) bool {
	return d != nil && d.Form != diff.Ask && !d.Ordered && !d.Baseline
}

func (b *bound) add(f *Filter, d *diff.Delta) {
	if b.known = b.known && countable(d) && d.OldLen == b.new; !b.known {
		return
	}
	b.rows, b.new = b.rows+changedRows(d), d.NewLen
	if left := f.Delta(d); left != nil {
		b.empty, b.wanted = false, b.wanted+changedRows(left)
	}
}

// fails reports whether the sum certainly does not pass the filter.
func (b *bound) fails(f *Filter) bool {
	if !b.known {
		return false
	}
	return b.empty || b.wanted < f.MinRows ||
		f.MinJaccard > 0 && float64(2*b.rows) < f.MinJaccard*float64(b.old+b.new+b.rows)*(1-1e-9)
}
