package diff

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// cubic returns a random graph in which every node has three neighbours. Colours do not
// distinguish its nodes, although hardly any two are interchangeable.
func cubic(n int, seed uint64) [][2]int {
	rnd := rand.New(rand.NewPCG(seed, 1))
	for {
		var ends []int
		for v := range n {
			ends = append(ends, v, v, v)
		}
		rnd.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		edges, seen := [][2]int{}, map[[2]int]bool{}
		for i := 0; i < len(ends); i += 2 {
			e := [2]int{min(ends[i], ends[i+1]), max(ends[i], ends[i+1])}
			if e[0] == e[1] || seen[e] {
				break
			}
			seen[e] = true
			edges = append(edges, e)
		}
		if 2*len(edges) == len(ends) {
			return edges
		}
	}
}

// bonds writes undirected graphs, each with nodes of its own.
func bonds(form Form, graphs ...[][2]int) raw {
	r := raw{form: form, vars: []string{"a", "p", "b"}}
	for g, edges := range graphs {
		for _, e := range edges {
			a, b := blankTerm("%d/%d", g, e[0]), blankTerm("%d/%d", g, e[1])
			r.rows = append(r.rows, []Term{a, iri("http://p"), b}, []Term{b, iri("http://p"), a})
		}
	}
	return r
}

// Beyond the budget, new labels and another order of rows still are no change, although
// the nodes are neither distinguished by colours nor interchangeable.
func TestDisguisesBeyondTheBudget(t *testing.T) {
	var many [][][2]int
	for i := range uint64(40) {
		many = append(many, cubic(12, i%20)) // each twice
	}
	cases := map[string]raw{"40 parts of 12": bonds(Construct, many...), "SELECT": bonds(Select, cubic(40, 5))}
	for _, n := range []int{16, 60, 200} {
		cases[fmt.Sprintf("one part of %d", n)] = bonds(Construct, cubic(n, uint64(n)))
	}
	for name, r := range cases {
		t.Run(name, func(t *testing.T) {
			a := r.build(t)
			if !a.Approximate() {
				t.Error("the budget was not needed")
			}
			for seed := range uint64(3) {
				if b := r.disguise(seed).build(t); a.Hash() != b.Hash() {
					t.Errorf("disguise %d of the same graph has another hash", seed)
				}
			}
		})
	}
	// Different results stay different, here with one bond moved.
	if a, b := bonds(Construct, cubic(60, 1)).build(t), bonds(Construct, cubic(60, 2)).build(t); a.Hash() == b.Hash() {
		t.Error("two graphs look the same")
	}
}
