package sparql

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A Pattern is a triple pattern, or a triple. An empty field of a pattern matches
// anything. An IRI is in angle brackets. A literal is its text after a quotation mark,
// without language and datatype, so a pattern also matches literals that differ in
// these.
type Pattern struct {
	Subject, Predicate, Object string
	Graph                      string // of GRAPH with an IRI; empty if it is unknown
	// Owner is the entity of a Wikibase whose data the triple is part of; empty if it is unknown. A pattern has
	// one if its subject can only be a statement of that entity, or an article about it, which no other entity's data
	// have: the query has <entity> <…/prop/P1> ?statement, or ?article schema:about <entity>, too. Such a pattern
	// has no Graph.
	Owner string
}

// Patterns returns patterns that together match every triple whose addition or removal
// can change the result of a query. An endpoint that infers triples can have others.
// They are the query's triple patterns, also those in OPTIONAL, MINUS and EXISTS, with
// variables, blank nodes and literals other than strings left open. A variable that VALUES or
// BIND gives constants is replaced by each of them. A property path is replaced by its predicates,
// and Wikidata's service for labels by the labels of the variables that it names.
//
// If the patterns cannot be determined, why says which part of the query prevents it: DESCRIBE,
// SERVICE, pragmas, collections, words and notations of dialects, and what depends on which graphs
// exist. Any triple may then change the result.
func Patterns(text string) (list []Pattern, why string) {
	t := Parse(text)
	switch {
	case t.Err != nil:
		return nil, "it is not plain SPARQL 1.1: " + t.Err.Error()
	case t.Pragmas:
		return nil, "it has a pragma of its endpoint"
	case t.Tokens[0].Text == "DESCRIBE":
		return nil, "what DESCRIBE returns is up to the endpoint"
	}
	r := &patternReader{tokens: t.Tokens}
	r.query(t.Query)
	if r.why != "" {
		return nil, r.why
	}
	return r.found, ""
}

// A patternReader collects the triple patterns of a tree.
type patternReader struct {
	tokens []Token
	why    string            // the patterns cannot be determined
	graph  string            // of the innermost GRAPH
	named  bool              // inside of a GRAPH
	bound  bindings          // of the variables of the innermost group
	owners map[string]string // of those that are statements of an entity
	owner  string            // of the node that is read

	// For Narrowed.
	top      *Group
	bindings map[string]bool // variables of the triple patterns of top, if it keeps all their solutions
	optional bool            // inside of an OPTIONAL, or the service for labels, of top
	column   string          // the variable of the subject that is read, if the result may show it
	narrow   []narrowing     // of the patterns that were found
	found    []Pattern
}

// fail says why the patterns cannot be determined.
func (r *patternReader) fail(why string) {
	if r.why == "" {
		r.why = why
	}
}

// bindings are the constants that a variable can have in a solution that counts.
type bindings map[string][]string

// maxValues is how many patterns a triple pattern may become because of the values of its variables.
const maxValues = 1000

// mostFound is how many patterns of a query may have the values of its variables. In the others, they are open: such a
// query is reached by more events, and needs no more memory.
const mostFound = 2000

// spread returns the constants that a field can have, or an open field if n patterns are too many.
func (r *patternReader) spread(list []string, n int) []string {
	if n > maxValues || len(r.found)+n > mostFound {
		return single(list)
	}
	return list
}

func (r *patternReader) query(q *Select) {
	outer, owners := r.bound, r.owners
	r.bound, r.owners = nil, nil
	for _, g := range q.Exists {
		r.group(g)
	}
	r.group(q.Where)
	r.bound, r.owners = outer, owners
}

// group collects the patterns of a group. Every solution binds the variables of the group's own
// triple patterns, so those that VALUES restricts anywhere in the group are restricted in all of
// these. In a nested group they are if what comes before binds or restricts them: else the
// nested group can have, or lack, a solution in which they are unbound.
func (r *patternReader) group(g *Group) {
	if g.Select != nil {
		r.query(g.Select)
	}
	outer, owners := r.bound, r.owners
	r.bound = maps.Clone(outer)
	all, before := maps.Clone(owners), map[string]string{} // a nested group may leave a variable of an outer one unbound
	if all == nil {
		all = map[string]string{}
	}
	for _, e := range g.Elements {
		r.restrict(e)
		r.own(e, all)
	}
	own, sure := r.bound, bindings{}
	for _, e := range g.Elements {
		r.bound, r.owners = own, all
		switch e.Word {
		case "":
			r.owner, r.column = r.owners[r.tokens[e.Subject.Token].Text], r.shown(g, e.Subject)
			r.properties(r.alternatives(e.Subject), e.Properties)
			r.own(e, before)
			for _, t := range r.tokens[e.From:e.To] {
				if list, ok := own[t.Text]; ok && t.Kind == Variable {
					sure[t.Text] = list
				}
			}
			continue
		case "VALUES", "BIND":
			for name, list := range r.constants(e) {
				if own[name] != nil {
					sure[name] = list
				}
			}
		}
		r.bound, r.owners, r.column = sure, before, ""
		was := r.optional
		r.optional = g == r.top && (e.Word == "OPTIONAL" || e.Word == "SERVICE")
		switch e.Word {
		case "SERVICE":
			r.service(e)
		case "GRAPH":
			r.inGraph(e)
		default:
			for _, g := range e.Groups {
				r.group(g)
			}
		}
		r.optional = was
	}
	r.bound, r.owners = outer, owners
}

// entity is the form of what edits are about. Forms and senses of lexemes are parts of what an edit is about.
var entity = regexp.MustCompile(`/[A-Z][0-9]+>$`)

// statementOf is the form of the properties that lead from an entity to its statements.
var statementOf = regexp.MustCompile(`^<https?://[^/>]+/prop/P[0-9]+>$`)

// about leads from an article, or from a page about the data, to the one entity whose data have all of its triples.
const about = "<http://schema.org/about>"

// own notes the variables of triple patterns that are statements of an entity, or articles about it.
func (r *patternReader) own(e Element, into map[string]string) {
	if e.Word != "" {
		return
	}
	for _, p := range e.Properties {
		for _, o := range p.Objects {
			t, s := r.tokens[o.Token], r.tokens[e.Subject.Token]
			switch {
			case t.Kind == Variable && r.states(e.Subject, p.Path):
				into[t.Text] = s.Text
			case s.Kind == Variable && t.Kind == IRI && p.Path.To == p.Path.From+1 && r.tokens[p.Path.From].Text == about &&
				entity.MatchString(constant(t)):
				into[s.Text] = t.Text
			}
		}
	}
}

// states reports whether a property leads from an entity to its statements.
func (r *patternReader) states(subject Node, p Path) bool {
	t := r.tokens[subject.Token]
	return t.Kind == IRI && entity.MatchString(constant(t)) && p.To == p.From+1 && statementOf.MatchString(r.tokens[p.From].Text)
}

// restrict adds the constants that an element gives to variables.
func (r *patternReader) restrict(e Element) {
	for name, list := range r.constants(e) {
		if r.bound == nil {
			r.bound = bindings{}
		}
		r.bound[name] = list
	}
}

// constants returns the constants that VALUES or BIND give to variables, without those variables
// that can have other values.
func (r *patternReader) constants(e Element) bindings {
	t := r.tokens[e.From:e.To]
	switch {
	case e.Word == "BIND" && len(t) == 6 && t[3].Text == "AS":
		if c := r.term(Node{Token: e.From + 2}); c != "" && t[2].Kind != Punct {
			return bindings{t[4].Text: {c}}
		}
	case e.Word == "VALUES":
		return r.rows(e)
	}
	return nil
}

// rows reads the rows of VALUES.
func (r *patternReader) rows(e Element) bindings {
	var names []string
	for _, t := range r.tokens[e.Names.From:e.Names.To] {
		if t.Kind == Variable {
			names = append(names, t.Text)
		}
	}
	found, column := bindings{}, 0
	if len(names) == 0 {
		return nil
	}
	open := map[string]bool{}
	for i := e.Names.To + 1; i < e.To-1; i++ {
		t := r.tokens[i]
		if t.is("<<") || t.is("<<(") { // a triple is one value of several tokens
			return nil
		}
		if t.Kind == Punct {
			continue
		}
		name := names[column%len(names)]
		column++
		if c := r.term(Node{Token: i}); c != "" {
			found[name] = append(found[name], c)
		} else {
			open[name] = true
		}
	}
	for name := range open {
		delete(found, name)
	}
	return found
}

// The services of Wikibase. A query need not declare the prefix.
const wikibase = "http://wikiba.se/ontology#"

type label struct{ suffix, predicate string }

// What Wikibase's service for labels adds to a variable, by the end of the new variable's name.
var labels = []label{
	{"AltLabel", "<http://www.w3.org/2004/02/skos/core#altLabel>"},
	{"Label", "<http://www.w3.org/2000/01/rdf-schema#label>"},
	{"Description", "<http://schema.org/description>"},
}

// serviceParam is the subject of the parameters of a service, which are no triples.
var serviceParam = []string{"bd:serviceParam", "<http://www.bigdata.com/rdf#serviceParam>"}

// service collects the patterns of those services whose data are the endpoint's own: labels, and
// places near a point or in a box.
func (r *patternReader) service(e Element) {
	t, g := r.tokens[e.Subject.Token], *e.Groups[0]
	g.Elements = slices.DeleteFunc(slices.Clone(g.Elements), func(e Element) bool {
		return e.Word == "" && slices.Contains(serviceParam, r.tokens[e.Subject.Token].Text)
	})
	name := strings.TrimPrefix(strings.Trim(t.Text, "<>"), wikibase)
	if t.Own {
		name = ""
	}
	switch strings.TrimPrefix(name, "wikibase:") {
	case "label":
		r.label(&g)
	case "around", "box":
		r.group(&g)
	default:
		r.fail("it asks the service " + t.Text + ", whose data are not the endpoint's")
	}
}

func (r *patternReader) label(g *Group) {
	if slices.ContainsFunc(g.Elements, func(e Element) bool { return e.Word != "" }) || g.Select != nil {
		r.fail("its service for labels has more than triple patterns")
		return
	}
	r.group(g)
	known := map[string]bool{} // variables
	for _, t := range r.tokens {
		if t.Kind != Variable || known[t.Text] {
			continue
		}
		known[t.Text] = true
		for _, l := range labels {
			of, ok := strings.CutSuffix(t.Text, l.suffix)
			if !ok || len(of) < 2 {
				continue
			}
			r.column = r.shownVariable(nil, of)
			subjects := r.terms(of)
			for _, subject := range r.spread(subjects, len(subjects)) {
				r.put(Pattern{Subject: subject, Predicate: l.predicate, Graph: r.graph})
			}
			r.column = ""
		}
	}
}

// terms returns the constants of a variable, and otherwise an open field.
func (r *patternReader) terms(variable string) []string {
	if list, ok := r.bound[variable]; ok {
		return list
	}
	return []string{""}
}

// inGraph collects the patterns of a GRAPH. Unless it begins with a triple pattern, its
// solutions depend on which graphs exist.
func (r *patternReader) inGraph(e Element) {
	graph, named, g := r.graph, r.named, e.Groups[0]
	r.graph, r.named = r.term(e.Subject), true
	if len(g.Elements) == 0 || g.Elements[0].From != g.From+1 || g.Elements[0].Word != "" || r.tokens[g.From+1].Kind == Word {
		r.fail("it depends on which graphs exist")
	}
	r.group(g)
	r.graph, r.named = graph, named
}

// properties collects the patterns of a subject, which can be one of several constants.
func (r *patternReader) properties(subject []string, list []Property) {
	owner, column := r.owner, r.column
	for _, p := range list {
		for _, o := range p.Objects {
			r.owner, r.column = "", ""
			one := len(subject) == 1 && p.Path.To == p.Path.From+1
			if one && entity.MatchString(subject[0]) && statementOf.MatchString(r.tokens[p.Path.From].Text) {
				r.owner = subject[0]
			}
			from, to := subject, r.alternatives(o)
			r.owner, r.column = owner, column
			if long := p.Path.To > p.Path.From+1; long && !p.Path.Nullable {
				from, to = single(from), single(to)
			}
			n := len(from) * len(to)
			from, to = r.spread(from, n), r.spread(to, n)
			for _, s := range from {
				for _, o := range to {
					r.add(s, p.Path, o)
				}
			}
		}
	}
}

// single leaves the field open if there are several constants.
func single(list []string) []string {
	if len(list) > 1 {
		return []string{""}
	}
	return list
}

// alternatives returns what a subject or an object can be.
func (r *patternReader) alternatives(n Node) []string {
	if t := r.tokens[n.Token]; t.Kind == Variable {
		return r.terms(t.Text)
	}
	return []string{r.term(n)}
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
	if t.is("(") {
		r.fail("it has a collection in brackets")
	}
	r.properties([]string{""}, n.Properties)
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
	case path.Nullable && r.named:
		r.fail("it has a path of length zero in GRAPH, which every graph matches")
	case v.unknown, long && v.any, path.Nullable && subject == "" && object == "":
		r.anywhere(Pattern{Graph: r.graph})
	case long && r.sequence(subject, path, object):
	case long:
		for _, iri := range v.predicates {
			r.anywhere(Pattern{Predicate: iri, Graph: r.graph})
		}
		if path.Nullable { // an end may count only where the data has it
			for _, end := range []string{subject, object} {
				if end != "" {
					r.anywhere(Pattern{Subject: end, Graph: r.graph})
					r.anywhere(Pattern{Object: end, Graph: r.graph})
				}
			}
		}
	default:
		p := Pattern{Subject: subject, Object: object, Graph: r.graph}
		if !v.any {
			p.Predicate = v.predicates[0]
		}
		r.put(p.ownedBy(r.owner))
	}
}

// ownedBy sets the owner of a pattern whose subject is open.
func (p Pattern) ownedBy(owner string) Pattern {
	if p.Subject == "" && owner != "" {
		p.Owner, p.Graph = owner, ""
	}
	return p
}

// sequence adds the patterns of a path that is a sequence of predicates, and reports whether it is one.
func (r *patternReader) sequence(subject string, path Path, object string) bool {
	t := r.tokens[path.From:path.To]
	for i, x := range t {
		if i%2 == 0 && (x.Kind != IRI || constant(x) == "") || i%2 == 1 && !x.is("/") {
			return false
		}
	}
	owner, column := r.owner, r.column
	for i := 0; i < len(t); i += 2 {
		p := Pattern{Subject: subject, Predicate: t[i].Text, Graph: r.graph}
		if i == len(t)-1 {
			p.Object = object
		}
		r.put(p.ownedBy(owner))
		r.column = ""
		if owner = ""; statementOf.MatchString(p.Predicate) && entity.MatchString(subject) {
			owner = subject
		}
		subject = ""
	}
	r.column = column
	return true
}

// put adds a pattern, whose subject is the one that is read.
func (r *patternReader) put(p Pattern) {
	r.found, r.narrow = append(r.found, p), append(r.narrow, narrowing{r.column, r.optional})
}

// anywhere adds a pattern of a path, which says nothing about the subject that is read.
func (r *patternReader) anywhere(p Pattern) {
	r.found, r.narrow = append(r.found, p), append(r.narrow, narrowing{})
}

// shown returns the variable of a subject, if the result may narrow its patterns.
func (r *patternReader) shown(g *Group, n Node) string {
	if t := r.tokens[n.Token]; t.Kind == Variable && r.top != nil {
		return r.shownVariable(g, t.Text)
	}
	return ""
}

func (r *patternReader) shownVariable(g *Group, name string) string {
	if name = variable(name); r.top != nil && (g == r.top || r.optional && r.bindings[name]) {
		return name
	}
	return ""
}

// Matches reports whether a pattern matches a triple whose fields are given, or left
// empty if they are blank nodes. The graph of the triple may be unknown.
func (p Pattern) Matches(t Pattern) bool {
	one := func(pattern, triple string) bool { return pattern == "" || pattern == triple }
	return one(p.Subject, t.Subject) && one(p.Predicate, t.Predicate) && one(p.Object, t.Object) &&
		(t.Graph == "" || one(p.Graph, t.Graph)) && (t.Owner == "" || one(p.Owner, t.Owner))
}
