package diff

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// Compare gives the step from old to new, nil when they are the same. Without
// an old result (nil) the step is a baseline and never nil. Results of
// different form, or of which only one is ordered, share nothing: comparing
// them gives a baseline too.
func Compare(old, new *Result) *Delta {
	if old == nil || old.form != new.form || old.ordered != new.ordered {
		return baseline(new)
	}
	d := &Delta{Form: new.form, Ordered: new.ordered, Vars: new.vars, OldVars: old.vars,
		Boolean: new.boolean, Previous: old.boolean, OldLen: old.Len(), NewLen: new.Len()}
	if new.ordered {
		d.compareOrdered(old, new)
	} else {
		d.compareBags(old, new)
	}
	if d.Empty() && d.sameVars() {
		return nil
	}
	d.OldHash, d.NewHash = old.Hash(), new.Hash()
	d.setJaccard()
	return d
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

// compareBags cancels equal rows. Endpoints mostly send rows in the same order
// as before, so walking both side by side cancels nearly all; a table takes
// care of the rest. When new differs, its canonical order follows from old's.
func (d *Delta) compareBags(old, new *Result) {
	m := matcher{old: old, new: new, match: make([]int32, old.Len())}
	for i := range m.match {
		m.match[i] = -1
	}
	m.walk()
	m.table()
	if len(m.removed) == 0 && len(m.added) == 0 && d.sameVars() {
		return
	}
	d.Removed, d.Added = pick(old, m.removed), pick(new, m.added)
	slices.SortFunc(d.Removed, bytes.Compare)
	slices.SortFunc(d.Added, bytes.Compare)
	m.inherit()
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

// A matcher pairs the rows of two results as they arrived.
type matcher struct {
	old, new       *Result
	match          []int32 // old row → the new row it is equal to, or -1
	removed, added []int32 // rows without a partner so far
}

func (m *matcher) same(i, j int) bool { return bytes.Equal(m.old.arrived(i), m.new.arrived(j)) }

// walk goes through both side by side, looking a few rows ahead when they part.
func (m *matcher) walk() {
	i, j, misses := 0, 0, 0
	for i < m.old.Len() && j < m.new.Len() {
		if m.same(i, j) {
			m.match[i] = int32(j)
			i++
			j++
			continue
		}
		// Order is gone: stop trying.
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
}

// resync says how many rows to give up on either side.
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

// table pairs what walk left over. It is keyed by a hash with a fresh seed, so
// that no endpoint can choose rows that collide.
func (m *matcher) table() {
	if len(m.removed) == 0 || len(m.added) == 0 {
		return
	}
	size := 16
	for size < 2*len(m.removed) {
		size *= 2
	}
	slots, mask := make([]int32, size), uint64(size-1) // index in removed + 1, negative when spent
	sums := make([]uint64, len(m.removed))
	seed := maphash.MakeSeed()
	for n, i := range m.removed {
		sums[n] = maphash.Bytes(seed, m.old.arrived(int(i)))
		k := sums[n] & mask
		for slots[k] != 0 {
			k = (k + 1) & mask
		}
		slots[k] = int32(n + 1)
	}
	m.added = slices.DeleteFunc(m.added, func(j int32) bool {
		sum := maphash.Bytes(seed, m.new.arrived(int(j)))
		for k := sum & mask; slots[k] != 0; k = (k + 1) & mask {
			n := slots[k] - 1
			if n < 0 || sums[n] != sum || !m.same(int(m.removed[n]), int(j)) {
				continue
			}
			slots[k] = -slots[k]
			m.match[m.removed[n]] = j
			return true
		}
		return false
	})
	m.removed = slices.DeleteFunc(m.removed, func(i int32) bool { return m.match[i] >= 0 })
}

// inherit gives new its canonical order, merging the sorted added rows into the
// order of old: cheaper than sorting when most rows stayed.
func (m *matcher) inherit() {
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
