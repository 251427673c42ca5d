package merge

import (
	"maps"
	"slices"
	"strings"
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
		if isVariable(term) && b.ever[term] && !b.always[term] {
			p.refuse(Unbound, term+" joins two parts of the pattern and may be unbound in the first")
		}
		b.ever[term] = true
	}
	maps.Copy(b.always, part.always)
}

// group reads a group graph pattern with its braces.
func (p *parser) group(outermost bool) binding {
	p.expect("{")
	b, tested := newBinding(), map[string]bool{}
	for !p.accept("}") {
		p.element(b, tested, outermost)
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

// element reads one element of a group. tested collects the variables of conditions, and
// whether one asks if they are bound.
func (p *parser) element(b binding, tested map[string]bool, outermost bool) {
	word := p.peek()
	switch word {
	case "MINUS", "SERVICE", "SELECT":
		p.refuse(Nested, word)
	case "{", "OPTIONAL", "GRAPH", "BIND", "VALUES":
		if !outermost {
			p.refuse(Nested, word+" inside an inner group")
		}
	}
	switch word {
	case "{":
		p.join(b, p.union())
	case "OPTIONAL":
		p.next()
		part := p.group(false)
		clear(part.always)
		p.join(b, part)
	case "GRAPH":
		p.next()
		p.graph = true
		part := newBinding()
		p.variable(p.next(), part)
		p.join(part, p.group(false))
		p.connect(part)
		p.join(b, part)
	case "FILTER":
		p.next()
		p.filter(tested)
	case "BIND":
		p.next()
		p.bind(b)
	case "VALUES":
		p.next()
		part := p.values()
		p.connect(part)
		p.join(b, part)
	case "MINUS":
		p.next()
		p.group(false)
	case "SELECT":
		p.until("{")
		p.group(false)
		p.untilEnd("}")
	case ".":
		p.next()
	default:
		p.triples(b)
	}
}

// union reads a group and the alternatives that follow it. It always binds what all
// of them bind.
func (p *parser) union() binding {
	all := p.group(false)
	for p.accept("UNION") {
		other := p.group(false)
		maps.DeleteFunc(all.always, func(term string, _ bool) bool { return !other.always[term] })
		maps.Copy(all.ever, other.ever)
	}
	return all
}

// filter reads the condition after FILTER. The constants of EXISTS stay, and its variables
// are not in scope.
func (p *parser) filter(tested map[string]bool) {
	p.accept("NOT")
	if p.accept("EXISTS") {
		scope, candidates := len(p.scope), len(p.candidates)
		p.group(false)
		p.scope = p.scope[:scope]
		if p.keeps(keepHidden) {
			p.candidates = p.candidates[:candidates]
		}
		return
	}
	from := p.pos
	if p.peek() != "(" { // a function call
		p.next()
	}
	if p.peek() != "(" {
		p.refuse(Dialect, "FILTER without brackets")
	}
	vars := p.expression()
	if len(vars) == 0 {
		p.refuse(Trivial, "a condition without variables")
	}
	for _, v := range vars {
		tested[v] = tested[v] || p.asksBound(v, span{from, p.pos})
	}
}

// asksBound reports whether an expression has BOUND(v).
func (p *parser) asksBound(v string, s span) bool {
	for i := s.from + 2; i < s.to; i++ {
		if p.list[i].text == v && p.list[i-2].text == "BOUND" {
			return true
		}
	}
	return false
}

// expression reads an expression in brackets and returns its variables.
func (p *parser) expression() (vars []string) {
	from := p.pos
	p.skip()
	for _, x := range p.list[from:p.pos] {
		if isVariable(x.text) {
			vars = append(vars, x.text)
		}
		if x.text == "EXISTS" {
			p.refuse(Nested, "EXISTS inside an expression")
		}
	}
	return vars
}

// bind reads ( expression AS ?v ).
func (p *parser) bind(b binding) {
	if p.peek() != "(" {
		p.refuse(Dialect, "BIND without brackets")
	}
	vars := p.expression()
	part := newBinding()
	for i, v := range vars {
		if last := i == len(vars)-1; last {
			p.variable(v, part)
		} else if !b.always[v] {
			p.refuse(Unbound, "BIND uses "+v+" where it may be unbound")
		}
	}
	clear(part.always) // an error leaves it unbound
	p.join(b, part)
}

// values reads the variables and rows of an inline VALUES block.
func (p *parser) values() binding {
	b := newBinding()
	if p.accept("(") {
		for !p.accept(")") {
			p.variable(p.next(), b)
		}
	} else {
		p.variable(p.next(), b)
	}
	if p.peek() != "{" {
		p.refuse(Dialect, "VALUES without rows")
	}
	from := p.pos
	p.skip()
	if slices.Contains(p.list[from:p.pos], part{text: "UNDEF", param: -1}) {
		clear(b.always)
	}
	return b
}

// variable brings t into scope if it is a variable.
func (p *parser) variable(t string, b binding) {
	if !isVariable(t) {
		return
	}
	b.add(t)
	if !slices.Contains(p.scope, t) {
		p.scope = append(p.scope, t)
	}
}

// triples reads a subject with its properties.
func (p *parser) triples(b binding) {
	part := newBinding()
	subject := -1
	if p.peek() != "[" {
		subject = p.pos
		p.term(part)
		p.properties(part, subject)
	} else if empty := p.blankProperties(part); empty || p.peek() != "." && p.peek() != "}" {
		p.properties(part, -1)
	}
	p.connect(part)
	p.join(b, part)
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

// blankProperties reads [ … ] and reports whether it was empty.
func (p *parser) blankProperties(b binding) (empty bool) {
	p.expect("[")
	if p.accept("]") {
		return true
	}
	p.properties(b, -1)
	p.expect("]")
	return false
}

// properties reads predicates and objects up to the end of the subject's
// triples. subject is its token, -1 if it is none.
func (p *parser) properties(b binding, subject int) {
	var all predicate
	for more := true; more; {
		path := p.path(b)
		all.open = all.open || path.open
		all.search = all.search || path.search
		p.objects(path, b, subject)
		more = false
		for p.accept(";") {
			more = !p.endsProperties()
		}
	}
	if subject >= 0 {
		p.candidate(subject, all, b)
	}
}

// endsProperties reports whether no predicate follows.
func (p *parser) endsProperties() bool {
	switch p.peek() {
	case ".", "}", "]", ";", "", "{", "OPTIONAL", "GRAPH", "MINUS", "SERVICE", "FILTER", "BIND", "VALUES":
		return true
	}
	return false
}

func (p *parser) objects(path predicate, b binding, subject int) {
	for {
		switch p.peek() {
		case "[":
			p.blankProperties(b)
		default:
			object := p.pos
			p.term(b)
			p.candidate(object, path, b)
			p.once(path.variable, p.list[object].text, subject)
		}
		if !p.accept(",") {
			return
		}
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

// term reads a subject or object that is not [ … ].
func (p *parser) term(b binding) {
	switch t := p.next(); {
	case isVariable(t):
		p.variable(t, b)
	case t == "(": // a collection, whose constants stay
		for p.peek() != ")" {
			if p.peek() == "[" {
				p.refuse(Dialect, "a blank node's properties in a collection")
			}
			p.term(b)
		}
		p.next()
	case isBlank(t):
		b.add(t)
	case isIRI(t), isLiteral(t), isNumber(t), isPrefixed(t):
	default:
		p.refuse(Dialect, "unexpected "+t)
	}
}

// candidate notes that the constant at i may become a parameter.
func (p *parser) candidate(i int, path predicate, b binding) {
	t := p.list[i].text
	switch {
	case path.open && p.keeps(keepPath), path.search && p.keeps(keepSearch), path.class && p.keeps(keepClass):
		return
	case isIRI(t):
		if !isAbsolute(t) {
			p.refuse(Dialect, "the IRI "+t+" is relative")
		}
	case isPrefixed(t):
	case !isLiteral(t) && !isNumber(t):
		return
	case path.long:
		p.refuse(Path, "a literal at an end of a path")
	case !isString(t) && p.keeps(keepTyped):
		return
	}
	p.candidates = append(p.candidates, i)
	b.add(t)
}

// predicate is what matters of a predicate or path.
type predicate struct {
	open   bool // a path with * + ? or !
	long   bool // a path, not one predicate
	class  bool // a or rdf:type, whose object stays
	search bool // a search function of an engine
	// variable is the predicate if that is a variable.
	variable string
}

const rdfType = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"

// path reads a predicate or property path.
func (p *parser) path(b binding) (v predicate) {
	from := p.pos
	p.alternative(&v)
	p.open = p.open || v.open
	if v.long = p.pos > from+1; !v.long {
		t := p.list[from].text
		v.class = t == "a" || t == rdfType
		if isVariable(t) {
			p.variable(t, b)
			v.variable = t
		}
	}
	return v
}

func (p *parser) alternative(v *predicate) {
	for {
		p.accept("^")
		p.primary(v)
		switch p.peek() {
		case "*", "?", "+":
			v.open = true
			p.next()
		}
		if !p.accept("/") && !p.accept("|") {
			return
		}
	}
}

func (p *parser) primary(v *predicate) {
	switch t := p.next(); {
	case t == "(":
		p.alternative(v)
		p.expect(")")
	case t == "!":
		v.open = true
		p.negated()
	case t == "a", isVariable(t):
	case isIRI(t), isPrefixed(t):
		v.search = v.search || isSearch(t)
	default:
		p.refuse(Dialect, "unexpected "+t+" in place of a predicate")
	}
}

// negated reads the set after an exclamation mark.
func (p *parser) negated() {
	if p.peek() == "(" {
		p.skip()
		return
	}
	p.accept("^")
	p.next()
}

// searches are the namespaces of predicates that are functions of an engine.
// They need their arguments as constants.
var searches = []string{
	"<bif:", "<sql:", "<http://www.openlinksw.com/schemas/bif#",
	"<http://www.bigdata.com/rdf/search#", "<http://www.bigdata.com/rdf#",
	"<http://jena.apache.org/text#", "<http://jena.apache.org/spatial#", "<http://jena.apache.org/ARQ/",
	"<http://jena.hpl.hp.com/ARQ/", "<http://www.ontotext.com/", "<http://franz.com/ns/",
	"<tag:stardog:api:", "<http://wikiba.se/ontology#", "<https://www.mediawiki.org/",
}

func isSearch(iri string) bool {
	return slices.ContainsFunc(searches, func(s string) bool { return strings.HasPrefix(iri, s) })
}
