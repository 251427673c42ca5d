// Package key makes the keys by which indexes find the triple patterns that a triple matches: hashes of the
// fields that are constants. Keys of different patterns can be equal by chance.
package key

import "hash/maphash"

var seed = maphash.MakeSeed()

// Hash returns the hash of a field, 0 of an empty one.
func Hash(field string) uint64 {
	if field == "" {
		return 0
	}
	return maphash.String(seed, field) | 1
}

// Of combines the hashes of the fields that are in a key of a kind.
func Of(kind uint64, fields ...uint64) uint64 {
	h := kind + 1
	for _, f := range fields {
		h = (h ^ f) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}
