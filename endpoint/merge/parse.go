package merge

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	kind  sparql.Kind
	text  string
	param int // index of the parameter, -1 for a token
}

func (p part) isVariable() bool { return p.kind == sparql.Variable }

// isLiteral reports whether p is a string, a number or a boolean.
func (p part) isLiteral() bool {
	return p.kind == sparql.String || p.kind == sparql.Number || p.text == "true" || p.text == "false"
}

// isString reports whether p is a string without a language.
func (p part) isString() bool {
	_, suffix, _ := sparql.Unquote(p.text)
	return p.kind == sparql.String && (suffix == "" || suffix == "^^<"+xsd+"string>")
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
	return p.text()
}

func (p *parser) text() string {
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
	tree := sparql.Parse(a.Normal)
	for i, t := range tree.Tokens {
		p.list = append(p.list, part{t.Kind, t.Text, -1})
		if t.Kind == sparql.Variable {
			p.names[t.Text] = true
		}
		if t.Kind == sparql.String && (t.Text[0] == '\'' || strings.HasPrefix(t.Text, `"""`)) {
			p.refuse(Dialect, "a string has an escape that SPARQL does not define")
		}
		if i > 0 && (strings.HasPrefix(t.Text, "bif:") || strings.HasPrefix(t.Text, "sql:")) {
			p.refuse(Dialect, t.Text)
		}
	}
	return p.query(a, tree), p.args, nil
}

type parser struct {
	ignored Reason // by tests, to show what each rule is for
	list    []part
	names   map[string]bool // all variables, with their question mark
	scope   []string        // variables in scope, in the order of their first use
	slots   map[string]int  // parameters by term
	args    []string
	// candidates are the indices of constants that become parameters unless a rule
	// forbids it.
	candidates []int
	connected  []map[string]bool // terms of parts that share variables or constants
	open       bool              // there is a path with * + ? or !
}

func (p *parser) query(a *sparql.Analysis, tree *sparql.Tree) *Template {
	t := &Template{Form: diff.Form(a.Form), Ordered: a.Ordered, OrderKeys: a.OrderKeys, distinct: a.Form == "SELECT" && a.Distinct}
	switch {
	case tree.Declared:
		p.refuse(Dialect, "the query has declarations that cannot be expanded")
	case a.Form == "DESCRIBE":
		p.refuse(Describe, "")
	case a.Form == "SELECT" && p.list[1].text == "REDUCED":
		p.refuse(Reduced, "")
	}
	q := tree.Query
	if tree.Err != nil || q.Where == nil {
		panic(&Refusal{Dialect, fmt.Sprint(tree.Err)})
	}
	bound := p.group(q.Where, true)
	if len(p.connected) > 1 {
		p.refuse(Disconnected, "")
	}
	p.modifiers(t, q.Clauses)
	p.makeParameters(bound)

	pattern, head := sparql.Span{From: q.Where.From + 1, To: q.Where.To - 1}, q.Head
	if t.distinct {
		head.From++
	}
	if a.Form == "CONSTRUCT" {
		template := cmp.Or(q.Template, q.Where) // CONSTRUCT WHERE
		p.constructed(t, template)
		p.outside(p.parts(template.Span))
	} else {
		t.projection = p.parts(head)
	}
	t.dataset, t.pattern = p.parts(q.Dataset), p.parts(pattern)
	t.Parameters, t.names = len(p.args), p.names
	if p.open {
		p.refuse(Path, "")
	}
	if t.Parameters == 0 {
		p.refuse(NoParameter, "")
	}
	p.outside(t.groupBy, t.projection, t.having, t.orderBy)
	if a.Form == "SELECT" {
		p.columns(t, a)
	} else if len(t.groupBy)+len(t.having)+len(t.orderBy) > 0 {
		p.refuse(Modifiers, "")
	}
	digest := sha256.Sum256([]byte(p.text()))
	t.ID = "t_" + hex.EncodeToString(digest[:8])
	return t
}

func (p *parser) parts(s sparql.Span) []part { return slices.Clone(p.list[s.From:s.To]) }

// modifiers takes the clauses after the pattern.
func (p *parser) modifiers(t *Template, clauses []sparql.Clause) {
	for _, c := range clauses {
		by := sparql.Span{From: min(c.From+1, c.To), To: c.To}
		switch c.Word {
		case "GROUP":
			t.groupBy = p.parts(by)
		case "HAVING":
			t.having = p.parts(c.Span)
		case "ORDER":
			t.orderBy = p.parts(by)
		case "LIMIT", "OFFSET":
			t.slice = append(t.slice, p.parts(sparql.Span{From: c.From - 1, To: c.To})...)
		default:
			p.refuse(Dialect, "unexpected "+c.Word)
		}
	}
}

// makeParameters makes parameters of the candidates that all solutions contain, in the order of
// the text.
func (p *parser) makeParameters(bound binding) {
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
		p.list[i].param = slot
	}
}
