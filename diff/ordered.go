package diff

import (
	"bytes"
	"slices"
	"sort"
)

// compareOrdered finds the rows of the new sequence that are rows of the old
// one.
//
// Most rows stay in place: both sequences are walked in step, and only the
// segments between matching rows are compared closely.
func (d *Delta) compareOrdered(p *stopper, old, new *Result) error {
	m := matcher{old: old, new: new}
	n, k, misses := old.Len(), new.Len(), 0
	for i, j := 0, 0; i < n || j < k; {
		if i < n && j < k && m.same(i, j) {
			i++
			j++
			continue
		}
		fi, fj := i, j
		for i < n && j < k && !m.same(i, j) {
			if misses++; misses > 64 && misses > fi/2 {
				break // the orders differ too much: the rest is one segment
			}
			di, dj := m.resync(i, j)
			i, j = i+di, j+dj
		}
		if i == n || j == k || !m.same(i, j) {
			i, j = n, k
		}
		if err := p.check(); err != nil {
			return err
		}
		d.compareSegment(&m, span{fi, i}, span{fj, j})
	}
	return nil
}

func (d *Delta) compareSegment(m *matcher, old, new span) {
	removed, removedAt, added, addedAt := sequenceDiff(m.old.slice(old), m.new.slice(new))
	d.Removed, d.Added = append(d.Removed, removed...), append(d.Added, added...)
	for _, i := range removedAt {
		d.RemovedAt = append(d.RemovedAt, old.from+i)
	}
	for _, j := range addedAt {
		d.AddedAt = append(d.AddedAt, new.from+j)
	}
}

// slice returns rows in the order of arrival.
func (r *Result) slice(s span) Rows {
	out := make(Rows, 0, s.to-s.from)
	for i := s.from; i < s.to; i++ {
		out = append(out, r.arrived(i))
	}
	return out
}

// sequenceDiff keeps the common beginning and end and, between them, a longest
// increasing subsequence of the pairs "k-th occurrence in old, k-th occurrence
// in new". If no row repeats, this keeps as many rows as possible. It takes O(n
// log n).
func sequenceDiff(old, new Rows) (removed Rows, removedAt []int, added Rows, addedAt []int) {
	lo, end := 0, 0
	for lo < len(old) && lo < len(new) && bytes.Equal(old[lo], new[lo]) {
		lo++
	}
	for end < len(old)-lo && end < len(new)-lo && bytes.Equal(old[len(old)-1-end], new[len(new)-1-end]) {
		end++
	}
	mid := pairs(old[lo:len(old)-end], new[lo:len(new)-end])
	keepOld, keepNew := longestRun(mid, len(new)-end-lo)
	for i := lo; i < len(old)-end; i++ {
		if !keepOld[i-lo] {
			removed, removedAt = append(removed, old[i]), append(removedAt, i)
		}
	}
	for j := lo; j < len(new)-end; j++ {
		if !keepNew[j-lo] {
			added, addedAt = append(added, new[j]), append(addedAt, j)
		}
	}
	return removed, removedAt, added, addedAt
}

// pairs returns for each old row its new row, or -1.
func pairs(old, new Rows) []int {
	where := make(map[string][]int, len(new))
	for j, r := range new {
		where[string(r)] = append(where[string(r)], j)
	}
	to := make([]int, len(old))
	for i, r := range old {
		to[i] = -1
		if at := where[string(r)]; len(at) > 0 {
			to[i], where[string(r)] = at[0], at[1:]
		}
	}
	return to
}

// longestRun marks a longest subset of the pairs that increases on both sides.
func longestRun(to []int, n int) (keepOld, keepNew []bool) {
	keepOld, keepNew = make([]bool, len(to)), make([]bool, n)
	var ends []int                 // ends[l]: old index at which the best run of length l+1 ends
	before := make([]int, len(to)) // the previous pair of the run
	for i, j := range to {
		if j < 0 {
			continue
		}
		l := sort.Search(len(ends), func(l int) bool { return to[ends[l]] > j })
		before[i] = -1
		if l > 0 {
			before[i] = ends[l-1]
		}
		if l == len(ends) {
			ends = append(ends, i)
		} else {
			ends[l] = i
		}
	}
	if len(ends) == 0 {
		return keepOld, keepNew
	}
	for i := ends[len(ends)-1]; i >= 0; i = before[i] {
		keepOld[i], keepNew[to[i]] = true, true
	}
	return keepOld, keepNew
}

// composeOrdered computes c, which does a and then b, by index arithmetic: rows
// that a kept and b removed are found in old, rows that a added and b kept in
// new.
func composeOrdered(c, a, b *Delta) {
	gone := slices.Clone(a.RemovedAt)
	goneRows := slices.Clone(a.Removed)
	fresh := slices.Clone(b.AddedAt)
	freshRows := slices.Clone(b.Added)
	for k, m := range b.RemovedAt {
		if n, ok := slices.BinarySearch(a.AddedAt, m); !ok {
			gone = append(gone, nthNotIn(a.RemovedAt, m-n))
			goneRows = append(goneRows, b.Removed[k])
		}
	}
	for k, m := range a.AddedAt {
		if n, ok := slices.BinarySearch(b.RemovedAt, m); !ok {
			fresh = append(fresh, nthNotIn(b.AddedAt, m-n))
			freshRows = append(freshRows, a.Added[k])
		}
	}
	c.RemovedAt, c.Removed = byIndex(gone, goneRows)
	c.AddedAt, c.Added = byIndex(fresh, freshRows)
	c.cancelUnmoved()
}

// nthNotIn returns the n-th number that is not in the ascending list at. n and the
// numbers begin with 0.
func nthNotIn(at []int, n int) int {
	// at[k]-k numbers outside the list are before at[k].
	k := sort.Search(len(at), func(k int) bool { return at[k]-k > n })
	return n + k
}

func byIndex(at []int, rows Rows) ([]int, Rows) {
	order := make([]int, len(at))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return at[x] - at[y] })
	outAt, outRows := make([]int, len(at)), make(Rows, len(at))
	for i, k := range order {
		outAt[i], outRows[i] = at[k], rows[k]
	}
	return outAt, outRows
}

// cancelUnmoved removes rows that are both removed and added between the same
// two kept rows: they have not moved.
func (d *Delta) cancelUnmoved() {
	var removed, added Rows
	var removedAt, addedAt []int
	i, j := 0, 0
	for i < len(d.RemovedAt) || j < len(d.AddedAt) {
		gap := d.keptBefore(i, j)
		fi, fj := i, j
		for i < len(d.RemovedAt) && d.RemovedAt[i]-i == gap {
			i++
		}
		for j < len(d.AddedAt) && d.AddedAt[j]-j == gap {
			j++
		}
		r, rAt, a, aAt := sequenceDiff(d.Removed[fi:i], d.Added[fj:j])
		for _, k := range rAt {
			removedAt = append(removedAt, d.RemovedAt[fi+k])
		}
		for _, k := range aAt {
			addedAt = append(addedAt, d.AddedAt[fj+k])
		}
		removed, added = append(removed, r...), append(added, a...)
	}
	d.Removed, d.RemovedAt, d.Added, d.AddedAt = removed, removedAt, added, addedAt
}

// keptBefore returns the number of kept rows before the next change. It is the
// same for the rows removed from and added to one segment.
func (d *Delta) keptBefore(i, j int) int {
	switch {
	case i == len(d.RemovedAt):
		return d.AddedAt[j] - j
	case j == len(d.AddedAt):
		return d.RemovedAt[i] - i
	}
	return min(d.RemovedAt[i]-i, d.AddedAt[j]-j)
}
