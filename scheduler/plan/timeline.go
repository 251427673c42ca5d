package plan

import (
	"cmp"
	"slices"
	"time"
)

// A timeline computes the median of all durations added. It counts equal durations
// together: those of one query differ little, and long histories are in whole
// milliseconds.
type timeline struct {
	piles []pile // ascending
	n     int    // durations added
	mid   int    // index of the pile with the element n/2 of the sorted durations
	below int    // durations in the piles before mid
}

type pile struct {
	d time.Duration
	n int
}

func (l *timeline) add(d time.Duration) {
	i := l.find(d)
	if i == len(l.piles) || l.piles[i].d != d {
		l.piles = slices.Insert(l.piles, i, pile{d: d})
		if i <= l.mid && l.n > 0 {
			l.mid++
		}
	}
	l.piles[i].n++
	if l.n++; i < l.mid {
		l.below++
	}
	for l.n/2 >= l.below+l.piles[l.mid].n {
		l.below += l.piles[l.mid].n
		l.mid++
	}
	for l.n/2 < l.below {
		l.mid--
		l.below -= l.piles[l.mid].n
	}
}

const steps = 16 // up to here a linear search costs less than a binary one

// find returns the index of the first pile that is not below d. Most durations are
// near the median, so the search starts there.
func (l *timeline) find(d time.Duration) int {
	i, n := l.mid, len(l.piles)
	for range steps {
		switch {
		case i < n && l.piles[i].d < d:
			i++
		case i > 0 && l.piles[i-1].d >= d:
			i--
		default:
			return i
		}
	}
	i, _ = slices.BinarySearchFunc(l.piles, d, func(t pile, d time.Duration) int { return cmp.Compare(t.d, d) })
	return i
}

// median returns the median of at least one duration. For an even number it is the
// mean of the middle two.
func (l *timeline) median() time.Duration {
	upper := l.piles[l.mid].d
	if l.n%2 == 1 || l.n/2 > l.below {
		return upper
	}
	lower := l.piles[l.mid-1].d
	return lower + (upper-lower)/2
}
