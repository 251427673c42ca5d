package sparql

import (
	"cmp"
	"fmt"
	"slices"
)

// A Tree is a query as the grammar of SPARQL divides it. Its tokens are those of the normal
// form without declarations, and a literal is one token. All other fields refer to them.
type Tree struct {
	Tokens   []Token
	Query    *Select
	Declared bool // the normal form has declarations
	Pragmas  bool // one of them is Virtuoso's DEFINE, or the prefix of an option
	// Err is the first part that cannot be read: the text is no query, or has words or notations of dialects.
	// The groups that have such parts are not complete.
	Err error
}

// Span is a range of tokens.
type Span struct{ From, To int }

// Select is the query or a sub-select.
type Select struct {
	Form          int      // its token
	Template      *Group   // of CONSTRUCT, nil if there is none
	Head, Dataset Span     // between the form, the FROM clauses and the pattern
	Named         []*Group // of WITH, in Blazegraph's dialect
	Where         *Group   // nil if there is none
	Clauses       []Clause // after the pattern
	Exists        []*Group // outside of the pattern
}

// Clause is a clause after the pattern. Its tokens exclude its word.
type Clause struct {
	Word string
	Span
}

// Group is a group graph pattern. Its tokens include the braces.
type Group struct {
	Span
	Select   *Select // of a group that is a sub-select
	Elements []Element
}

// Element is one part of a group.
type Element struct {
	Word       string // OPTIONAL, MINUS, GRAPH, SERVICE, FILTER, BIND, VALUES; UNION for groups; none if unreadable; else triples
	Span              // with the word
	Groups     []*Group
	Exists     bool       // it is a FILTER with [NOT] EXISTS and its group; otherwise a FILTER has the groups in its condition
	Names      Span       // the variables of VALUES
	Subject    Node       // of triples; the name of GRAPH and SERVICE
	Properties []Property // of the subject
}

// Property is a predicate with its objects.
type Property struct {
	Path    Path
	Objects []Node
}

// Node is a subject or object. Its token is that of a term, [ of a blank node with
// properties, or ( of a collection.
type Node struct {
	Token      int
	Properties []Property
	Items      []Node
}

// Path is a predicate or a property path.
type Path struct {
	Span
	Predicates []int // outside of negations
	Nullable   bool  // it matches a path of length zero
	Negated    bool  // it has !
	Open       bool  // it has !, *, ? or +
}

// Parse divides a query. It takes time linear in the text.
func Parse(text string) *Tree {
	p, body, err := read(text)
	if err == nil {
		_, err = expand(text, body, p)
	}
	if err != nil {
		return &Tree{Err: err}
	}
	return parse(p, body).Tree
}

func parse(p *prologue, body []Token) *treeReader {
	r := &treeReader{Tree: &Tree{Tokens: terms(body), Pragmas: p.pragma != nil}, trailing: -1}
	for _, d := range p.items {
		r.Declared = r.Declared || d.kept
	}
	r.end, r.closes = len(r.Tokens), closings(r.Tokens)
	r.Query = r.query(true)
	return r
}

// closings returns the closing bracket of each token that opens one.
func closings(tokens []Token) []int {
	at, open := make([]int, len(tokens)), []int(nil)
	for i, t := range tokens {
		switch {
		case t.Kind != Punct:
		case closers[t.Text] != "":
			open = append(open, i)
		case isCloser(t.Text):
			at[open[len(open)-1]] = i
			open = open[:len(open)-1]
		}
	}
	return at
}

// terms returns the tokens as written in the normal form, each literal as one.
func terms(body []Token) []Token {
	list := make([]Token, 0, len(body))
	for i := 0; i < len(body); i++ {
		t := body[i]
		t.Text = t.canonical()
		for t.Kind == String && i+1 < len(body) && attached(body[i], body[i+1]) {
			i++
			t.Text += body[i].Text
			t.End = body[i].End
		}
		list = append(list, t)
	}
	return list
}

// A treeReader reads by recursive descent. Brackets are balanced. After a failure it is at the end of the innermost
// group, which group then goes through once more for groups within.
type treeReader struct {
	*Tree
	at, end  int   // end is that of the innermost group
	closes   []int // by opening bracket
	failed   bool  // in the innermost group
	resume   int   // where it failed
	trailing int   // the first token after the whole query, -1 if there is none
}

// token returns the next token, at the end of a group its brace.
func (r *treeReader) token() Token {
	if i := min(r.at, r.end); i < len(r.Tokens) {
		return r.Tokens[i]
	}
	return Token{Kind: Punct}
}

// peek returns the text of the next token, nothing at the end.
func (r *treeReader) peek() string { return r.token().Text }

func (r *treeReader) ended() bool { return r.at >= r.end }

// note keeps the first part that cannot be read.
func (r *treeReader) note(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf(format, args...)
	}
}

// fail ends the reading of a group at a token that does not fit.
func (r *treeReader) fail(format string, args ...any) {
	r.note(format, args...)
	if !r.failed {
		r.failed, r.resume = true, r.at
	}
	r.at = r.end
}

// accept skips a token if it comes next.
func (r *treeReader) accept(s string) bool {
	if r.ended() || r.peek() != s {
		return false
	}
	r.at++
	return true
}

func (r *treeReader) expect(s string) {
	if !r.accept(s) {
		r.fail("expected %s instead of %s", s, r.peek())
	}
}

// brackets skips a bracket with its content, which it returns.
func (r *treeReader) brackets() Span {
	if r.ended() {
		return Span{r.at, r.at}
	}
	from := r.at + 1
	r.at = r.closes[r.at] + 1
	return Span{from, r.at - 1}
}

func (r *treeReader) query(top bool) *Select {
	q := &Select{Form: r.at}
	form, pattern := r.peek(), []string{"WHERE", "{", "WITH"}
	if form == "DESCRIBE" { // it may have no pattern
		pattern = append(pattern, tailWords...)
	}
	if r.at++; form == "CONSTRUCT" && r.peek() == "{" {
		q.Template = r.group()
	}
	q.Head = r.outside(q, top, append(pattern, "FROM")...)
	q.Dataset = r.outside(q, top, pattern...)
	for r.accept("WITH") {
		if r.note("unexpected WITH"); r.peek() == "{" {
			q.Named = append(q.Named, r.group())
		}
		r.outside(q, top, pattern...)
	}
	if r.accept("WHERE"); r.peek() == "{" {
		q.Where = r.group()
	} else if form != "DESCRIBE" {
		r.note("expected { instead of %s", cmp.Or(r.peek(), "the end"))
	}
	for !r.ended() {
		w := r.peek()
		if !slices.Contains(tailWords, w) {
			r.trail(top)
			continue
		}
		r.at++
		c := Clause{Word: w, Span: Span{From: r.at}}
		if c.Word == "OPTION" {
			r.note("unexpected OPTION")
		}
		if c.Span = r.outside(q, top, append([]string{"{"}, tailWords...)...); r.peek() == "{" && (w == "VALUES" || w == "BINDINGS") {
			r.brackets()
			c.To = r.at
		}
		q.Clauses = append(q.Clauses, c)
	}
	return q
}

// trail passes over a token after a query, which ends the reading of the query as a whole.
func (r *treeReader) trail(top bool) {
	if r.note("unexpected %s", r.peek()); !top {
		r.skip()
		return
	}
	r.trailing, r.at = r.at, r.end
}

// skip passes over a token, with the bracket that it opens.
func (r *treeReader) skip() {
	if r.token().Kind == Punct && closers[r.peek()] != "" {
		r.brackets()
		return
	}
	r.at++
}

// tailWords begin a clause after the pattern.
var tailWords = []string{"GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES", "BINDINGS", "OPTION"}

// outside reads tokens outside of patterns up to one of the ends.
func (r *treeReader) outside(q *Select, top bool, ends ...string) Span {
	from := r.at
	for !r.ended() {
		t := r.token()
		switch w := t.keyword(); {
		case t.is("{") && r.Tokens[r.at-1].Text == "EXISTS":
			q.Exists = append(q.Exists, r.group())
		case slices.Contains(ends, t.Text):
			return Span{from, r.at}
		case top && (updateWords[w] || queryForms[w] || t.is(";")):
			to := r.at
			r.trail(top)
			return Span{from, to}
		case t.is("("):
			q.Exists = append(q.Exists, r.expression()...)
		default:
			if t.Kind == SolutionSet || w == "WITH" {
				r.note("unexpected %s", t.Text)
			}
			r.skip()
		}
	}
	return Span{from, min(r.at, r.end)}
}

// expression reads an expression in parentheses and returns the groups of EXISTS in it.
func (r *treeReader) expression() (groups []*Group) {
	for depth := 0; !r.ended(); {
		switch r.peek() {
		case "{":
			groups = append(groups, r.group())
			continue
		case "(":
			depth++
		case ")":
			depth--
		}
		if r.at++; depth == 0 {
			break
		}
	}
	return groups
}

func (r *treeReader) group() *Group {
	g, outer := &Group{Span: Span{From: r.at}}, r.end
	if r.ended() || r.peek() != "{" {
		r.expect("{")
		return g
	}
	r.end = r.closes[r.at]
	g.To = r.end + 1
	if r.at++; r.peek() == "SELECT" {
		g.Select = r.query(false)
	}
	for !r.ended() {
		if !r.accept(".") {
			g.Elements = append(g.Elements, r.element())
		}
	}
	if r.failed {
		for r.failed, r.at = false, r.resume; !r.ended(); {
			if r.peek() != "{" {
				r.at++
				continue
			}
			g.Elements = append(g.Elements, Element{Word: "none", Span: Span{r.at, r.end}, Groups: []*Group{r.group()}})
		}
	}
	r.at, r.end = g.To, outer
	return g
}

func (r *treeReader) element() Element {
	e := Element{Word: r.peek(), Span: Span{From: r.at}}
	r.at++
	switch e.Word {
	case "{":
		r.at--
		e.Word, e.Groups = "UNION", []*Group{r.group()}
		for r.accept("UNION") {
			e.Groups = append(e.Groups, r.group())
		}
	case "GRAPH", "SERVICE":
		r.accept("SILENT")
		e.Subject = r.node()
		e.Groups = []*Group{r.group()}
	case "OPTIONAL", "MINUS":
		e.Groups = []*Group{r.group()}
	case "FILTER":
		r.filter(&e)
	case "BIND":
		if r.peek() != "(" {
			r.fail("BIND without brackets")
		}
		e.Groups = r.expression()
	case "VALUES":
		r.values(&e)
	default:
		r.at--
		e.Word = ""
		r.triples(&e)
	}
	e.To = r.at
	return e
}

func (r *treeReader) filter(e *Element) {
	r.accept("NOT")
	if e.Exists = r.accept("EXISTS"); e.Exists {
		e.Groups = []*Group{r.group()}
		return
	}
	if r.peek() != "(" { // the name of a function
		r.at++
	}
	if r.peek() != "(" {
		r.fail("FILTER without brackets")
	}
	e.Groups = r.expression()
}

func (r *treeReader) values(e *Element) {
	e.Names.From = r.at
	if r.peek() == "(" {
		r.brackets()
	} else {
		r.at++
	}
	if e.Names.To = r.at; r.peek() != "{" {
		r.fail("VALUES without rows")
	}
	r.brackets()
}

// triples reads a subject with its properties.
func (r *treeReader) triples(e *Element) {
	if e.Subject = r.node(); r.failed {
		e.Word = "none"
		return
	}
	if t := r.peek(); len(e.Subject.Properties) == 0 || t != "." && t != "}" {
		e.Properties = r.properties()
	}
}

func (r *treeReader) node() Node {
	n := Node{Token: r.at}
	t := r.token()
	r.at++
	switch {
	case t.is("["):
		if r.peek() != "]" {
			n.Properties = r.properties()
		}
		r.expect("]")
	case t.is("("):
		for !r.ended() && !r.accept(")") {
			if r.peek() == "[" {
				r.fail("a blank node's properties in a collection")
			}
			n.Items = append(n.Items, r.node())
		}
	case t.Kind == Word && t.Text != "true" && t.Text != "false", t.Kind >= LangTag && t.Kind != Number:
		r.unexpected(t, "")
	}
	return n
}

// unexpected fails at a token that has been skipped.
func (r *treeReader) unexpected(t Token, place string) {
	r.at--
	r.fail("unexpected %s%s", t.Text, place)
}

// properties reads predicates with their objects up to the end of the subject's triples.
func (r *treeReader) properties() (list []Property) {
	for more := true; more; {
		p := Property{Path: r.path()}
		if r.failed {
			break
		}
		for again := true; again; again = r.accept(",") {
			if n := r.node(); !r.failed {
				p.Objects = append(p.Objects, n)
			}
		}
		list = append(list, p)
		more = false
		for r.accept(";") {
			more = !r.endsProperties()
		}
	}
	return list
}

// endsProperties reports whether no predicate follows.
func (r *treeReader) endsProperties() bool {
	switch r.peek() {
	case ".", "}", "]", ";", "", "{", "OPTIONAL", "GRAPH", "MINUS", "SERVICE", "FILTER", "BIND", "VALUES":
		return true
	}
	return false
}

func (r *treeReader) path() Path {
	p := Path{Span: Span{From: r.at}}
	p.Nullable = r.alternatives(&p)
	p.To = r.at
	return p
}

func (r *treeReader) alternatives(p *Path) (nullable bool) {
	for more := true; more; more = r.accept("|") {
		nullable = r.sequence(p) || nullable
	}
	return nullable
}

func (r *treeReader) sequence(p *Path) bool {
	nullable := true
	for more := true; more; more = r.accept("/") {
		nullable = r.step(p) && nullable
	}
	return nullable
}

// step reads one step of a path with its operator.
func (r *treeReader) step(p *Path) (nullable bool) {
	r.accept("^")
	t := r.token()
	r.at++
	switch {
	case t.is("("):
		nullable = r.alternatives(p)
		r.expect(")")
	case t.is("!"):
		p.Negated, p.Open = true, true
		if r.peek() == "(" {
			r.brackets()
		} else {
			r.accept("^")
			r.at++
		}
	case t.Kind == IRI, t.Kind == Name, t.Kind == Variable, t.Text == "a":
		p.Predicates = append(p.Predicates, r.at-1)
	default:
		r.unexpected(t, " in place of a predicate")
	}
	switch {
	case r.accept("*"), r.accept("?"):
		p.Open = true
		return true
	case r.accept("+"):
		p.Open = true
	}
	return nullable
}
