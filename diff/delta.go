package diff

import "slices"

// Rows are canonical rows. A delta shares them with the results that it was
// made from and keeps those in memory. Do not change them, and encode
// long-lived deltas with MarshalBinary.
type Rows [][]byte

// A Delta is the step from one result to the next.
//
// For unordered results and graphs, Added and Removed are bags in byte order
// without a common row. For ordered results, they are in the order of their
// indices: deleting the rows at RemovedAt from the old sequence and then
// inserting Added at the indices AddedAt of the new one gives exactly the new
// sequence. A row that moved is both removed and added.
type Delta struct {
	Form     Form
	Ordered  bool
	Baseline bool // there was no earlier result

	Vars, OldVars  []string // heads of the new and the old result
	Added, Removed Rows

	AddedAt, RemovedAt []int // ordered results only; ascending

	Boolean, Previous bool // ASK: the new and the old answer

	OldHash, NewHash string // empty if unknown
	OldLen, NewLen   int

	// Jaccard is the distance of the bags, 1 − |A∩B|/|A∪B|. The intersection
	// counts each row as often as the bag with fewer of it, the union as often as
	// the bag with more. It is 0 if both are empty. Order does not matter. ASK
	// counts as one row.
	Jaccard float64
}

// Empty reports whether d changes nothing, except perhaps the head.
func (d *Delta) Empty() bool {
	return len(d.Added) == 0 && len(d.Removed) == 0 && d.Boolean == d.Previous
}

// setJaccard computes the distance from the lengths and the net change: |A∩B| =
// OldLen − removed and |A∪B| = OldLen + added.
func (d *Delta) setJaccard() {
	d.Jaccard = 0
	if d.Form == Ask {
		if d.Boolean != d.Previous || d.Baseline {
			d.Jaccard = 1
		}
		return
	}
	stayed := 0 // both removed and added: moved
	if d.Ordered {
		stayed = common(d.Removed, d.Added)
	}
	same := d.OldLen - len(d.Removed) + stayed
	all := d.OldLen + len(d.Added) - stayed
	if all > 0 {
		d.Jaccard = float64(all-same) / float64(all)
	}
}

// common counts the rows that two bags share.
func common(a, b Rows) (n int) {
	count := make(map[string]int, len(a))
	for _, r := range a {
		count[string(r)]++
	}
	for _, r := range b {
		if count[string(r)] > 0 {
			count[string(r)]--
			n++
		}
	}
	return n
}

// Invert returns the delta in the opposite direction. A baseline has none: the
// result is nil.
func Invert(d *Delta) *Delta {
	if d == nil || d.Baseline {
		return nil
	}
	v := *d
	v.Vars, v.OldVars = d.OldVars, d.Vars
	v.Added, v.Removed = d.Removed, d.Added
	v.AddedAt, v.RemovedAt = d.RemovedAt, d.AddedAt
	v.Boolean, v.Previous = d.Previous, d.Boolean
	v.OldHash, v.NewHash = d.NewHash, d.OldHash
	v.OldLen, v.NewLen = d.NewLen, d.OldLen
	v.setJaccard()
	return &v
}

// sameVars reports whether the head is unchanged.
func (d *Delta) sameVars() bool { return slices.Equal(d.Vars, d.OldVars) }
