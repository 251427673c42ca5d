package diff

import "slices"

// Rows are canonical rows. Deltas share them with the results they come from,
// and keep those in memory: they must not be changed, and a delta that is to
// live long should go through MarshalBinary.
type Rows [][]byte

// A Delta is the step from one result to the next.
//
// For unordered results and graphs Added and Removed are bags in byte order
// that have no row in common. For ordered results they stand in the order of
// their indices: deleting the rows at RemovedAt from the old sequence and
// inserting those at AddedAt, indices of the new one, gives the new sequence
// exactly; a row that moved is removed and added.
type Delta struct {
	Form     Form
	Ordered  bool
	Baseline bool // there was no result before

	Vars, OldVars  []string // heads of the new and the old result
	Added, Removed Rows

	AddedAt, RemovedAt []int // ordered only: ascending

	Boolean, Previous bool // ASK: the new and the old answer

	OldHash, NewHash string // empty when unknown
	OldLen, NewLen   int

	// Jaccard is the distance of the bags, 1 − |A∩B|/|A∪B| with the intersection
	// taking the smaller and the union the larger count of each row; 0 when both
	// are empty. Order does not matter for it. ASK counts as one row.
	Jaccard float64
}

// Empty tells whether d changes nothing but, perhaps, the head.
func (d *Delta) Empty() bool {
	return len(d.Added) == 0 && len(d.Removed) == 0 && d.Boolean == d.Previous
}

// setJaccard computes the distance from the lengths and the net change:
// |A∩B| = OldLen − removed and |A∪B| = OldLen + added.
func (d *Delta) setJaccard() {
	d.Jaccard = 0
	if d.Form == Ask {
		if d.Boolean != d.Previous || d.Baseline {
			d.Jaccard = 1
		}
		return
	}
	stayed := 0 // removed and added again: a move
	if d.Ordered {
		stayed = common(d.Removed, d.Added)
	}
	same := d.OldLen - len(d.Removed) + stayed
	all := d.OldLen + len(d.Added) - stayed
	if all > 0 {
		d.Jaccard = float64(all-same) / float64(all)
	}
}

// common counts the rows that two lists share, as bags.
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

// Invert gives the step back. A baseline has none: it gives nil.
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

// sameVars tells whether the head is the same before and after.
func (d *Delta) sameVars() bool { return slices.Equal(d.Vars, d.OldVars) }
