package sparql

// A Pattern is a triple pattern, or a triple. An empty field of a pattern matches
// anything. An IRI is in angle brackets. A literal is its text after a quotation mark,
// without language and datatype, so a pattern also matches literals that differ in
// these.
type Pattern struct {
	Subject, Predicate, Object string
	Graph                      string // of GRAPH with an IRI; empty if it is unknown
}

// Patterns returns patterns that together match every triple whose addition or removal
// can change the result of a query. An endpoint that infers triples can have others.
// They are the query's triple patterns, also those in OPTIONAL, MINUS and EXISTS, with
// variables, blank nodes and literals other than strings left open. A property path is
// replaced by its predicates.
//
// ok is false if the patterns cannot be determined: for DESCRIBE, SERVICE, pragmas,
// collections, words and notations of dialects, and queries that depend on which graphs
// exist. Any triple may then change the result.
func Patterns(text string) (list []Pattern, ok bool) {
	l, err := lex(text)
	defer l.release()
	if err != nil {
		return nil, false
	}
	tokens := l.tokens
	p, err := readPrologue(text, tokens)
	if err != nil || p.pragma != nil {
		return nil, false
	}
	body := tokens[p.end:]
	if _, err := expand(text, body, p); err != nil {
		return nil, false
	}
	r := &patternReader{body: body}
	r.query()
	return r.found, !r.failed
}

// A patternReader reads the triple patterns of a query by recursive descent. Brackets
// are balanced. After a failure it is at the end of the text.
type patternReader struct {
	body   []token
	at     int
	failed bool
	graph  string // of the innermost GRAPH
	named  bool   // inside of a GRAPH
	found  []Pattern
}

func (r *patternReader) peek() token {
	if r.at < len(r.body) {
		return r.body[r.at]
	}
	return token{kind: punct}
}

func (r *patternReader) next() token {
	t := r.peek()
	r.at++
	return t
}

func (r *patternReader) fail() {
	r.failed, r.at = true, len(r.body)
}

func (r *patternReader) ended() bool { return r.at >= len(r.body) }

// accept skips a punctuation if it comes next.
func (r *patternReader) accept(s string) bool {
	if !r.peek().is(s) {
		return false
	}
	r.at++
	return true
}

func (r *patternReader) expect(s string) {
	if !r.accept(s) {
		r.fail()
	}
}

func (r *patternReader) query() {
	switch r.next().keyword() {
	case "SELECT", "ASK":
	case "CONSTRUCT":
		if r.peek().is("{") {
			r.skip()
		}
	default:
		r.fail()
	}
	r.head()
	r.group()
	r.tail(false)
}

// head reads the clauses before the pattern.
func (r *patternReader) head() {
	for !r.ended() && !r.peek().is("{") {
		r.clause()
	}
}

// tail reads the clauses after the pattern, up to the end of the query or of the
// sub-select.
func (r *patternReader) tail(inner bool) {
	for !r.ended() && !(inner && r.peek().is("}")) {
		if w := r.peek().keyword(); w == "VALUES" || w == "BINDINGS" {
			r.values()
		} else {
			r.clause()
		}
	}
}

// clause skips one token outside of patterns. In brackets there may be an EXISTS.
func (r *patternReader) clause() {
	switch t := r.peek(); {
	case t.is("("):
		r.expression()
	case t.is("{") && r.at > 0 && r.body[r.at-1].keyword() == "EXISTS":
		r.group()
	case t.is("{") || t.is("}") || t.kind == solutionSet || t.keyword() == "WITH" || t.keyword() == "OPTION":
		r.fail()
	default:
		r.at++
	}
}

// expression reads an expression in parentheses. The patterns of an EXISTS in it count.
func (r *patternReader) expression() {
	r.expect("(")
	for !r.ended() && !r.peek().is(")") {
		switch {
		case r.peek().is("("):
			r.expression()
		case r.peek().is("{"):
			r.group()
		default:
			r.at++
		}
	}
	r.accept(")")
}

// skip skips a bracket with its content.
func (r *patternReader) skip() {
	depth := 0
	for !r.ended() {
		t := r.next()
		if t.kind != punct {
			continue
		}
		if _, opens := closers[t.text]; opens {
			depth++
		} else if isCloser(t.text) {
			depth--
		}
		if depth <= 0 {
			return
		}
	}
}

func (r *patternReader) values() {
	r.at++
	for !r.ended() && !r.peek().is("{") {
		r.at++
	}
	r.skip()
}

func (r *patternReader) group() {
	r.expect("{")
	if r.peek().keyword() == "SELECT" {
		r.at++
		r.head()
		r.group()
		r.tail(true)
	}
	for !r.ended() && !r.accept("}") {
		r.element()
	}
}

// element reads one element of a group.
func (r *patternReader) element() {
	t := r.peek()
	switch {
	case t.is("{"):
		r.group()
		return
	case t.is("."):
		r.at++
		return
	case t.kind != word || t.keyword() == "TRUE" || t.keyword() == "FALSE":
		r.triples()
		return
	}
	switch r.at++; t.keyword() {
	case "OPTIONAL", "MINUS":
		r.group()
	case "UNION":
		if !r.peek().is("{") {
			r.fail()
		}
	case "GRAPH":
		r.inGraph()
	case "FILTER":
		r.filter()
	case "BIND":
		r.expression()
	case "VALUES":
		r.at--
		r.values()
	default:
		r.fail()
	}
}

// inGraph reads a GRAPH. Unless it begins with a triple pattern, its solutions depend on
// which graphs exist.
func (r *patternReader) inGraph() {
	graph, named := r.graph, r.named
	r.graph, r.named = r.term(), true
	if r.at+1 >= len(r.body) || !r.beginsTriple(r.body[r.at+1]) {
		r.fail()
	}
	r.group()
	r.graph, r.named = graph, named
}

func (r *patternReader) beginsTriple(t token) bool {
	switch t.kind {
	case variable, blankNode, iriRef, prefixedName, stringLit, number:
		return true
	}
	return t.is("[")
}

func (r *patternReader) filter() {
	if r.peek().keyword() == "NOT" {
		r.at++
	}
	switch t := r.peek(); {
	case t.keyword() == "EXISTS":
		r.at++
		r.group()
	case t.is("("):
		r.expression()
	case t.kind == word || t.kind == iriRef || t.kind == prefixedName:
		r.at++
		r.expression()
	default:
		r.fail()
	}
}

// triples reads the triples of one subject.
func (r *patternReader) triples() {
	if !r.peek().is("[") {
		r.properties(r.term())
		return
	}
	r.blank()
	if t := r.peek(); !t.is(".") && !t.is("}") && !r.ended() {
		r.properties("")
	}
}

// blank reads a blank node with its properties.
func (r *patternReader) blank() {
	r.expect("[")
	if !r.peek().is("]") {
		r.properties("")
	}
	r.expect("]")
}

// properties reads predicates and objects of a subject.
func (r *patternReader) properties(subject string) {
	for !r.ended() {
		v := r.verb()
		for {
			object := ""
			if r.peek().is("[") {
				r.blank()
			} else {
				object = r.term()
			}
			r.add(subject, v, object)
			if !r.accept(",") {
				break
			}
		}
		if !r.accept(";") {
			return
		}
		for r.accept(";") {
		}
		if t := r.peek(); t.is(".") || t.is("}") || t.is("]") {
			return
		}
	}
}

// term reads a subject, an object or the name of a graph. It is empty for what is no
// constant.
func (r *patternReader) term() string {
	switch t := r.next(); t.kind {
	case variable, blankNode, prefixedName, number:
		return ""
	case iriRef:
		return constant(t)
	case stringLit:
		return r.literal(t)
	case word:
		if w := t.keyword(); w == "TRUE" || w == "FALSE" {
			return ""
		}
	}
	r.fail()
	return ""
}

// constant returns an IRI, or nothing for one that the endpoint resolves.
func constant(t token) string {
	if iri := t.text[1 : len(t.text)-1]; schemeLen(iri) == 0 || hasDotSegment(iri) {
		return ""
	}
	return t.text
}

// literal reads what follows a string. Literals of other datatypes are left open, because
// endpoints match equal values of other spellings.
func (r *patternReader) literal(t token) string {
	text, ok := stringContent(t.text)
	switch {
	case r.peek().kind == langTag:
		r.at++
	case r.accept("^^"):
		if d := r.next(); d.kind != iriRef || d.text != "<http://www.w3.org/2001/XMLSchema#string>" {
			return ""
		}
	}
	if !ok {
		return ""
	}
	return `"` + text
}

// A verb is a predicate or a property path.
type verb struct {
	predicates []string
	path       bool // more than one predicate or an operator
	any        bool // matches any predicate
	unknown    bool // a name that only the endpoint can expand, perhaps not a predicate
	nullable   bool // matches a path of length zero
}

func (r *patternReader) verb() (v verb) {
	if r.peek().kind == variable {
		r.at++
		return verb{any: true}
	}
	v.nullable = r.alternatives(&v)
	return v
}

func (r *patternReader) alternatives(v *verb) (nullable bool) {
	nullable = r.sequence(v)
	for r.accept("|") {
		v.path = true
		nullable = r.sequence(v) || nullable
	}
	return nullable
}

func (r *patternReader) sequence(v *verb) (nullable bool) {
	nullable = r.step(v)
	for r.peek().is("/") || r.peek().is("^") {
		r.accept("/")
		v.path = true
		nullable = r.step(v) && nullable
	}
	return nullable
}

// step reads one step of a path with its operators.
func (r *patternReader) step(v *verb) (nullable bool) {
	if r.accept("^") {
		v.path = true
	}
	switch t := r.next(); {
	case t.is("("):
		v.path = true
		nullable = r.alternatives(v)
		r.expect(")")
	case t.is("!"):
		v.path, v.any = true, true
		if r.peek().is("(") {
			r.skip()
		} else {
			r.accept("^")
			r.at++
		}
	case t.kind == word && t.text == "a":
		v.predicates = append(v.predicates, rdfType)
	case t.kind == iriRef && constant(t) != "":
		v.predicates = append(v.predicates, t.text)
	case t.kind == iriRef || t.kind == prefixedName:
		v.unknown = true
	default:
		r.fail()
	}
	switch {
	case r.accept("*"), r.accept("?"):
		v.path = true
		return true
	case r.accept("+"):
		v.path = true
	}
	return nullable
}

const rdfType = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"

// add adds the patterns of a triple pattern.
func (r *patternReader) add(subject string, v verb, object string) {
	p := Pattern{Subject: subject, Object: object, Graph: r.graph}
	switch {
	case r.failed:
	case v.nullable && r.named: // every graph has a solution
		r.fail()
	case v.unknown, v.path && v.any, v.nullable && subject == "" && object == "":
		r.found = append(r.found, Pattern{Graph: r.graph})
	case v.path:
		for _, iri := range v.predicates {
			r.found = append(r.found, Pattern{Predicate: iri, Graph: r.graph})
		}
		if v.nullable { // an end may count only where the data has it
			for _, end := range []string{subject, object} {
				if end != "" {
					r.found = append(r.found, Pattern{Subject: end, Graph: r.graph}, Pattern{Object: end, Graph: r.graph})
				}
			}
		}
	default:
		if !v.any {
			p.Predicate = v.predicates[0]
		}
		r.found = append(r.found, p)
	}
}

// Matches reports whether a pattern matches a triple whose fields are given, or left
// empty if they are blank nodes. The graph of the triple may be unknown.
func (p Pattern) Matches(t Pattern) bool {
	one := func(pattern, triple string) bool { return pattern == "" || pattern == triple }
	return one(p.Subject, t.Subject) && one(p.Predicate, t.Predicate) && one(p.Object, t.Object) &&
		(t.Graph == "" || one(p.Graph, t.Graph))
}
