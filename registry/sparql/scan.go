package sparql

import "slices"

// role is the kind of content of a bracket.
type role uint8

const (
	triples    role = iota // a group, template, [ … ] or quoted triple
	list                   // a collection, a path group or a row of VALUES
	expression             // arguments, a FILTER's condition, a projected expression
)

// frame is an open bracket; frames[0] is the query itself.
type frame struct {
	role   role
	data   bool   // its IRIs are matched or created: in a pattern, template or VALUES
	scope  *scope // set if clauses may be directly inside: the query, a sub-select
	closes *scope // the scope whose pattern ends with it
	opens  int    // index of the bracket
}

// scanner walks the body once. Its brackets are balanced and its prefixes
// expanded.
type scanner struct {
	text       string
	body       []Token
	top        *scope
	frames     []frame
	unordered  []Token // sub-selects' LIMIT or OFFSET without ORDER BY
	ungrouped  *Token  // the first projected variable that is neither grouped nor aggregated
	services   orderedSet
	reaches    orderedSet
	random     orderedSet
	constants  []string
	serviceArg int // index of the target of the last SERVICE
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

func newScanner(text string, body []Token) *scanner {
	top := newScope(body[0].keyword(), true)
	return &scanner{text: text, body: body, top: top, frames: []frame{{scope: top}}, serviceArg: -1}
}

func (s *scanner) errorAt(t Token, format string, args ...any) error {
	return syntaxError(s.text, t.Pos, format, args...)
}

func (s *scanner) inner() *frame { return &s.frames[len(s.frames)-1] }

func (s *scanner) run() error {
	for i := range s.body {
		if err := s.token(i); err != nil {
			return err
		}
	}
	return s.finish()
}

func (s *scanner) token(i int) error {
	t := s.body[i]
	if t.Kind == Punct && isCloser(t.Text) {
		s.close()
	}
	if c := s.inner().scope; c != nil {
		if err := s.clauseToken(c, i); err != nil {
			return err
		}
	}
	switch t.Kind {
	case Word:
		return s.word(i)
	case IRI:
		s.iri(i)
		s.sideEffect(i)
	case Name:
		s.sideEffect(i)
	case Variable:
		s.named(i)
	case Punct:
		if _, opens := closers[t.Text]; opens {
			return s.openBracket(i)
		}
	}
	return nil
}

// word handles words whose meaning does not depend on their place.
func (s *scanner) word(i int) error {
	t := s.body[i]
	switch w := t.keyword(); {
	case w == "SELECT" && i > 0 && s.body[i-1].is("{"):
		s.inner().scope = newScope("SELECT", false)
	case w == "SERVICE":
		return s.service(i)
	case w == "AS":
		return s.as(i)
	case nonDeterministic[w] && i+1 < len(s.body) && s.body[i+1].is("("):
		s.random.add(w, t.Pos)
	}
	return nil
}

func (s *scanner) service(i int) error {
	target := i + 1
	if target < len(s.body) && s.body[target].keyword() == "SILENT" {
		target++
	}
	if target == len(s.body) || s.body[target].Kind == Punct {
		return s.errorAt(s.body[i], "SERVICE needs the IRI of an endpoint")
	}
	s.serviceArg = target
	s.services.add(s.body[target].canonical(), s.body[i].Pos)
	return nil
}

// as refuses a name without its question mark: "( … AS n )" in a projection, in GROUP BY and in BIND, and
// "… AS n" in a projection. Calls of dialects may have types there.
func (s *scanner) as(i int) error {
	if i+1 == len(s.body) || s.body[i+1].Kind != Word {
		return nil
	}
	f, name := s.inner(), s.body[i+1]
	bare := f.scope != nil && f.scope.clause == projection
	bracket := f.role == expression && (!s.isCall(f.opens) || s.body[f.opens-1].keyword() == "BIND")
	if bare || bracket {
		return s.errorAt(name, "AS needs a variable: write ?%s", shorten(name.Text))
	}
	return nil
}

// named adds ?v of "( … AS ?v )" in a projection.
func (s *scanner) named(i int) {
	if s.inner().role != expression || s.body[i-1].keyword() != "AS" {
		return
	}
	if c := s.frames[len(s.frames)-2].scope; c != nil && c.clause == groupBy {
		c.keys.add(s.body[i].Text[1:], 0)
	}
	if len(s.frames) != 2 {
		return
	}
	if c := s.top; c.clause == projection && c.form == "SELECT" {
		c.vars = append(c.vars, s.body[i].Text[1:])
		c.unnamed--
	}
}

// iri collects the constants.
func (s *scanner) iri(i int) {
	f := s.inner()
	described := f.scope != nil && f.scope.form == "DESCRIBE" && f.scope.clause == projection
	if !f.data && !described || i == s.serviceArg || s.body[i-1].is("^^") || s.isFunction(i) {
		return
	}
	iri := s.body[i].Text
	if iri = iri[1 : len(iri)-1]; schemeLen(iri) > 0 {
		s.constants = append(s.constants, iri)
	}
}

// isFunction reports whether the IRI at i is called. In triples and lists a
// parenthesis after an IRI is a collection or a path.
func (s *scanner) isFunction(i int) bool {
	if i+1 == len(s.body) || !s.body[i+1].is("(") {
		return false
	}
	return s.inner().role == expression || s.afterCallWord(i)
}

// afterCallWord reports whether the token at i follows a word that takes an
// expression: FILTER, HAVING, a built-in; not the keyword a, which takes a
// class.
func (s *scanner) afterCallWord(i int) bool {
	return s.body[i-1].Kind == Word && s.body[i-1].Text != "a"
}

func (s *scanner) openBracket(i int) error {
	parent := s.inner()
	f := frame{role: triples, data: parent.data, opens: i}
	switch {
	case s.body[i].Text == "(":
		f.role = s.parenthesis(i, parent)
		if parent.scope != nil {
			f.data = parent.scope.clause == values
		}
	case s.body[i].Text == "{" && parent.scope != nil:
		f.data = true
		if err := s.group(i, parent.scope, &f); err != nil {
			return err
		}
	}
	s.frames = append(s.frames, f)
	return nil
}

func (s *scanner) parenthesis(i int, parent *frame) role {
	switch {
	case parent.role == expression || parent.scope != nil && parent.scope.clause != values:
		return expression
	case parent.role == list:
		return list
	case s.afterCallWord(i):
		return expression
	case s.body[i-1].Kind == IRI || s.body[i-1].Kind == Name:
		if s.afterCallWord(i - 1) {
			return expression // FILTER <f>(…)
		}
	}
	return list
}

// group determines which group the brace at i opens directly in the scope c.
func (s *scanner) group(i int, c *scope, f *frame) error {
	switch {
	case c.clause == projection && c.form == "CONSTRUCT" && s.body[i-1].keyword() == "CONSTRUCT":
	case c.clause == namedSubquery, c.clause == values, s.body[i-1].keyword() == "EXISTS":
	case !c.matched:
		f.closes = c
	case c.top:
		return s.trailing(i)
	}
	return nil
}

func (s *scanner) close() {
	f := s.inner()
	if f.scope != nil {
		s.leave(f.scope)
	}
	c := f.closes
	s.frames = s.frames[:len(s.frames)-1]
	if c != nil {
		c.matched, c.clause = true, tail
	} else if c := s.inner().scope; c != nil && c.clause == values {
		c.clause = s.afterValues(f)
	}
}

// afterValues returns the clause after a bracket of VALUES: the rows end the clause,
// the variables before them do not.
func (s *scanner) afterValues(closed *frame) clause {
	if closed.role == triples {
		return tail
	}
	return values
}

func (s *scanner) leave(c *scope) {
	s.checkGroups(c)
	if !c.ordered && (c.limit >= 0 || c.offset > 0) && c.form != "ASK" {
		s.unordered = append(s.unordered, Token{Pos: c.limitPos})
	}
}

// finish checks that the query is complete.
func (s *scanner) finish() error {
	end := Token{Pos: len(s.text)}
	switch {
	case !s.top.matched && s.top.form != "DESCRIBE":
		return s.errorAt(end, "%s without a pattern: a group { … } is missing", s.top.form)
	case s.top.ordered && s.top.plainOrder && len(s.top.orderKeys) == 0:
		return s.errorAt(end, "ORDER BY without a condition")
	}
	s.leave(s.top)
	return nil
}

func (s *scanner) analysis() *Analysis {
	c := s.top
	a := &Analysis{
		Form: c.form, Ordered: c.ordered, Limit: c.limit, Offset: c.offset,
		Distinct: c.distinct, Star: c.star, HasFrom: c.from,
		Services: s.services.names, SideEffects: s.reaches.names, NonDeterministic: s.random.names,
	}
	if c.ordered && c.plainOrder {
		a.OrderKeys = c.orderKeys
	}
	if !c.star {
		a.Vars = unique(c.vars)
		a.Unnamed = c.form == "SELECT" && (c.unnamed > 0 || len(a.Vars) < len(c.vars))
	}
	slices.Sort(s.constants)
	a.Constants = slices.Clip(slices.Compact(s.constants))
	return a
}

func unique(names []string) []string {
	var f orderedSet
	for _, n := range names {
		f.add(n, 0)
	}
	return f.names
}
