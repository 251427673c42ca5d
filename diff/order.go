package diff

import (
	"bytes"
	"slices"
)

// sort computes the canonical order of an unordered result, once.
func (r *Result) sort() {
	if r.ordered {
		return
	}
	r.sorting.Do(func() { r.perm = sortedPerm(len(r.rows), r.arrived) })
}

// sortedPerm returns the order of n rows by their bytes; nil if they are sorted.
func sortedPerm(n int, row func(int) []byte) []int32 {
	if n < 2 || isSorted(n, row) {
		return nil
	}
	perm := make([]int32, n)
	for i := range perm {
		perm[i] = int32(i)
	}
	slices.SortFunc(perm, func(a, b int32) int { return bytes.Compare(row(int(a)), row(int(b))) })
	return perm
}

func isSorted(n int, row func(int) []byte) bool {
	for i := 1; i < n; i++ {
		if bytes.Compare(row(i-1), row(i)) > 0 {
			return false
		}
	}
	return true
}

// sortTies sorts neighbouring rows that agree in all keys by their bytes.
func (r *Result) sortTies(keys []string) {
	if !r.ordered || len(r.rows) < 2 || !r.hasVars(keys) {
		return
	}
	place := r.places(keys)
	for from := 0; from < len(r.rows); {
		to := from + 1
		for to < len(r.rows) && place(to) == from {
			to++
		}
		if to > from+1 {
			slices.SortStableFunc(r.rows[from:to], func(a, b span) int {
				return bytes.Compare(r.text[a.from:a.to], r.text[b.from:b.to])
			})
		}
		from = to
	}
}

// places returns a function that gives the first row of a row's tie group. It
// must be called with ascending rows. Without keys every row is a group of its
// own.
func (r *Result) places(keys []string) func(int) int {
	if !r.ordered || !r.hasVars(keys) {
		return func(i int) int { return i }
	}
	names := make(map[string]int, len(keys))
	for i, k := range keys {
		names[string(appendEscaped(nil, k))] = i
	}
	group, at := 0, 0
	var last, terms []keyTerm
	last = r.keyTerms(0, names, nil)
	return func(i int) int {
		for at < i {
			at++
			terms = r.keyTerms(at, names, terms[:0])
			if !slices.EqualFunc(terms, last, keyTerm.equal) {
				group = at
				last, terms = terms, last
			}
		}
		return group
	}
}

func (r *Result) hasVars(keys []string) bool {
	if len(keys) == 0 {
		return false
	}
	has := make(map[string]bool, len(r.vars))
	for _, v := range r.vars {
		has[v] = true
	}
	return !slices.ContainsFunc(keys, func(k string) bool { return !has[k] })
}

// A keyTerm is a key that a row binds, with the canonical bytes of the term.
type keyTerm struct {
	key  int
	term []byte
}

// equal reports whether SPARQL leaves open which of two terms comes first: if they are the same, or both blank nodes.
func (k keyTerm) equal(o keyTerm) bool {
	return k.key == o.key && (bytes.Equal(k.term, o.term) || isBlank(k.term) && isBlank(o.term))
}

func isBlank(term []byte) bool { return bytes.Contains(term, []byte(blankPrefix)) }

// keyTerms appends the terms that row i binds the names to, in the order of the
// head.
func (r *Result) keyTerms(i int, names map[string]int, terms []keyTerm) []keyTerm {
	eachBinding(r.arrived(i), func(name, term []byte) {
		if k, ok := names[string(name)]; ok {
			terms = append(terms, keyTerm{k, term})
		}
	})
	return terms
}
