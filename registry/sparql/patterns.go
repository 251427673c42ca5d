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
	t := Parse(text)
	if t.Err != nil || t.Pragmas || t.Tokens[0].Text == "DESCRIBE" {
		return nil, false
	}
	r := &patternReader{tokens: t.Tokens}
	r.query(t.Query)
	return r.found, !r.failed
}

// A patternReader collects the triple patterns of a tree.
type patternReader struct {
	tokens []Token
	failed bool
	graph  string // of the innermost GRAPH
	named  bool   // inside of a GRAPH
	found  []Pattern
}

func (r *patternReader) query(q *Select) {
	for _, g := range q.Exists {
		r.group(g)
	}
	r.group(q.Where)
}

func (r *patternReader) group(g *Group) {
	if g.Select != nil {
		r.query(g.Select)
	}
	for _, e := range g.Elements {
		switch e.Word {
		case "":
			r.properties(r.term(e.Subject), e.Properties)
		case "SERVICE":
			r.failed = true
		case "GRAPH":
			r.inGraph(e)
		default:
			for _, g := range e.Groups {
				r.group(g)
			}
		}
	}
}

// inGraph collects the patterns of a GRAPH. Unless it begins with a triple pattern, its
// solutions depend on which graphs exist.
func (r *patternReader) inGraph(e Element) {
	graph, named, g := r.graph, r.named, e.Groups[0]
	r.graph, r.named = r.term(e.Subject), true
	if len(g.Elements) == 0 || g.Elements[0].From != g.From+1 || g.Elements[0].Word != "" || r.tokens[g.From+1].Kind == Word {
		r.failed = true
	}
	r.group(g)
	r.graph, r.named = graph, named
}

// properties collects the patterns of a subject.
func (r *patternReader) properties(subject string, list []Property) {
	for _, p := range list {
		for _, object := range p.Objects {
			r.add(subject, p.Path, r.term(object))
		}
	}
}

// term returns a subject, an object or the name of a graph. It is empty for what is no
// constant. Literals of other datatypes are left open, because endpoints match equal values
// of other spellings.
func (r *patternReader) term(n Node) string {
	t := r.tokens[n.Token]
	switch t.Kind {
	case IRI:
		return constant(t)
	case String:
		text, suffix, ok := Unquote(t.Text)
		if !ok || suffix != "" && suffix[0] != '@' && suffix != "^^<http://www.w3.org/2001/XMLSchema#string>" {
			return ""
		}
		return `"` + text
	}
	r.failed = r.failed || t.is("(")
	r.properties("", n.Properties)
	return ""
}

// constant returns an IRI, or nothing for one that the endpoint resolves.
func constant(t Token) string {
	if iri := t.Text[1 : len(t.Text)-1]; schemeLen(iri) == 0 || hasDotSegment(iri) {
		return ""
	}
	return t.Text
}

// A verb is what matters of a predicate or a property path.
type verb struct {
	predicates []string
	any        bool // matches any predicate
	unknown    bool // has a name that only the endpoint can expand, perhaps not a predicate
}

const rdfType = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"

func (r *patternReader) verb(p Path) verb {
	v := verb{any: p.Negated}
	for _, i := range p.Predicates {
		switch t := r.tokens[i]; {
		case t.Kind == Variable:
			v.any = true
		case t.Kind == Word: // a
			v.predicates = append(v.predicates, rdfType)
		case t.Kind == IRI && constant(t) != "":
			v.predicates = append(v.predicates, t.Text)
		default:
			v.unknown = true
		}
	}
	return v
}

// add adds the patterns of a triple pattern.
func (r *patternReader) add(subject string, path Path, object string) {
	v, long := r.verb(path), path.To > path.From+1
	switch {
	case path.Nullable && r.named: // every graph has a solution
		r.failed = true
	case v.unknown, long && v.any, path.Nullable && subject == "" && object == "":
		r.found = append(r.found, Pattern{Graph: r.graph})
	case long:
		for _, iri := range v.predicates {
			r.found = append(r.found, Pattern{Predicate: iri, Graph: r.graph})
		}
		if path.Nullable { // an end may count only where the data has it
			for _, end := range []string{subject, object} {
				if end != "" {
					r.found = append(r.found, Pattern{Subject: end, Graph: r.graph}, Pattern{Object: end, Graph: r.graph})
				}
			}
		}
	default:
		p := Pattern{Subject: subject, Object: object, Graph: r.graph}
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
