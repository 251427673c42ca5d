package merge

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry/sparql"
)

// A Template is what queries that can be merged have in common.
type Template struct {
	// ID identifies the template: "t_" and 16 hexadecimal digits. It is the
	// same in every process.
	ID   string
	Form diff.Form
	// Parameters is the number of arguments that a member has.
	Parameters int
	// Vars are the variables of a member's result (SELECT).
	Vars []string
	// Ordered reports that the sequence of rows is part of the result, and
	// OrderKeys are the variables that it is sorted by.
	Ordered   bool
	OrderKeys []string

	graph      bool // the pattern has GRAPH
	distinct   bool
	single     bool   // aggregates without GROUP BY: one row, even over no solutions
	sums       []int  // columns whose value adds up numbers
	projection []part // of SELECT, without DISTINCT
	dataset    []part // FROM clauses
	pattern    []part // the outermost group, without its braces
	groupBy    []part // the keys, without GROUP BY
	having     []part
	orderBy    []part
	slice      []part    // LIMIT and OFFSET
	triples    [][3]part // CONSTRUCT's template
	names      map[string]bool
}

// part is one token, or one parameter.
type part struct {
	text  string
	param int // index of the parameter, -1 for a token
}

// Parse returns the template of a query and its arguments, one term for each
// parameter as written in the normal form. The error is a *Refusal for a query
// that must be asked alone.
func Parse(a *sparql.Analysis) (t *Template, args []string, err error) { return parse(a, "") }

// parse is Parse without one of its rules.
func parse(a *sparql.Analysis, ignored Reason) (t *Template, args []string, err error) {
	return newParser(ignored).parse(a)
}

// Text returns the text of a query's template: the query's normal form with $1, $2 … in place of its
// arguments. It is "" for a query that must be asked alone.
func Text(a *sparql.Analysis) string {
	p := newParser("")
	if _, _, err := p.parse(a); err != nil {
		return ""
	}
	words := make([]string, len(p.list))
	for i, x := range p.list {
		if words[i] = x.text; x.param >= 0 {
			words[i] = "$" + strconv.Itoa(x.param+1)
		}
	}
	return strings.Join(words, " ")
}

func newParser(ignored Reason) *parser {
	return &parser{slots: map[string]int{}, names: map[string]bool{}, ignored: ignored}
}

func (p *parser) parse(a *sparql.Analysis) (t *Template, args []string, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Refusal:
			t, args, err = nil, nil, r
		default:
			panic(r)
		}
	}()
	p.check(a)
	list, ok := tokens(a.Normal)
	if !ok {
		p.refuse(Dialect, "a string has an escape that SPARQL does not define")
	}
	p.list = make([]part, len(list))
	for i, text := range list {
		p.list[i] = part{text: text, param: -1}
	}
	return p.query(a), p.args, nil
}

type parser struct {
	ignored Reason // by tests, to show what each rule is for
	list    []part
	pos     int
	names   map[string]bool // all variables, with their question mark
	scope   []string        // variables in scope, in the order of their first use
	slots   map[string]int  // parameters by term
	args    []string
	// candidates are the indices of constants that become parameters unless a rule
	// forbids it.
	candidates []int
	connected  []map[string]bool // terms of parts that share variables or constants
	graph      bool              // there is GRAPH
	open       bool              // there is a path with * + ? or !
}

func (p *parser) peek() string {
	if p.pos < len(p.list) {
		return p.list[p.pos].text
	}
	return ""
}

func (p *parser) next() string {
	t := p.peek()
	if t == "" {
		p.refuse(Dialect, "the query ends unexpectedly")
	}
	p.pos++
	p.note(t)
	return t
}

func (p *parser) note(t string) {
	if isVariable(t) {
		p.names[t] = true
	}
	if strings.HasPrefix(t, "bif:") || strings.HasPrefix(t, "sql:") {
		p.refuse(Dialect, t)
	}
}

func (p *parser) accept(t string) bool {
	if p.peek() != t {
		return false
	}
	p.pos++
	return true
}

func (p *parser) expect(t string) {
	if got := p.next(); got != t {
		p.refuse(Dialect, "expected "+t+" instead of "+got)
	}
}

// skip moves behind the bracket that closes the one at the current position.
func (p *parser) skip() {
	depth := 0
	for {
		switch p.next() {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
			if depth == 0 {
				return
			}
		}
	}
}

func (p *parser) query(a *sparql.Analysis) *Template {
	t := &Template{Form: diff.Form(a.Form), Ordered: a.Ordered, OrderKeys: a.OrderKeys}
	form := p.next()
	var projected, construct span
	switch form {
	case "SELECT":
		t.distinct = p.accept("DISTINCT")
		if p.peek() == "REDUCED" {
			p.refuse(Reduced, "")
		}
		projected = p.until("FROM", "WHERE", "{")
	case "CONSTRUCT":
		if p.peek() == "{" {
			construct = p.brackets()
		}
	case "ASK":
	case "DESCRIBE":
		p.refuse(Describe, "")
	default:
		p.refuse(Dialect, "the query has declarations that cannot be expanded")
	}
	dataset := p.until("WHERE", "{")
	p.accept("WHERE")
	start := p.pos
	bound := p.group(true)
	pattern := span{start + 1, p.pos - 1}
	if len(p.connected) > 1 {
		p.refuse(Disconnected, "")
	}
	tail := p.tail()
	p.settle(bound)

	if form == "CONSTRUCT" {
		if construct.to == 0 { // CONSTRUCT WHERE
			construct = pattern
		}
		p.constructed(t, construct)
	}
	t.projection, t.dataset, t.pattern = p.parts(projected), p.parts(dataset), p.parts(pattern)
	t.groupBy, t.having, t.orderBy = p.parts(tail.group), p.parts(tail.having), p.parts(tail.order)
	t.slice = p.parts(tail.slice)
	t.Parameters, t.names, t.graph = len(p.args), p.names, p.graph
	if p.open && form == "SELECT" && !t.distinct {
		p.refuse(Path, "")
	}
	if t.Parameters == 0 {
		p.refuse(NoParameter, "")
	}
	p.outside(p.parts(construct), t.groupBy, t.projection, t.having, t.orderBy)
	if form == "SELECT" {
		p.columns(t, a)
	} else if len(t.groupBy)+len(t.having)+len(t.orderBy) > 0 {
		p.refuse(Modifiers, "")
	}
	t.ID = t.identify()
	return t
}

// span is a range of tokens.
type span struct{ from, to int }

func (p *parser) parts(s span) []part { return slices.Clone(p.list[s.from:s.to]) }

// until moves to the first of the tokens outside brackets.
func (p *parser) until(ends ...string) span {
	from := p.pos
	for !slices.Contains(ends, p.peek()) {
		if p.peek() == "(" {
			p.skip()
		} else {
			p.next()
		}
	}
	return span{from, p.pos}
}

// brackets moves behind a pair of brackets and returns what is between them.
func (p *parser) brackets() span {
	from := p.pos + 1
	p.skip()
	return span{from, p.pos - 1}
}

type tail struct{ group, having, order, slice span }

func (p *parser) tail() (t tail) {
	if p.accept("GROUP") {
		p.expect("BY")
		t.group = p.untilEnd("HAVING", "ORDER", "LIMIT", "OFFSET")
	}
	if p.accept("HAVING") {
		t.having = p.untilEnd("ORDER", "LIMIT", "OFFSET")
	}
	if p.accept("ORDER") {
		p.expect("BY")
		t.order = p.untilEnd("LIMIT", "OFFSET")
	}
	t.slice = p.untilEnd()
	if p.pos < len(p.list) {
		p.refuse(Dialect, "unexpected "+p.peek())
	}
	return t
}

// untilEnd moves to the first of the tokens outside brackets or to the end of
// the query. It stops at VALUES, which is refused as a clause of the query.
func (p *parser) untilEnd(ends ...string) span {
	from := p.pos
	for p.pos < len(p.list) && !slices.Contains(ends, p.peek()) && p.peek() != "VALUES" {
		if p.peek() == "(" {
			p.skip()
		} else {
			p.next()
		}
	}
	return span{from, p.pos}
}

// settle makes parameters of the candidates that all solutions contain, in the order of
// the text.
func (p *parser) settle(bound binding) {
	slices.Sort(p.candidates)
	for _, i := range p.candidates {
		term := p.list[i].text
		if !bound.always[term] && p.keeps(keepOptional) {
			continue
		}
		slot, known := p.slots[term]
		if !known {
			slot = len(p.args)
			p.slots[term] = slot
			p.args = append(p.args, term)
		}
		p.list[i] = part{text: term, param: slot}
	}
}

// identify digests everything that two members must have in common.
func (t *Template) identify() string {
	h := sha256.New()
	write := func(s string) {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	list := func(parts []part) {
		for _, p := range parts {
			if p.param < 0 {
				write(p.text)
			} else {
				write("\x01" + strconv.Itoa(p.param))
			}
		}
		write("\x02")
	}
	write(string(t.Form))
	write(strconv.FormatBool(t.distinct))
	for _, parts := range [][]part{t.projection, t.dataset, t.pattern, t.groupBy, t.having, t.orderBy} {
		list(parts)
	}
	for _, triple := range t.triples {
		list(triple[:])
	}
	write(strings.Join(t.Vars, " "))
	return "t_" + hex.EncodeToString(h.Sum(nil)[:8])
}
