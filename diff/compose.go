package diff

import (
	"bytes"
	"slices"
)

// Compose returns the delta that does a and then b; nil if they cancel out. A
// nil delta changes nothing. The error is ErrMismatch if b does not start where
// a ends. Blank node labels are compared as text: those of the result between
// mean the same nodes in a and b. Jaccard requires that the lengths are known.
func Compose(a, b *Delta) (*Delta, error) {
	if a == nil {
		return b, nil
	}
	if b == nil {
		return a, nil
	}
	if err := follows(a, b); err != nil {
		return nil, err
	}
	if !a.Baseline && a.OldHash != "" && a.OldHash == b.NewHash {
		return nil, nil
	}
	c := &Delta{Form: a.Form, Ordered: a.Ordered, Baseline: a.Baseline, Vars: b.Vars, OldVars: a.OldVars,
		Boolean: b.Boolean, Previous: a.Previous, OldHash: a.OldHash, NewHash: b.NewHash, OldLen: a.OldLen, NewLen: b.NewLen}
	if c.Baseline {
		c.OldVars = c.Vars
	}
	if c.Ordered {
		composeOrdered(c, a, b)
	} else {
		c.Added, c.Removed = composeBags(a, b)
	}
	if !c.Baseline && c.Empty() && c.sameVars() {
		return nil, nil
	}
	c.setJaccard()
	return c, nil
}

func follows(a, b *Delta) error {
	switch {
	case b.Baseline:
		return mismatch("a baseline cannot follow another delta")
	case a.Form != b.Form || a.Ordered != b.Ordered:
		return mismatch("the forms of the deltas differ")
	case a.NewHash != "" && b.OldHash != "" && a.NewHash != b.OldHash:
		return mismatch("one ends at %s, the next begins at %s", a.NewHash, b.OldHash)
	case !slices.Equal(a.Vars, b.OldVars) || a.NewLen != b.OldLen || a.Boolean != b.Previous:
		return mismatch("one does not start where the other ends")
	}
	return nil
}

// composeBags adds up the changes of each row.
func composeBags(a, b *Delta) (added, removed Rows) {
	plus := merge(sorted(a.Added), sorted(b.Added))
	minus := merge(sorted(a.Removed), sorted(b.Removed))
	return Cancel(plus, minus)
}

// Cancel returns what two sorted bags do not have in common.
func Cancel(a, b Rows) (onlyA, onlyB Rows) {
	for len(a) > 0 && len(b) > 0 {
		switch c := bytes.Compare(a[0], b[0]); {
		case c == 0:
			a, b = a[1:], b[1:]
		case c < 0:
			onlyA, a = append(onlyA, a[0]), a[1:]
		default:
			onlyB, b = append(onlyB, b[0]), b[1:]
		}
	}
	return append(onlyA, a...), append(onlyB, b...)
}

// merge merges two sorted lists.
func merge(a, b Rows) Rows {
	out := make(Rows, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if bytes.Compare(a[0], b[0]) <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}
