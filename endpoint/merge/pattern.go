package merge

import (
	"slices"
	"strings"
)

// certain holds the terms whose parameters a part of a pattern always binds.
type certain map[string]bool

// group reads a group graph pattern with its braces and returns what it binds.
// In the outermost group everything is bound.
func (p *parser) group(bound certain, outermost bool) certain {
	p.expect("{")
	if p.peek() == "SELECT" {
		p.pos--
		p.frozen()
		return nil
	}
	if bound == nil {
		bound = certain{}
	}
	for !p.accept("}") {
		p.element(bound, outermost)
	}
	return bound
}

// element reads one element of a group.
func (p *parser) element(bound certain, outermost bool) {
	switch word := p.peek(); word {
	case "{":
		p.union(bound)
	case "OPTIONAL":
		p.next()
		p.optional(bound, outermost)
	case "GRAPH":
		p.next()
		p.variable(p.next())
		p.merge(bound, p.group(nil, false))
	case "MINUS":
		p.next()
		p.hidden()
	case "SERVICE":
		p.next()
		p.accept("SILENT")
		p.variable(p.next())
		p.frozen()
	case "FILTER":
		p.next()
		p.filter()
	case "BIND":
		p.next()
		p.bind()
	case "VALUES":
		p.next()
		p.values()
	case ".":
		p.next()
	default:
		p.triplesSameSubject(bound)
	}
}

func (p *parser) merge(into, from certain) {
	for term := range from {
		into[term] = true
	}
}

// union reads a group and the alternatives that follow it. It binds what all
// of them bind.
func (p *parser) union(bound certain) {
	all := p.group(nil, false)
	for p.accept("UNION") {
		other := p.group(nil, false)
		for term := range all {
			if !other[term] {
				delete(all, term)
			}
		}
	}
	p.merge(bound, all)
}

// optional reads the group after OPTIONAL. In an inner group its constants
// stay constants unless the part before binds them. Otherwise a solution that
// has a match for another member's constant only would be lost instead of
// staying without a match.
func (p *parser) optional(bound certain, outermost bool) {
	before := len(p.candidates)
	p.group(nil, false)
	if outermost || !p.keeps(keepOptional) {
		return
	}
	kept := p.candidates[:before]
	for _, i := range p.candidates[before:] {
		if bound[p.list[i].text] {
			kept = append(kept, i)
		}
	}
	p.candidates = kept
}

// hidden reads a group whose constants stay and whose variables are not in
// scope.
func (p *parser) hidden() {
	scope := len(p.scope)
	p.frozen()
	p.scope = p.scope[:scope]
}

// frozen reads a group whose constants stay. Which variables it brings into
// scope is not known.
func (p *parser) frozen() {
	if p.peek() != "{" {
		p.refuse(Dialect, "expected { instead of "+p.peek())
	}
	if p.keeps(keepHidden) {
		p.skip()
	} else {
		p.exposed()
	}
	p.scope = append(p.scope, "*")
}

// exposed reads a group as if its constants could become parameters.
func (p *parser) exposed() {
	p.pos++
	if p.peek() != "SELECT" {
		p.pos--
		p.group(nil, false)
		return
	}
	p.until("{")
	p.group(nil, false)
	p.untilEnd("}")
	p.expect("}")
}

// filter reads the condition after FILTER.
func (p *parser) filter() {
	p.accept("NOT")
	if p.accept("EXISTS") {
		p.hidden()
		return
	}
	if p.peek() != "(" { // a function call
		p.next()
	}
	if p.peek() != "(" {
		p.refuse(Dialect, "FILTER without brackets")
	}
	p.skip()
}

// bind reads ( expression AS ?v ).
func (p *parser) bind() {
	if p.peek() != "(" {
		p.refuse(Dialect, "BIND without brackets")
	}
	p.skip()
	p.variable(p.list[p.pos-2].text)
}

// values reads the variables and rows of an inline VALUES block.
func (p *parser) values() {
	if p.accept("(") {
		for !p.accept(")") {
			p.variable(p.next())
		}
	} else {
		p.variable(p.next())
	}
	if p.peek() != "{" {
		p.refuse(Dialect, "VALUES without rows")
	}
	p.skip()
}

// variable brings t into scope if it is a variable.
func (p *parser) variable(t string) {
	if isVariable(t) && !slices.Contains(p.scope, t) {
		p.scope = append(p.scope, t)
	}
}

// triplesSameSubject reads a subject with its properties.
func (p *parser) triplesSameSubject(bound certain) {
	if p.peek() == "[" {
		empty := p.blankProperties(bound)
		if !empty && (p.peek() == "." || p.peek() == "}") {
			return
		}
		p.properties(bound, -1)
		return
	}
	subject := p.pos
	p.term()
	p.properties(bound, subject)
}

// blankProperties reads [ … ] and reports whether it was empty.
func (p *parser) blankProperties(bound certain) (empty bool) {
	p.expect("[")
	if p.accept("]") {
		return true
	}
	p.properties(bound, -1)
	p.expect("]")
	return false
}

// properties reads predicates and objects up to the end of the subject's
// triples. subject is its token, -1 if it is none.
func (p *parser) properties(bound certain, subject int) {
	var all predicate
	for more := true; more; {
		path := p.path()
		all.open = all.open || path.open
		all.search = all.search || path.search
		p.objects(path, bound)
		more = false
		for p.accept(";") {
			more = !p.endsProperties()
		}
	}
	if subject >= 0 {
		p.candidate(subject, all, bound)
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

func (p *parser) objects(path predicate, bound certain) {
	for {
		switch p.peek() {
		case "[":
			p.blankProperties(bound)
		default:
			object := p.pos
			p.term()
			p.candidate(object, path, bound)
		}
		if !p.accept(",") {
			return
		}
	}
}

// term reads a subject or object that is not [ … ].
func (p *parser) term() {
	switch t := p.next(); {
	case isVariable(t):
		p.variable(t)
	case t == "(": // a collection, whose constants stay
		for p.peek() != ")" {
			if p.peek() == "[" {
				p.refuse(Dialect, "a blank node's properties in a collection")
			}
			p.term()
		}
		p.next()
	case isIRI(t), isBlank(t), isLiteral(t), isNumber(t), isPrefixed(t):
	default:
		p.refuse(Dialect, "unexpected "+t)
	}
}

// candidate notes that the constant at i may become a parameter.
func (p *parser) candidate(i int, path predicate, bound certain) {
	t := p.list[i].text
	switch {
	case path.open && p.keeps(keepPath), path.search && p.keeps(keepSearch), path.class && p.keeps(keepClass):
		return
	case isIRI(t):
		if !isAbsolute(t) {
			p.refuse(Dialect, "the IRI "+t+" is relative")
		}
	case isPrefixed(t):
	case !isLiteral(t) && !isNumber(t), !isString(t) && p.keeps(keepTyped), path.long && p.keeps(keepLiteral):
		return
	}
	p.candidates = append(p.candidates, i)
	bound[t] = true
}

// predicate is what matters of a predicate or path.
type predicate struct {
	open   bool // a path with * + ? or !
	long   bool // a path, not one predicate
	class  bool // a or rdf:type, whose object stays
	search bool // a search function of an engine
}

const rdfType = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"

// path reads a predicate or property path.
func (p *parser) path() (v predicate) {
	from := p.pos
	p.alternative(&v)
	p.open = p.open || v.open
	if v.long = p.pos > from+1; !v.long {
		t := p.list[from].text
		v.class = t == "a" || t == rdfType
		if isVariable(t) {
			p.variable(t)
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
