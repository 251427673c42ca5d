package diff

import (
	"bytes"
	"hash/maphash"
	"slices"
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

func baseline(new *Result) *Delta {
	d := &Delta{Form: new.form, Ordered: new.ordered, Baseline: true, Vars: new.vars, OldVars: new.vars,
		Boolean: new.boolean, NewLen: new.Len(), NewHash: new.Hash(), Added: new.all()}
	if new.ordered {
		d.AddedAt = make([]int, new.Len())
		for i := range d.AddedAt {
			d.AddedAt[i] = i
		}
	}
	d.setJaccard()
	return d
}

func (r *Result) all() Rows {
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
	d.Removed, d.Added = pick(old, m.removed), pick(new, m.added)
	slices.SortFunc(d.Removed, bytes.Compare)
	slices.SortFunc(d.Added, bytes.Compare)
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

// An equalRows holds the equal rows of one hash, as a chain of indices in
// removed + 1. Probing past each of them would be quadratic in the number of
// repetitions.
type equalRows struct{ first, last, left int32 }

// matchByHash pairs the rows that matchInStep left. The hash has a random seed,
// so that an endpoint cannot construct collisions.
func (m *matcher) matchByHash() error {
	if len(m.removed) == 0 || len(m.added) == 0 {
		return nil
	}
	size := 16
	for size < 2*len(m.removed) {
		size *= 2
	}
	slots, mask := make([]equalRows, size), uint64(size-1)
	sums := make([]uint64, len(m.removed))
	next := make([]int32, len(m.removed)) // the next equal row, as in equalRows
	seed := maphash.MakeSeed()
	for n, i := range m.removed {
		row := m.old.arrived(int(i))
		if err := m.stop.spend(64 + len(row)); err != nil {
			return err
		}
		sums[n] = maphash.Bytes(seed, row)
		k := sums[n] & mask
		for ; slots[k].first != 0; k = (k + 1) & mask {
			if o := slots[k].last - 1; sums[o] == sums[n] && bytes.Equal(m.old.arrived(int(m.removed[o])), row) {
				next[o] = int32(n + 1)
				break
			}
		}
		if slots[k].first == 0 {
			slots[k].first = int32(n + 1)
			slots[k].left = int32(n + 1)
		}
		slots[k].last = int32(n + 1)
	}
	m.added = slices.DeleteFunc(m.added, func(j int32) bool {
		sum := maphash.Bytes(seed, m.new.arrived(int(j)))
		for k := sum & mask; slots[k].first != 0; k = (k + 1) & mask {
			s := &slots[k]
			if n := s.first - 1; sums[n] != sum || !m.same(int(m.removed[n]), int(j)) {
				continue
			}
			if s.left == 0 {
				return false
			}
			n := s.left - 1
			s.left = next[n]
			m.match[m.removed[n]] = j
			return true
		}
		return false
	})
	m.removed = slices.DeleteFunc(m.removed, func(i int32) bool { return m.match[i] >= 0 })
	return m.stop.check()
}

// mergeOrder derives new's canonical order by merging the sorted added rows
// into old's order. This is cheaper than sorting if most rows stayed.
func (m *matcher) mergeOrder() {
	m.old.sort()
	m.new.sorting.Do(func() {
		row := func(k int) []byte { return m.new.arrived(int(m.added[k])) }
		var added []int32
		if p := sortedPerm(len(m.added), row); p == nil {
			added = m.added
		} else {
			for _, k := range p {
				added = append(added, m.added[k])
			}
		}
		perm := make([]int32, 0, m.new.Len())
		for c := range m.old.rows {
			i := c
			if m.old.perm != nil {
				i = int(m.old.perm[c])
			}
			j := m.match[i]
			if j < 0 {
				continue
			}
			for len(added) > 0 && bytes.Compare(m.new.arrived(int(added[0])), m.new.arrived(int(j))) < 0 {
				perm, added = append(perm, added[0]), added[1:]
			}
			perm = append(perm, j)
		}
		m.new.perm = append(perm, added...)
	})
}
