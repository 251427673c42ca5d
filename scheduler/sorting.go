package scheduler

import (
	"math"
	"slices"
)

// A sorter puts entries in order. It keeps its room.
type sorter struct {
	keys, room []place
	out        []entry
}

// A place is where an entry is, and its value in the order of whole numbers.
type place struct {
	key uint64
	at  int32
}

// sort returns the entries in order, in memory that stands until the next call.
// Many of one class are sorted by the bytes of their values, the last one first,
// which takes no comparisons; those of the same value are then put in order.
//
// Source: H. H. Seward, "Information sorting in the application of electronic
// digital computers to business operations", 1954.
func (s *sorter) sort(list []entry) []entry {
	const many = 64
	s.out = append(s.out[:0], list...)
	if len(list) < many || slices.ContainsFunc(list, func(e entry) bool { return e.class() != list[0].class() }) {
		slices.SortFunc(s.out, entry.compare)
		return s.out
	}
	s.byValue(list)
	for i, p := range s.keys {
		s.out[i] = list[p.at]
	}
	for i := 0; i < len(s.keys); {
		k := i + 1
		for k < len(s.keys) && s.keys[k].key == s.keys[i].key {
			k++
		}
		if k > i+1 {
			slices.SortFunc(s.out[i:k], entry.compare)
		}
		i = k
	}
	return s.out
}

func (s *sorter) byValue(list []entry) {
	var counts [8][256]int32
	s.keys, s.room = s.keys[:0], slices.Grow(s.room[:0], len(list))[:len(list)]
	for i := range list {
		x := ascendingBits(list[i].value)
		s.keys = append(s.keys, place{x, int32(i)})
		for d := range counts {
			counts[d][byte(x>>(8*d))]++
		}
	}
	for d := range counts {
		count, shift := &counts[d], 8*d
		if count[byte(s.keys[0].key>>shift)] == int32(len(list)) {
			continue // they all have the same
		}
		sum := int32(0)
		for b, n := range count {
			count[b], sum = sum, sum+n
		}
		for _, p := range s.keys {
			to := &count[byte(p.key>>shift)]
			s.room[*to] = p
			*to++
		}
		s.keys, s.room = s.room, s.keys
	}
}

// ascendingBits are in the order of the numbers.
func ascendingBits(x float64) uint64 {
	b := math.Float64bits(x + 0) // −0 is 0
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}
