package sparql

import (
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// An analyser finds in a tree what an Analysis says. It accepts parts that the tree cannot read.
type analyser struct {
	*treeReader
	text      string
	top       clauses
	unordered *Token // LIMIT or OFFSET without ORDER BY, of a sub-select rather than of the query
	ungrouped *Token // the first projected variable that is neither grouped nor aggregated
	services  orderedSet
	reaches   orderedSet
	random    orderedSet
	constants []string
}

// orderedSet keeps distinct strings in the order of first occurrence.
type orderedSet struct {
	names []string
	seen  map[string]bool
	first int // position of the first
}

func (f *orderedSet) add(name string, pos int) {
	if f.seen == nil {
		f.seen, f.first = map[string]bool{}, pos
	}
	if !f.seen[name] {
		f.seen[name] = true
		f.names = append(f.names, name)
	}
}

// clauses are those of the query or of a sub-select.
type clauses struct {
	ordered       bool
	plainOrder    bool // all conditions are plain variables
	orderKeys     []string
	orderPos      int
	limit, offset int64 // -1 if there is none
	limitPos      int
	distinct      bool
	star          bool
	vars          []string
	plain         []Token // the projected variables, without expressions, and *
	grouped       bool    // it has GROUP BY
	keys          []string
	open          bool // GROUP BY has other conditions than variables and named expressions
	unnamed       int  // projected expressions without a name
}

func (t *Tree) analyser(text string) *analyser {
	return &analyser{treeReader: &treeReader{Tree: t, closes: closings(t.Tokens)}, text: text}
}

func (x *analyser) errorAt(t Token, format string, args ...any) error {
	return syntaxError(x.text, t.Pos, format, args...)
}

func (x *analyser) form(q *Select) string { return x.Tokens[q.Form].Text }

func (x *analyser) run() error {
	all := allSelects(nil, x.Query)
	if err := x.words(all); err != nil {
		return err
	}
	for _, q := range all {
		c, err := x.clauses(q)
		if err != nil {
			return err
		}
		x.top = c // the query is the last one
		if x.ungrouped == nil && c.grouped {
			if i := slices.IndexFunc(c.plain, func(t Token) bool { return t.is("*") || !slices.Contains(c.keys, t.Text[1:]) }); i >= 0 {
				x.ungrouped = &c.plain[i]
			}
		}
		if x.unordered == nil && !c.ordered && (c.limit >= 0 || c.offset > 0) && x.form(q) != "ASK" {
			x.unordered = &Token{Pos: c.limitPos}
		}
	}
	switch end := (Token{Pos: len(x.text)}); {
	case x.trailing >= 0:
		return x.trailed(x.Tokens[x.trailing:])
	case x.patternless():
		return x.withoutPattern(end)
	case x.top.ordered && x.top.plainOrder && len(x.top.orderKeys) == 0:
		return x.errorAt(end, "ORDER BY without a condition")
	}
	return nil
}

// allSelects appends a query with its sub-selects, the inner ones first.
func allSelects(list []*Select, q *Select) []*Select {
	var visit func(g *Group)
	visit = func(g *Group) {
		if g == nil {
			return
		}
		if g.Select != nil {
			list = allSelects(list, g.Select)
		}
		for _, e := range g.Elements {
			for _, g := range e.Groups {
				visit(g)
			}
		}
	}
	for _, g := range slices.Concat(q.Named, []*Group{q.Where}, q.Exists) {
		visit(g)
	}
	return append(list, q)
}

func (x *analyser) patternless() bool { return x.Query.Where == nil && x.form(x.Query) != "DESCRIBE" }

func (x *analyser) withoutPattern(at Token) error {
	return x.errorAt(at, "%s without a pattern: a group { … } is missing", x.form(x.Query))
}

// trailed refuses what follows a complete query. The error is ErrUpdate if it is an update.
func (x *analyser) trailed(rest []Token) error {
	if slices.ContainsFunc(rest, func(t Token) bool { return updateWords[t.keyword()] }) {
		return ErrUpdate
	}
	switch t := rest[0]; {
	case t.is(";"):
		return x.errorAt(t, "one query only, and no semicolon after it")
	case queryForms[t.keyword()]:
		return x.errorAt(t, "a second %s begins here; one query only", t.keyword())
	case x.patternless():
		return x.withoutPattern(t)
	default:
		return x.errorAt(t, "%q cannot follow a complete query", shorten(x.text[t.Pos:t.End]))
	}
}

// directly yields the tokens of a span that are in no bracket within it, and the opening brackets.
func (x *analyser) directly(s Span) iter.Seq2[int, Token] {
	return func(yield func(int, Token) bool) {
		for i := s.From; i < s.To && yield(i, x.Tokens[i]); i++ {
			i = max(i, x.closes[i])
		}
	}
}

// clauses reads the clauses of a query.
func (x *analyser) clauses(q *Select) (c clauses, err error) {
	c = clauses{plainOrder: true, limit: -1, offset: -1}
	if d := q.Dataset; d.To > d.From && x.Tokens[d.To-1].keyword() == "FROM" {
		return c, x.errorAt(x.Tokens[d.To-1], "FROM needs the IRI of a graph; without FROM, the query asks the default graph")
	}
	x.projection(&c, q)
	for _, clause := range q.Clauses {
		word := x.Tokens[clause.From-1]
		switch clause.Word {
		case "GROUP":
			c.grouped = true
			for i, t := range x.directly(clause.Span) {
				if v, ok := x.key(i); ok {
					c.keys = append(c.keys, v)
				} else if names := x.named(i); len(names) > 0 {
					c.keys = append(c.keys, names...)
				} else if t.keyword() != "BY" && !t.is(",") {
					c.open = true
				}
			}
		case "ORDER":
			c.ordered, c.orderPos = true, word.Pos
			operator := false // of an expression without brackets, which dialects have
			for i, t := range x.directly(clause.Span) {
				if v, ok := x.key(i); ok {
					c.orderKeys = append(c.orderKeys, v)
				} else if w := t.keyword(); w != "BY" && w != "ASC" && w != "DESC" && !t.is(",") {
					c.plainOrder = false
					operator = operator || w == "IN" || t.Kind == Word && !standard[w] || t.Kind == Number ||
						t.Kind == Punct && !t.is("(") && !t.is("{")
				}
			}
			if operator { // the variables beside it are no conditions
				c.orderKeys = nil
			}
		case "LIMIT", "OFFSET":
			n := &c.limit
			if c.limitPos = word.Pos; clause.Word == "OFFSET" {
				n = &c.offset
			}
			if *n >= 0 {
				return c, x.errorAt(word, "%s is repeated here", clause.Word)
			}
			if *n, err = x.number(clause); err != nil {
				return c, err
			}
			if at := clause.From + 1; q == x.Query && at < clause.To {
				return c, x.trailed(x.Tokens[at:])
			}
		}
	}
	return c, nil
}

// number reads the number of LIMIT or OFFSET. A number that does not fit becomes the largest that does.
func (x *analyser) number(c Clause) (int64, error) {
	t := x.Tokens[min(c.From, len(x.Tokens)-1)]
	if c.From >= c.To || t.Kind != Number {
		return 0, x.errorAt(x.Tokens[c.From-1], "%s needs a whole number", c.Word)
	}
	n, err := strconv.ParseUint(t.Text, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return math.MaxInt64, nil
	case err != nil:
		return 0, x.errorAt(t, "%s needs a whole number, not %s", c.Word, shorten(t.Text))
	}
	return int64(n), nil
}

// projection reads what is between the query form and the dataset or pattern.
func (x *analyser) projection(c *clauses, q *Select) {
	for i, t := range x.directly(q.Head) {
		switch w := t.keyword(); {
		case w == "DISTINCT":
			c.distinct = true
		case t.is("*"):
			c.star = true
			c.plain = append(c.plain, t)
		case x.form(q) != "SELECT", w == "REDUCED", t.is(","):
		case t.Kind == Variable:
			c.vars = append(c.vars, t.Text[1:])
			if x.Tokens[i-1].keyword() != "AS" {
				c.plain = append(c.plain, t)
			}
		case w == "AS":
			c.unnamed--
		case t.is("("):
			names := x.named(i)
			if v, ok := x.key(i); ok {
				names = append(names, v)
			}
			c.vars = append(c.vars, names...)
			if c.unnamed -= len(names); !x.isCall(i) {
				c.unnamed++
			}
		default:
			c.unnamed++
		}
	}
}

// key returns the variable at i, alone or in a parenthesis of its own.
func (x *analyser) key(i int) (string, bool) {
	if x.Tokens[i].is("(") && x.closes[i] == i+2 && !x.isCall(i) {
		i++
	}
	return strings.TrimLeft(x.Tokens[i].Text, "?"), x.Tokens[i].Kind == Variable
}

// named returns the variables after AS in the bracket at i.
func (x *analyser) named(i int) (names []string) {
	for k, t := range x.directly(Span{i + 1, x.closes[i]}) {
		if t.Kind == Variable && x.Tokens[k-1].keyword() == "AS" {
			names = append(names, t.Text[1:])
		}
	}
	return names
}

// isCall reports whether the parenthesis at i holds arguments.
func (x *analyser) isCall(i int) bool {
	switch t := x.Tokens[i-1]; t.Kind {
	case IRI, Name:
		return true
	case Word:
		return !slices.Contains([]string{"SELECT", "DISTINCT", "REDUCED", "BY", "ASC", "DESC"}, t.keyword())
	}
	return false
}

func (x *analyser) precedesBracket(i int) bool { return i+1 < len(x.Tokens) && x.Tokens[i+1].is("(") }

// followsWord reports whether the token at i follows a word that takes an expression: FILTER, HAVING, a
// built-in; not the keyword a, which takes a class.
func (x *analyser) followsWord(i int) bool {
	return i > 0 && x.Tokens[i-1].Kind == Word && x.Tokens[i-1].Text != "a"
}

// A bracket is an open one, or the whole query.
type bracket struct {
	at         int
	expression bool    // it has arguments, a condition or a projected expression
	data       bool    // its IRIs are matched or created: in a pattern, template or VALUES
	query      *Select // whose clauses are directly in it, nil if there is none
}

// words handles words and IRIs whose meaning depends on the brackets around them at most.
func (x *analyser) words(all []*Select) error {
	queries := map[int]*Select{} // by their bracket
	for _, q := range all {
		queries[q.Form-1] = q
	}
	tokens, open, target := x.Tokens, []bracket{{at: -1, query: x.Query}}, -1
	if x.trailing >= 0 {
		tokens = tokens[:x.trailing]
	}
	for i, t := range tokens {
		f := &open[len(open)-1]
		switch w := t.keyword(); {
		case t.Kind == Punct && isCloser(t.Text):
			open = open[:len(open)-1]
		case t.Kind == Punct && closers[t.Text] != "":
			b := bracket{at: i, data: f.data, query: queries[i]}
			if f.query != nil {
				b.data, b.expression = t.is("{"), t.is("(")
			} else if t.is("(") {
				named := tokens[i-1].Kind == IRI || tokens[i-1].Kind == Name // FILTER <f>(…)
				b.expression = f.expression || x.followsWord(i) || named && x.followsWord(i-1)
			}
			open = append(open, b)
		case w == "SERVICE":
			if target = i + 1; target < len(tokens) && tokens[target].keyword() == "SILENT" {
				target++
			}
			if target == len(tokens) || tokens[target].Kind == Punct {
				return x.errorAt(t, "SERVICE needs the IRI of an endpoint")
			}
			name := tokens[target].Text
			if tokens[target].Own {
				name += " of the query's own prefix"
			}
			x.services.add(name, t.Pos)
		case w == "AS" && i+1 < len(tokens) && tokens[i+1].Kind == Word:
			// Calls of dialects may have types there.
			bound := f.expression && (!x.isCall(f.at) || tokens[f.at-1].keyword() == "BIND")
			if bound || f.query != nil && i < f.query.Head.To {
				return x.errorAt(tokens[i+1], "AS needs a variable: write ?%s", shorten(tokens[i+1].Text))
			}
		case nonDeterministic[w] && x.precedesBracket(i):
			x.random.add(w, t.Pos)
		case t.Kind == Name:
			x.sideEffect(i)
		case t.Kind == IRI:
			x.sideEffect(i)
			called := x.precedesBracket(i) && (f.expression || x.followsWord(i))
			described := f.at < 0 && x.form(x.Query) == "DESCRIBE" && i < x.Query.Head.To
			iri := t.Text[1 : len(t.Text)-1]
			if (f.data || described) && i != target && !called && schemeLen(iri) > 0 {
				x.constants = append(x.constants, iri)
			}
		}
	}
	return nil
}

func (x *analyser) analysis() *Analysis {
	c, q := &x.top, x.Query
	a := &Analysis{
		Form: x.form(q), Ordered: c.ordered, Limit: c.limit, Offset: c.offset,
		Distinct: c.distinct, Star: c.star, HasFrom: q.Dataset.To > q.Dataset.From, Pragmas: x.Pragmas,
		Services: x.services.names, SideEffects: x.reaches.names, NonDeterministic: x.random.names,
	}
	if c.ordered && c.plainOrder {
		a.OrderKeys = c.orderKeys
	}
	if !c.star {
		var unique orderedSet
		for _, v := range c.vars {
			unique.add(v, 0)
		}
		a.Vars = unique.names
		a.Unnamed = a.Form == "SELECT" && (c.unnamed > 0 || len(a.Vars) < len(c.vars))
	}
	slices.Sort(x.constants)
	a.Constants = slices.Clip(slices.Compact(x.constants))
	return a
}
