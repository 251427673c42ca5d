package stream

import (
	"slices"
	"strings"
	"testing"
)

func TestData(t *testing.T) {
	d := NewData()
	d.Insert(Triple{"a", "p", "b"}, Triple{"a", "p", "c"}, Triple{"x", "sub", "y"}, Triple{"y", "sub", "x"}, Triple{"a", "p", "b"})
	if got := d.Objects("a", "p"); !slices.Equal(got, []string{"b", "c"}) {
		t.Error(got)
	}
	if got := d.below("sub", "y"); !slices.Equal(got, []string{"x", "y"}) {
		t.Error(got)
	}
	d.Remove(Triple{"a", "p", "b"}, Triple{"a", "p", "b"}, Triple{"no", "no", "no"})
	if d.Subjects("p", "b") != nil || !slices.Equal(d.Objects("a", "p"), []string{"c"}) {
		t.Error(d)
	}
}

// The rows of queries change only if a triple does that one of their keys matches.
func TestRowsFollowFromKeys(t *testing.T) {
	w := NewWorld(5, 200, nil)
	list, d := w.Queries(400), NewData()
	w.Triples(func(x Triple) { d.Insert(x) })
	hash := func() (out []string) {
		for _, q := range list {
			rows := []string{}
			for _, r := range q.Rows(d) {
				rows = append(rows, strings.Join(r, " "))
			}
			slices.Sort(rows)
			out = append(out, strings.Join(rows, "\n"))
		}
		return out
	}
	j, was, changes := NewJudge(list), hash(), 0
	for range 2000 {
		c := w.Next()
		d.Remove(c.Remove...)
		d.Insert(c.Insert...)
		now := hash()
		touched := j.Touched(append(slices.Clone(c.Remove), c.Insert...))
		for i := range now {
			if now[i] != was[i] {
				if changes++; !slices.Contains(touched, i) {
					t.Fatalf("%s changes, and no key matches", list[i].Text)
				}
			}
		}
		was = now
	}
	if changes < 100 {
		t.Error(changes)
	}
}
