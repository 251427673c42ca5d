package diff

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sort"
)

// Compare returns the delta from old to new; nil if they are equal. If old is
// nil, the delta is a baseline and never nil. It is also a baseline if the
// forms differ or only one of the results is ordered.
func Compare(old, new *Result) *Delta {
	d, _ := CompareUntil(nil, old, new)
	return d
}

// CompareUntil is Compare with a function stop, which is called regularly
// unless it is nil. Its first error ends the comparison and is returned
// unchanged.
func CompareUntil(stop func() error, old, new *Result) (*Delta, error) {
	p := stopper{ask: stop}
	if err := p.check(); err != nil {
		return nil, err
	}
	if old == nil || old.form != new.form || old.ordered != new.ordered {
		return baseline(new), nil
	}
	d := &Delta{Form: new.form, Ordered: new.ordered, Vars: new.vars, OldVars: old.vars,
		Boolean: new.boolean, Previous: old.boolean, OldLen: old.Len(), NewLen: new.Len()}
	compare := d.compareBags
	if new.ordered {
		compare = d.compareOrdered
	}
	if err := compare(&p, old, new); err != nil || d.Empty() && d.sameVars() {
		return nil, err
	}
	if !new.ordered && len(d.Removed) > 0 && d.OldLen == d.NewLen && d.sameVars() && d.haveBlanks() {
		if same, err := sameButLabels(&p, old, new); same || err != nil {
			return nil, err
		}
	}
	for _, r := range []*Result{old, new} {
		if err := p.check(); err != nil {
			return nil, err
		}
		r.Hash()
	}
	d.OldHash, d.NewHash = old.Hash(), new.Hash()
	d.setJaccard()
	return d, nil
}

// haveBlanks reports whether all rows that differ have blank nodes.
func (d *Delta) haveBlanks() bool {
	for _, rows := range []Rows{d.Removed, d.Added} {
		for _, row := range rows {
			if len(blanksIn(row, d.Form.Graph())) == 0 {
				return false
			}
		}
	}
	return true
}

// sameButLabels reports whether two unordered results are equal once their blank nodes are labelled by colours alone. The labels
// that they have may be of different versions of this package, or of searches that the budget ended in one of them only.
func sameButLabels(p *stopper, old, new *Result) (bool, error) {
	again := []*Result{nil, nil}
	for i, r := range []*Result{old, new} {
		again[i] = &Result{form: r.form, vars: r.vars, text: slices.Clone(r.text), rows: slices.Clone(r.rows)}
		if err := again[i].relabel(Options{Stop: p.ask, BlankBudget: 1}); err != nil {
			return false, err
		}
	}
	d := &Delta{Form: new.form, Vars: new.vars, OldVars: new.vars}
	err := d.compareBags(p, again[0], again[1])
	return err == nil && d.Empty(), err
}

func baseline(new *Result) *Delta {
	d := &Delta{Form: new.form, Ordered: new.ordered, Baseline: true, Vars: new.vars, OldVars: new.vars,
		Boolean: new.boolean, NewLen: new.Len(), NewHash: new.Hash(), Added: new.All()}
	if new.ordered {
		d.AddedAt = make([]int, new.Len())
		for i := range d.AddedAt {
			d.AddedAt[i] = i
		}
	}
	d.setJaccard()
	return d
}

// All returns the rows in order.
func (r *Result) All() Rows {
	if r.Len() == 0 {
		return nil
	}
	out := make(Rows, r.Len())
	for i := range out {
		out[i] = r.Row(i)
	}
	return out
}

// compareBags removes equal rows from both sides. Most endpoints send rows in
// the same order as before, so a walk along both sides matches nearly all of
// them; a hash table matches the rest. If new differs, its canonical order
// follows from old's.
func (d *Delta) compareBags(p *stopper, old, new *Result) error {
	m := matcher{old: old, new: new, stop: p, match: make([]int32, old.Len())}
	for i := range m.match {
		m.match[i] = -1
	}
	if err := m.matchInStep(); err != nil {
		return err
	}
	if err := m.matchByHash(); err != nil || len(m.removed) == 0 && len(m.added) == 0 && d.sameVars() {
		return err
	}
	m.removed, m.added = old.inOrder(m.removed), new.inOrder(m.added)
	d.Removed, d.Added = pick(old, m.removed), pick(new, m.added)
	if err := p.check(); err != nil {
		return err
	}
	m.mergeOrder()
	return nil
}

func pick(r *Result, at []int32) Rows {
	if len(at) == 0 {
		return nil
	}
	out := make(Rows, len(at))
	for i, k := range at {
		out[i] = r.arrived(int(k))
	}
	return out
}

// A matcher pairs equal rows of two results, in the order of arrival.
type matcher struct {
	old, new       *Result
	stop           *stopper
	match          []int32 // old row → its equal new row, or -1
	removed, added []int32 // rows without an equal so far
}

func (m *matcher) same(i, j int) bool { return bytes.Equal(m.old.arrived(i), m.new.arrived(j)) }

// matchInStep walks along both sides and looks a few rows ahead where they
// differ.
func (m *matcher) matchInStep() error {
	i, j, misses := 0, 0, 0
	for i < m.old.Len() && j < m.new.Len() {
		if err := m.stop.spend(64 + len(m.old.arrived(i))); err != nil {
			return err
		}
		if m.same(i, j) {
			m.match[i] = int32(j)
			i++
			j++
			continue
		}
		// The orders differ too much: stop.
		if misses++; misses > 64 && misses > i/2 {
			break
		}
		di, dj := m.resync(i, j)
		for ; di > 0; di-- {
			m.removed = append(m.removed, int32(i))
			i++
		}
		for ; dj > 0; dj-- {
			m.added = append(m.added, int32(j))
			j++
		}
	}
	for ; i < m.old.Len(); i++ {
		m.removed = append(m.removed, int32(i))
	}
	for ; j < m.new.Len(); j++ {
		m.added = append(m.added, int32(j))
	}
	return nil
}

// resync returns how many rows to skip on either side.
func (m *matcher) resync(i, j int) (di, dj int) {
	const ahead = 8
	for d := 1; d <= ahead; d++ {
		in, jn := i+d < m.old.Len(), j+d < m.new.Len()
		switch {
		case in && jn && m.same(i+d, j+d):
			return d, d
		case in && m.same(i+d, j):
			return d, 0
		case jn && m.same(i, j+d):
			return 0, d
		}
	}
	return 1, 1
}

// A rowTable finds the rows of old that are left to pair. Its hash has a random
// seed, so that an endpoint cannot construct collisions.
type rowTable struct {
	old     *Result
	seed    maphash.Seed
	buckets []bucket
	below   []int32 // old row → the next of its bucket
}

// A bucket holds the equal rows that are left to pair, as a stack: top is the
// index of a row + 1. Several buckets for them would make probing quadratic in
// the number of repetitions.
type bucket struct {
	tag uint32 // of the rows' hash
	top int32  // 0: free
}

const exhausted = -1 // the top of a bucket whose rows are all paired

func (t *rowTable) mask() uint64 { return uint64(len(t.buckets) - 1) }

// find returns the bucket of a row; a free one if there is none.
func (t *rowTable) find(row []byte, sum uint64) *bucket {
	tag := uint32(sum >> 32)
	for k := sum & t.mask(); ; k = (k + 1) & t.mask() {
		b := &t.buckets[k]
		if b.top == 0 {
			b.tag = tag
			return b
		}
		if b.tag == tag && b.top != exhausted && bytes.Equal(t.old.arrived(int(b.top-1)), row) {
			return b
		}
	}
}

// each calls f with each of the rows and its bucket.
func (t *rowTable) each(r *Result, rows []int32, stop *stopper, f func(i int32, b *bucket)) error {
	for _, i := range rows {
		row := r.arrived(int(i))
		f(i, t.find(row, maphash.Bytes(t.seed, row)))
		if err := stop.spend(64 + len(row)); err != nil {
			return err
		}
	}
	return nil
}

// matchByHash pairs the rows that matchInStep left.
func (m *matcher) matchByHash() error {
	if len(m.removed) == 0 || len(m.added) == 0 {
		return nil
	}
	size := 16
	for size < 2*len(m.removed) {
		size *= 2
	}
	t := rowTable{old: m.old, seed: maphash.MakeSeed(), buckets: make([]bucket, size), below: make([]int32, m.old.Len())}
	err := t.each(m.old, m.removed, m.stop, func(i int32, b *bucket) { t.below[i], b.top = b.top, i+1 })
	if err != nil {
		return err
	}
	left := m.added[:0]
	err = t.each(m.new, m.added, m.stop, func(j int32, b *bucket) {
		if b.top == 0 {
			left = append(left, j)
			return
		}
		i := b.top - 1
		m.match[i] = j
		if b.top = t.below[i]; b.top == 0 {
			b.top = exhausted
		}
	})
	if err != nil {
		return err
	}
	m.added = left
	m.removed = slices.DeleteFunc(m.removed, func(i int32) bool { return m.match[i] >= 0 })
	return m.stop.check()
}

// inOrder returns some rows, by their indices, in canonical order.
func (r *Result) inOrder(at []int32) []int32 {
	order := sortedPerm(len(at), func(k int) []byte { return r.arrived(int(at[k])) })
	if order == nil {
		return at
	}
	for k, n := range order {
		order[k] = at[n]
	}
	return order
}

// mergeOrder derives new's canonical order by merging the added rows into old's order.
// This is cheaper than sorting if most rows stayed.
func (m *matcher) mergeOrder() {
	if m.new.stored != nil {
		return // it is sorted
	}
	m.old.sort()
	m.new.sorting.Do(func() {
		perm, from := make([]int32, 0, m.new.Len()), 0
		for _, j := range m.added {
			to := m.old.after(m.new.arrived(int(j)), from)
			perm = append(m.keep(perm, from, to), j)
			from = to
		}
		m.new.perm = m.keep(perm, from, m.old.Len())
	})
}

// after returns how many rows, at least from, are not after row in canonical order. It is fast
// if there are few more than from.
func (r *Result) after(row []byte, from int) int {
	follows := func(i int) bool { return bytes.Compare(r.Row(i), row) > 0 }
	step := 1
	for from+step <= r.Len() && !follows(from+step-1) {
		from += step
		step *= 2
	}
	return from + sort.Search(min(step, r.Len()-from), func(k int) bool { return follows(from + k) })
}

// keep appends the rows of new that equal the rows of old from from to to, in old's
// canonical order.
func (m *matcher) keep(perm []int32, from, to int) []int32 {
	for i := from; i < to; i++ {
		at := i
		if m.old.perm != nil {
			at = int(m.old.perm[i])
		}
		if j := m.match[at]; j >= 0 {
			perm = append(perm, j)
		}
	}
	return perm
}
