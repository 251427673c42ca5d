package merge

import (
	"maps"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry/sparql"
)

// binding says which variables and constants a group binds in all of its solutions, and
// which in some.
type binding struct{ always, ever map[string]bool }

func newBinding() binding { return binding{map[string]bool{}, map[string]bool{}} }

// add notes that all solutions bind a variable or contain a constant.
func (b binding) add(term string) { b.always[term], b.ever[term] = true, true }

// join adds what the next part of the same group binds.
func (p *parser) join(b, part binding) {
	for _, term := range slices.Sorted(maps.Keys(part.ever)) {
		if p.names[term] && b.ever[term] && !b.always[term] {
			p.refuse(Unbound, term+" joins two parts of the pattern and may be unbound in the first")
		}
		b.ever[term] = true
	}
	maps.Copy(b.always, part.always)
}

// group examines a group graph pattern.
func (p *parser) group(g *sparql.Group, outermost bool) binding {
	b, tested := newBinding(), map[string]bool{}
	if g.Select != nil {
		p.refuse(Nested, "SELECT")
		p.group(g.Select.Where, false)
	}
	for _, e := range g.Elements {
		p.element(e, b, tested, outermost)
	}
	for _, v := range slices.Sorted(maps.Keys(tested)) {
		if !b.ever[v] {
			p.refuse(Unbound, "a condition on "+v+" is in a group that does not bind it")
		}
		if tested[v] && b.always[v] {
			p.refuse(Trivial, v+" is always bound")
		}
	}
	return b
}

// element examines one element of a group. tested collects the variables of conditions, and
// whether one asks if they are bound.
func (p *parser) element(e sparql.Element, b binding, tested map[string]bool, outermost bool) {
	switch e.Word {
	case "MINUS", "SERVICE":
		p.refuse(Nested, e.Word)
	case "UNION", "OPTIONAL", "GRAPH", "BIND", "VALUES":
		if !outermost {
			p.refuse(Nested, p.list[e.From].text+" inside an inner group")
		}
	}
	part := newBinding()
	switch e.Word {
	case "":
		p.triples(e, part)
		p.connect(part)
	case "UNION":
		part = p.union(e.Groups)
	case "OPTIONAL":
		part = p.group(e.Groups[0], false)
		clear(part.always)
	case "GRAPH":
		p.variable(e.Subject.Token, part)
		p.join(part, p.group(e.Groups[0], false))
		p.connect(part)
	case "FILTER":
		p.filter(e, tested)
	case "BIND":
		p.bind(e, b, part)
	case "VALUES":
		p.values(e, part)
		p.connect(part)
	case "MINUS":
		p.group(e.Groups[0], false)
	}
	p.join(b, part)
}

// union examines alternatives. They always bind what all of them bind.
func (p *parser) union(groups []*sparql.Group) binding {
	all := p.group(groups[0], false)
	for _, g := range groups[1:] {
		other := p.group(g, false)
		maps.DeleteFunc(all.always, func(term string, _ bool) bool { return !other.always[term] })
		maps.Copy(all.ever, other.ever)
	}
	return all
}

// filter examines a condition. The constants of EXISTS stay, and its variables are not in
// scope.
func (p *parser) filter(e sparql.Element, tested map[string]bool) {
	if e.Exists {
		scope, candidates := len(p.scope), len(p.candidates)
		p.group(e.Groups[0], false)
		p.scope = p.scope[:scope]
		if p.keeps(keepHidden) {
			p.candidates = p.candidates[:candidates]
		}
		return
	}
	vars := p.expression(e)
	if len(vars) == 0 {
		p.refuse(Trivial, "a condition without variables")
	}
	for _, i := range vars {
		v := p.list[i].text
		tested[v] = tested[v] || p.list[i-2].text == "BOUND"
	}
}

// expression returns the variables of an expression.
func (p *parser) expression(e sparql.Element) (vars []int) {
	for i := e.From; i < e.To; i++ {
		if p.list[i].isVariable() {
			vars = append(vars, i)
		}
		if p.list[i].text == "EXISTS" {
			p.refuse(Nested, "EXISTS inside an expression")
		}
	}
	return vars
}

// bind examines ( expression AS ?v ).
func (p *parser) bind(e sparql.Element, b, part binding) {
	vars := p.expression(e)
	for i, at := range vars {
		if v := p.list[at].text; i == len(vars)-1 {
			p.variable(at, part)
		} else if !b.always[v] {
			p.refuse(Unbound, "BIND uses "+v+" where it may be unbound")
		}
	}
	clear(part.always) // an error leaves it unbound
}

// values examines an inline VALUES block.
func (p *parser) values(e sparql.Element, b binding) {
	for i := e.Names.From; i < e.Names.To; i++ {
		p.variable(i, b)
	}
	if slices.ContainsFunc(p.list[e.Names.To:e.To], func(x part) bool { return x.text == "UNDEF" }) {
		clear(b.always)
	}
}

// variable brings the token at i into scope if it is a variable.
func (p *parser) variable(i int, b binding) {
	if t := p.list[i]; t.isVariable() {
		b.add(t.text)
		if !slices.Contains(p.scope, t.text) {
			p.scope = append(p.scope, t.text)
		}
	}
}

// triples examines a subject with its properties.
func (p *parser) triples(e sparql.Element, b binding) {
	subject := e.Subject.Token
	if p.list[subject].text == "[" {
		p.properties(e.Subject.Properties, b, -1)
		p.properties(e.Properties, b, -1)
		return
	}
	p.term(e.Subject, b)
	p.properties(e.Properties, b, subject)
}

// connect notes that the terms of a part are connected.
func (p *parser) connect(part binding) {
	all, others := maps.Clone(part.ever), p.connected[:0]
	for _, terms := range p.connected {
		if intersects(terms, all) {
			maps.Copy(all, terms)
		} else {
			others = append(others, terms)
		}
	}
	p.connected = append(others, all)
}

func intersects(a, b map[string]bool) bool {
	for term := range a {
		if b[term] {
			return true
		}
	}
	return false
}

// properties examines predicates and objects. subject is its token, -1 if it is none.
func (p *parser) properties(list []sparql.Property, b binding, subject int) {
	var all predicate
	for _, x := range list {
		path := p.path(x.Path, b)
		all.open = all.open || path.open
		all.search = all.search || path.search
		for _, object := range x.Objects {
			p.term(object, b)
			if t := p.list[object.Token]; t.text != "[" {
				p.candidate(object.Token, path, b)
				p.once(path.variable, t.text, subject)
			}
		}
	}
	if subject >= 0 {
		p.candidate(subject, all, b)
	}
}

// once refuses a triple pattern that has a variable, or a constant that may become one,
// twice. subject is its token, -1 if it is none.
func (p *parser) once(predicate, object string, subject int) {
	first := ""
	if subject >= 0 {
		first = p.list[subject].text
	}
	if object == first || predicate != "" && (predicate == first || predicate == object) {
		p.refuse(Repeated, object)
	}
}

// term examines a subject or object. The constants of a collection stay.
func (p *parser) term(n sparql.Node, b binding) {
	p.variable(n.Token, b)
	if t := p.list[n.Token]; t.kind == sparql.BlankNode {
		b.add(t.text)
	}
	p.properties(n.Properties, b, -1)
	for _, item := range n.Items {
		p.term(item, b)
	}
}

// candidate notes that the constant at i may become a parameter.
func (p *parser) candidate(i int, path predicate, b binding) {
	t := p.list[i]
	switch {
	case path.open && p.keeps(keepPath), path.search && p.keeps(keepSearch), path.class && p.keeps(keepClass):
		return
	case t.kind == sparql.IRI:
		if !isAbsolute(t.text) {
			p.refuse(Dialect, "the IRI "+t.text+" is relative")
		}
	case t.kind == sparql.Name:
	case !t.isLiteral():
		return
	case path.long:
		p.refuse(Path, "a literal at an end of a path")
	case !t.isString() && p.keeps(keepTyped):
		return
	}
	p.candidates = append(p.candidates, i)
	b.add(t.text)
}

// isAbsolute reports whether the IRI t has a scheme.
func isAbsolute(t string) bool {
	colon := strings.IndexByte(t, ':')
	return colon > 1 && !strings.ContainsAny(t[:colon], "/?#")
}

// predicate is what matters of a predicate or path.
type predicate struct {
	open   bool // a path with * + ? ! or |
	long   bool // a path, not one predicate
	class  bool // a or rdf:type, whose object stays
	search bool // a search function of an engine
	// variable is the predicate if that is a variable.
	variable string
}

const rdfType = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"

// path examines a predicate or property path.
func (p *parser) path(x sparql.Path, b binding) predicate {
	v := predicate{open: x.Open, long: x.To > x.From+1}
	p.open = p.open || x.Open
	for _, t := range p.list[x.From:x.To] {
		v.open = v.open || t.text == "|"
	}
	for _, i := range x.Predicates {
		v.search = v.search || isSearch(p.list[i].text)
	}
	if t := p.list[x.From]; !v.long {
		v.class = t.text == "a" || t.text == rdfType
		if p.variable(x.From, b); t.isVariable() {
			v.variable = t.text
		}
	}
	return v
}

// searches are the namespaces of predicates that need their arguments as constants, besides those of functions of an
// engine.
var searches = []string{
	"<http://www.bigdata.com/rdf#", "<http://franz.com/ns/", "<http://wikiba.se/ontology#", "<https://www.mediawiki.org/", "bd:",
}

func isSearch(term string) bool {
	return sparql.Virtual(term) || slices.ContainsFunc(searches, func(s string) bool { return strings.HasPrefix(term, s) })
}
