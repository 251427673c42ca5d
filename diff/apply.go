package diff

import (
	"bytes"
	"fmt"
	"slices"
)

// mismatch is an error about a delta that does not fit a result or another delta.
func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMismatch, fmt.Sprintf(format, args...))
}

// Apply returns the result after d. It returns ErrMismatch if d does not start at old
// or its outcome does not match. A baseline applies to any result, including nil, and
// replaces it. A nil delta returns old.
func (d *Delta) Apply(old *Result) (*Result, error) {
	if d == nil {
		return old, nil
	}
	if d.Baseline {
		old = &Result{form: d.Form, ordered: d.Ordered, vars: d.OldVars}
	}
	if err := d.fits(old); err != nil {
		return nil, err
	}
	r := &Result{form: d.Form, ordered: d.Ordered, vars: slices.Clone(d.Vars), boolean: d.Boolean}
	r.rows = make([]span, 0, max(0, old.Len()+len(d.Added)-len(d.Removed)))
	r.text = make([]byte, 0, old.textLen()+d.Added.bytes())
	var err error
	if d.Ordered {
		err = d.applySequence(old, r)
	} else {
		err = d.applyBag(old, r)
	}
	if err != nil {
		return nil, err
	}
	if d.NewHash != "" && r.Hash() != d.NewHash {
		return nil, mismatch("the result is %s, not %s", r.Hash(), d.NewHash)
	}
	r.approximate = old.approximate
	return r, nil
}

func (d *Delta) fits(old *Result) error {
	switch {
	case old == nil:
		return mismatch("there is no result to apply it to")
	case old.form != d.Form || old.ordered != d.Ordered:
		return mismatch("the result is of another form")
	case !slices.Equal(old.vars, d.OldVars):
		return mismatch("the result has other variables")
	case old.form == Ask && !d.Baseline && old.boolean != d.Previous:
		return mismatch("the answer before was another")
	case d.OldHash != "" && old.Hash() != d.OldHash:
		return mismatch("it is for %s, not %s", d.OldHash, old.Hash())
	}
	return nil
}

// textLen is the total length of all rows in bytes.
func (r *Result) textLen() (n int) {
	for _, s := range r.rows {
		n += s.to - s.from
	}
	return n
}

func (r Rows) bytes() (n int) {
	for _, row := range r {
		n += len(row)
	}
	return n
}

// add appends a row to a result under construction.
func (r *Result) add(row []byte) {
	from := len(r.text)
	r.text = append(r.text, row...)
	r.rows = append(r.rows, span{from, len(r.text)})
}

// applyBag merges three sorted lists: the old, the removed and the added rows.
func (d *Delta) applyBag(old, r *Result) error {
	removed, added := sorted(d.Removed), sorted(d.Added)
	for i := range old.rows {
		row := old.Row(i)
		if len(removed) > 0 && bytes.Equal(removed[0], row) {
			removed = removed[1:]
			continue
		}
		for len(added) > 0 && bytes.Compare(added[0], row) < 0 {
			r.add(added[0])
			added = added[1:]
		}
		r.add(row)
	}
	if len(removed) > 0 {
		return mismatch("a removed row does not exist")
	}
	for _, row := range added {
		r.add(row)
	}
	return nil
}

// sorted returns rows in byte order. It copies them only if they are not
// sorted.
func sorted(rows Rows) Rows {
	if slices.IsSortedFunc(rows, bytes.Compare) {
		return rows
	}
	rows = slices.Clone(rows)
	slices.SortFunc(rows, bytes.Compare)
	return rows
}

func (d *Delta) applySequence(old, r *Result) error {
	if len(d.RemovedAt) != len(d.Removed) || len(d.AddedAt) != len(d.Added) {
		return mismatch("indices and rows differ in number")
	}
	ri, ai := 0, 0
	insert := func() {
		for ai < len(d.AddedAt) && d.AddedAt[ai] == r.Len() {
			r.add(d.Added[ai])
			ai++
		}
	}
	for i := range old.rows {
		row := old.arrived(i)
		if ri < len(d.RemovedAt) && d.RemovedAt[ri] == i {
			if !bytes.Equal(d.Removed[ri], row) {
				return mismatch("row %d differs from the removed one", i)
			}
			ri++
			continue
		}
		insert()
		r.add(row)
	}
	insert()
	if ri < len(d.RemovedAt) || ai < len(d.AddedAt) {
		return mismatch("an index is out of range or out of order")
	}
	return nil
}
