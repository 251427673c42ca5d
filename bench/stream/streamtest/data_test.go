package streamtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench/stream"
)

func TestData(t *testing.T) {
	d := NewData()
	d.Insert(stream.Triple{"a", "p", "b"}, stream.Triple{"a", "p", "c"}, stream.Triple{"x", "sub", "y"}, stream.Triple{"y", "sub", "x"},
		stream.Triple{"a", "p", "b"})
	if got := d.Objects("a", "p"); !slices.Equal(got, []string{"b", "c"}) {
		t.Error(got)
	}
	if got := d.below("sub", "y"); !slices.Equal(got, []string{"x", "y"}) {
		t.Error(got)
	}
	d.Remove(stream.Triple{"a", "p", "b"}, stream.Triple{"a", "p", "b"}, stream.Triple{"no", "no", "no"})
	if d.Subjects("p", "b") != nil || !slices.Equal(d.Objects("a", "p"), []string{"c"}) {
		t.Error(d)
	}
}

// The rows of queries change only if a triple does that one of their keys matches.
func TestRowsFollowFromKeys(t *testing.T) {
	w := stream.NewWorld(5, 200, nil)
	list, d := w.Queries(400), NewData()
	w.Triples(func(x stream.Triple) { d.Insert(x) })
	var readers []func(*Data) [][]string
	for _, q := range list {
		_, read := Reader(q.Text)
		readers = append(readers, read)
	}
	hash := func() (out []string) {
		for _, read := range readers {
			rows := []string{}
			for _, r := range read(d) {
				rows = append(rows, strings.Join(r, " "))
			}
			slices.Sort(rows)
			out = append(out, strings.Join(rows, "\n"))
		}
		return out
	}
	j, was, changes := stream.NewJudge(list), hash(), 0
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
