package feed

import (
	"io"
	"net/url"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry/sparql"
)

// A statement is a triple of a page, and what patterns leave out of its object.
type statement struct {
	sparql.Pattern
	kind string // its language, or datatype if that is not xsd:string
}

// labelled returns a function for formats.Triples that appends to a list and keeps the labels of blank nodes.
func labelled(list *[]statement) func(s, p, o diff.Term) error {
	label := func(t diff.Term) string {
		if t.Kind == diff.Blank {
			return "_:" + t.Value
		}
		return field(t)
	}
	return func(s, p, o diff.Term) error {
		if len(*list) > mostPage {
			return io.EOF
		}
		kind := o.Datatype
		if o.Lang != "" {
			kind = "@" + strings.ToLower(o.Lang)
		}
		kind = strings.TrimSuffix(kind, "http://www.w3.org/2001/XMLSchema#string")
		*list = append(*list, statement{sparql.Pattern{Subject: label(s), Predicate: field(p), Object: label(o)}, kind})
		return nil
	}
}

// A graph is the triples of a page by their subjects.
type graph struct {
	all     []statement
	by      map[string][]statement
	members map[string]bool
}

func newGraph(list []statement) *graph {
	g := &graph{all: list, by: map[string][]statement{}, members: map[string]bool{}}
	for _, t := range list {
		g.by[t.Subject] = append(g.by[t.Subject], t)
		if t.Predicate == treeSpace+"member>" {
			g.members[t.Object] = true
		}
	}
	return g
}

// objects returns the objects of a predicate, of all subjects if the subject is empty. No predicate has none.
func (g *graph) objects(subject, predicate string) (list []string) {
	from := g.all
	if subject != "" {
		from = g.by[subject]
	}
	for _, t := range from {
		if t.Predicate == predicate {
			list = append(list, t.Object)
		}
	}
	return list
}

func (g *graph) has(s, p, o string) bool {
	for _, t := range g.by[s] {
		if t.Predicate == p && t.Object == o {
			return true
		}
	}
	return false
}

// reach returns the triples of a member and of the nodes on its page that it leads to, except what describes the
// stream and other members.
func (g *graph) reach(member string) (list []statement) {
	todo, seen := []string{member}, map[string]bool{member: true}
	for len(todo) > 0 {
		s := todo[0]
		todo = todo[1:]
		for _, t := range g.by[s] {
			if strings.HasPrefix(t.Predicate, treeSpace) || strings.HasPrefix(t.Predicate, ldesSpace) && s != member {
				continue
			}
			list = append(list, t)
			if !seen[t.Object] && !g.members[t.Object] {
				seen[t.Object] = true
				todo = append(todo, t.Object)
			}
		}
	}
	return list
}

func sameHost(a, b string) bool {
	x, err1 := url.Parse(a)
	y, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && x.Host == y.Host && x.Scheme == y.Scheme
}
