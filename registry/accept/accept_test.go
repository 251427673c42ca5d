package accept

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Negotiation chooses one of the offers for any Accept, and never one that the client
// refused by name.
func FuzzChoose(f *testing.F) {
	for _, s := range []string{"", "*/*", "text/csv;q=0.5, application/json", "text/*;q=0", "a/b;c=d;q=1;e", ";;;,,,",
		"text/csv;q=2", "text/csv;q=NaN", "*/x"} {
		f.Add(s)
	}
	offers := [][]string{{"application/sparql-results+json", "application/json"}, {"text/csv"}, {"text/turtle"}}
	f.Fuzz(func(t *testing.T, accept string) {
		i := Choose([]string{accept}, offers...)
		if i < -1 || i >= len(offers) {
			t.Fatalf("%q chooses %d", accept, i)
		}
		if strings.TrimSpace(accept) == "*/*" && i != 0 || i < 0 && accept == "" {
			t.Fatalf("%q chooses %d", accept, i)
		}
		if i >= 0 && accept == offers[i][0]+";q=0" {
			t.Fatalf("%q is refused and chosen", accept)
		}
	})
}

// The format that is named with the highest weight wins.
func TestChooseLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offers := [][]string{{"a/a"}, {"b/b"}, {"c/c"}}
		weights := make([]float64, 3)
		var parts []string
		best := -1
		for i, o := range offers {
			weights[i] = float64(rapid.IntRange(0, 10).Draw(t, "q")) / 10
			b, _ := json.Marshal(weights[i])
			parts = append(parts, o[0]+";q="+string(b))
			if weights[i] > 0 && (best < 0 || weights[i] > weights[best]) {
				best = i
			}
		}
		header := strings.Join(rapid.Permutation(parts).Draw(t, "order"), " , ")
		if got := Choose([]string{header}, offers...); got != best {
			t.Fatalf("%q chooses %d, want %d", header, got, best)
		}
	})
}
