// Package selection finds the smallest of many without sorting all.
package selection

// MoveFirst moves the n smallest elements to the front, in no order, in time that
// grows with the length of the list.
//
// Source: C. A. R. Hoare, "Algorithm 65: find", 1961; R. W. Floyd, R. L. Rivest,
// "Algorithm 489: the algorithm SELECT", 1975, for the pivot.
func MoveFirst[T any](list []T, n int, before func(a, b *T) bool) {
	for n > 0 && n < len(list) {
		pivot := pivot(list, n, before)
		i, j := 0, len(list)-1
		for i <= j {
			for before(&list[i], &pivot) {
				i++
			}
			for before(&pivot, &list[j]) {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i++
				j--
			}
		}
		switch { // list[:j+1] ≤ pivot ≤ list[i:]
		case n <= j:
			list = list[:j+1]
		case n >= i:
			list, n = list[i:], n-i
		default:
			return
		}
	}
}

// samples is how many elements pivot looks at.
const samples = 32

// pivot chooses an element that probably comes soon after the n smallest ones of a long
// list: then one pass leaves few others.
func pivot[T any](list []T, n int, before func(a, b *T) bool) T {
	if len(list) < 8*samples {
		return list[len(list)/2]
	}
	var some [samples]T
	for k := range some {
		i := k
		for some[i] = list[k*(len(list)/samples)]; i > 0 && before(&some[i], &some[i-1]); i-- {
			some[i], some[i-1] = some[i-1], some[i]
		}
	}
	return some[min(1+n*samples/len(list), samples-1)]
}
