package plan

import (
	"slices"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/internal/key"
)

// A patternIndex finds the queries that a changed triple may affect, at a cost that
// grows with the queries found. A query has a key for each of its patterns: a hash of the
// fields that are constants. A triple is looked up once for every combination of fields.
// Keys of different patterns can be equal by chance; then a hint marks a query too many.
type patternIndex struct{ keyIndex[uint64] }

func newPatternIndex() patternIndex {
	return patternIndex{keyIndex[uint64]{keys: (*item).patternKeys, each: 20}}
}

// The kinds of keys.
const (
	keyOpen    uint64 = iota // the query is affected by every hint
	keyVague                 // a pattern names no IRI, so any IRI may be of a matching triple
	keyIRI                   // the patterns name the IRI
	keyPattern               // the graph is not given
	keyInGraph               // the graph is given, and must be equal
	keyGraph                 // the graph is given; for triples whose graph is unknown
)

const rdfType = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"

// patternKeys returns the distinct keys of a query.
func (c *item) patternKeys() []uint64 {
	list, why := sparql.Patterns(c.Query.Text)
	if why != "" || len(list) > maxIndexed {
		return []uint64{key.Of(keyOpen)}
	}
	keys := make([]uint64, 0, 4*len(list))
	for _, p := range list {
		s, v, o := key.Hash(p.Subject), key.Hash(p.Predicate), key.Hash(p.Object)
		if g := key.Hash(p.Graph); g == 0 {
			keys = append(keys, key.Of(keyPattern, s, v, o))
		} else {
			keys = append(keys, key.Of(keyGraph, s, v, o), key.Of(keyInGraph, s, v, o, g))
		}
		vague := true
		for i, f := range [4]string{p.Subject, p.Predicate, p.Object, p.Graph} {
			if f == "" || f[0] != '<' {
				continue
			}
			keys = append(keys, key.Of(keyIRI, key.Hash(f)))
			// A graph is not always known, and the type of everything is rdf:type.
			vague = vague && (i == 3 || i == 1 && f == rdfType)
		}
		if vague {
			keys = append(keys, key.Of(keyVague))
		}
	}
	for _, iri := range c.indexed() { // those of VALUES, BIND and FILTER too
		keys = append(keys, key.Of(keyIRI, key.Hash("<"+iri+">")))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// affected returns the queries that may be affected. all reports that there are too
// many to mark.
func (x *patternIndex) affected(h *registry.Hint) (found map[*item]struct{}, all bool) {
	found = map[*item]struct{}{}
	look := func(key uint64) {
		for _, c := range x.by[key].list {
			if found[c] = struct{}{}; len(found) > maxHinted {
				all = true
				return
			}
		}
	}
	if len(h.Touched)+len(h.Changed) > 0 {
		look(key.Of(keyOpen))
	}
	if len(h.Touched) > 0 {
		look(key.Of(keyVague))
	}
	for i := 0; i < len(h.Touched) && !all; i++ {
		look(key.Of(keyIRI, key.Hash("<"+h.Touched[i]+">")))
	}
	for i := 0; i < len(h.Changed) && !all; i++ {
		lookUp(&h.Changed[i], look)
	}
	if all {
		return nil, true
	}
	return found, false
}

// lookUp looks up the keys of the patterns that match a triple.
func lookUp(t *sparql.Pattern, look func(key uint64)) {
	fields := [3]uint64{key.Hash(t.Subject), key.Hash(t.Predicate), key.Hash(t.Object)}
	g := key.Hash(t.Graph)
	for mask := range 8 {
		var f [3]uint64
		for i := range f {
			if mask&(1<<i) != 0 {
				f[i] = fields[i]
			}
		}
		look(key.Of(keyPattern, f[:]...))
		if g == 0 {
			look(key.Of(keyGraph, f[:]...))
		} else {
			look(key.Of(keyInGraph, f[0], f[1], f[2], g))
		}
	}
}
