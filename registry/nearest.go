package registry

import "strings"

// Nearest returns the name with the smallest edit distance to word, or "" if
// none is close.
func Nearest(word string, names []string) (found string) {
	least := min(2, len(word)/2) + 1
	for _, name := range names {
		if d := editDistance(strings.ToLower(word), name); d < least {
			least, found = d, name
		}
	}
	return found
}

// editDistance is the Levenshtein distance from a to b: the minimum number of
// insertions, deletions and substitutions.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(diagonal+cost, above+1, row[j]+1)
			diagonal = above
		}
	}
	return row[len(b)]
}
