package registry

import "strings"

// Nearest is the name that takes the fewest edits to make of word, if few, else "".
func Nearest(word string, names []string) (found string) {
	least := min(2, len(word)/2) + 1
	for _, name := range names {
		if d := editDistance(strings.ToLower(word), name); d < least {
			least, found = d, name
		}
	}
	return found
}

// editDistance counts the insertions, deletions and substitutions from a to b
// (Levenshtein's distance).
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
