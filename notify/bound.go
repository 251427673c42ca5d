package notify

import (
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A bound says how far a net change that a filter holds back can have come, which
// tells without adding up the log again that it does not pass yet. The sum of two
// changes differs in at most as many rows as both of them together. The zero
// value knows nothing.
type bound struct {
	known  bool
	empty  bool // the filter leaves nothing
	rows   int  // that differ, at most
	wanted int  // and those of them that the filter leaves
	old    int  // length of the result before all
	new    int  // and now
}

// boundOf begins from a sum and what the filter leaves of it.
func boundOf(f *filter, sum, left *diff.Delta) bound {
	if f == nil || sum == nil || !countable(sum) {
		return bound{}
	}
	b := bound{known: true, empty: left == nil, rows: f.changed(sum), old: sum.OldLen, new: sum.NewLen}
	if left != nil {
		b.wanted = f.changed(left)
	}
	return b
}

// countable says whether rows that come and go are all there is to a change.
func countable(d *diff.Delta) bool {
	return d != nil && d.Form != diff.Ask && !d.Ordered && !d.Baseline
}

// add takes in the next change.
func (b *bound) add(f *filter, d *diff.Delta) {
	if b.known = b.known && countable(d) && d.OldLen == b.new; !b.known {
		return
	}
	b.rows, b.new = b.rows+f.changed(d), d.NewLen
	if left := f.delta(d); left != nil {
		b.empty, b.wanted = false, b.wanted+f.changed(left)
	}
}

// short says that the sum does not pass, whatever it is exactly.
func (b *bound) short(f *filter) bool {
	if !b.known {
		return false
	}
	return b.empty || b.wanted < f.MinRows ||
		f.MinJaccard > 0 && float64(2*b.rows) < f.MinJaccard*float64(b.old+b.new+b.rows)*(1-1e-9)
}

// short takes in what follows a sum that is not kept, as long as that cannot make
// it pass.
func (p *pending) short(f *filter, page []registry.Change) bool {
	if p == nil || p.kept || f == nil || len(page) == 0 {
		return false
	}
	b := p.bound
	for i := range page {
		b.add(f, page[i].Delta)
	}
	if !b.short(f) {
		return false
	}
	p.bound, p.empty, p.last = b, b.empty, page[len(page)-1]
	p.last.Delta = nil
	return true
}
