package follow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A term has one form in data, and may be written in several ways in queries: in the first one more often than in the others.
type term struct {
	data    string // N-Triples
	written []string
}

func plain(data string) term { return term{data, []string{data}} }

const xsd = "http://www.w3.org/2001/XMLSchema#"

// typed is a literal of a datatype of XML Schema.
func typed(value, datatype string, short ...string) term {
	return term{fmt.Sprintf(`"%s"^^<%s%s>`, value, xsd, datatype), append(short, fmt.Sprintf(`"%s"^^xsd:%s`, value, datatype))}
}

func numbered(n int) term {
	return term{fmt.Sprintf("<http://x/%d>", n), []string{fmt.Sprintf("x:%d", n), fmt.Sprintf("<%d>", n), fmt.Sprintf(":%d", n),
		fmt.Sprintf(`<http://x/\u003%d>`, n), fmt.Sprintf("<./%d>", n), fmt.Sprintf("<http://x/y/../%d>", n)}}
}

// Terms that a program may take for each other, or may fail to take for the same, are neighbours.
var (
	oddNodes = []term{
		{"<http://x/a,b>", []string{`x:a\,b`, "<http://x/a,b>", `<http://x/a\u002Cb>`}},
		{"<http://x/é>", []string{"x:é", "<http://x/é>", `<http://x/\u00e9>`, `<http://x/\U000000E9>`}},
		{"<http://x/%C3%A9>", []string{"x:%C3%A9", "<http://x/%C3%A9>"}}, plain("<http://x/%c3%a9>"),
		{"<http://x/C>", []string{"x:C", "<http://x/C>"}}, plain("<http://X/C>"), plain("<HTTP://x/C>"),
	}
	literals = []term{
		{`"l"`, []string{`"l"`, `'l'`, `"""l"""`, `"\u006c"`, `"l"^^xsd:string`}}, plain(`"l"@en`), plain(`"l"@EN`), plain(`"l"@en-GB`),
		{`"l"^^<http://x/dt>`, []string{`"l"^^x:dt`}}, plain(`""`), plain(`"_:l"`), plain(`"<http://x/1>"`),
		{`"a\"b"`, []string{`"a\"b"`, `'a"b'`}}, {`"t\tb"`, []string{`"t\tb"`, "'''t\tb'''"}}, {`"é"`, []string{`"é"`, `"\u00e9"`}},
		typed("2020-01-01T00:00:00Z", "dateTime"), typed("2020-01-01T01:00:00+01:00", "dateTime"), typed("2", "integer", "2"),
		typed("1", "integer", "1"), typed("01", "integer", "01"), typed("+1", "integer", "+1"), typed("1.0", "decimal", "1.0"),
		typed("1e0", "double", "1e0"), typed("1", "byte"), typed("1", "boolean"), typed("true", "boolean", "true", "TRUE"),
	}
)

// A gen draws data and queries of few terms, so that they meet.
type gen struct {
	*rand.Rand
	nodes, literals []term
	fresh           int // variables ?n1, ?n2 and so on of the query
}

// newTerms draws the terms of a round.
func (g *gen) newTerms() {
	odd := g.IntN(len(oddNodes) - 1)
	g.nodes = append(oddNodes[odd:odd+2:odd+2], numbered(1), numbered(2), numbered(3), numbered(1), numbered(2), numbered(3))
	first := g.IntN(len(literals) - 2)
	g.literals = literals[first : first+3]
}

func (g *gen) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g *gen) p(percent int) bool { return g.IntN(100) < percent }

func (g *gen) term(list []term) term { return list[g.IntN(len(list))] }

func (g *gen) write(t term) string {
	if g.p(60) {
		return t.written[0]
	}
	return g.pick(t.written...)
}

func (g *gen) node() string { return g.write(g.term(g.nodes)) }

func (g *gen) literal() string { return g.write(g.term(g.literals)) }

func (g *gen) predicate() string {
	switch g.IntN(14) {
	case 0:
		return "a"
	case 1:
		return g.pick("<http://x/p0>", `<http://x/\u00700>`, ":p0", "<p0>", "<http://x/./p0>")
	}
	return fmt.Sprintf("x:p%d", g.IntN(3))
}

func (g *gen) variable() string { return g.pick("?", "?", "?", "$") + g.pick("a", "b", "c", "d") }

func (g *gen) newVariable() string {
	g.fresh++
	return fmt.Sprintf("?n%d", g.fresh)
}

func (g *gen) anyVariable() string {
	if g.fresh > 0 && g.p(25) {
		return fmt.Sprintf("?n%d", 1+g.IntN(g.fresh))
	}
	return g.variable()
}

func (g *gen) subject() string {
	switch n := g.IntN(20); {
	case n < 11:
		return g.variable()
	case n < 18:
		return g.node()
	case n < 19:
		return "_:" + g.pick("x", "y")
	}
	return "[]"
}

func (g *gen) object(depth int) string {
	switch n := g.IntN(24); {
	case n < 4:
		return g.node()
	case n < 9:
		return g.literal()
	case n < 10 && depth > 0:
		return "[ " + g.verb() + " " + g.object(depth-1) + " ]"
	case n < 11 && g.p(10):
		return "( " + g.variable() + " )"
	}
	return g.variable()
}

func (g *gen) verb() string {
	switch n := g.IntN(20); {
	case n < 12:
		return g.predicate()
	case n < 14:
		return g.variable()
	}
	return g.path(2)
}

func (g *gen) path(depth int) string {
	if depth == 0 {
		return g.predicate()
	}
	part := func() string { return "(" + g.path(depth-1) + ")" }
	switch g.IntN(8) {
	case 0, 1:
		return part() + g.pick("*", "+", "?")
	case 2:
		return "^" + part()
	case 3:
		return part() + "/" + part()
	case 4:
		return part() + "|" + part()
	case 5:
		return g.pick("!"+g.predicate(), "!^"+g.predicate(), "!("+g.predicate()+"|^"+g.predicate()+")", "!()")
	}
	return g.predicate()
}

func (g *gen) triples(depth int) string {
	switch g.IntN(50) {
	case 0:
		return "[ " + g.verb() + " " + g.object(0) + " ]"
	case 1:
		s, p, o := g.subject(), g.predicate(), g.object(0)
		return g.pick("<< "+s+" "+p+" "+o+" >> x:p1 ?a", "?a x:p1 <<( "+s+" "+p+" "+o+" )>>", s+" "+p+" "+o+" {| x:p1 ?a |}")
	}
	s := g.subject() + " " + g.verb() + " " + g.object(depth)
	for g.p(20) {
		s += g.pick(" ; ", " ;; ") + g.verb() + " " + g.object(depth)
	}
	for g.p(10) {
		s += " , " + g.object(depth)
	}
	return s
}

func (g *gen) values() string {
	names := []string{"?a", "?b", "?c", "?d"}
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if g.p(16) { // a triple is one value, and in a column of its own, because no data have such
		row := func() string {
			return "(<<( x:1 x:p0 x:2 )>> " + g.pick("UNDEF", g.node()) + " " + g.pick("UNDEF", g.node()) + ") "
		}
		return "VALUES (?t " + names[0] + " " + names[1] + ") { " + row() + row() + "}"
	}
	names = names[:g.IntN(8)/3+1]
	row := func() string {
		var cells []string
		for range names {
			cells = append(cells, g.pick("UNDEF", g.literal(), g.literal(), g.node(), g.node(), g.node(), g.node(), g.node()))
		}
		return strings.Join(cells, " ")
	}
	if len(names) == 1 && g.p(70) {
		list := ""
		for range g.IntN(3) {
			list += row() + " "
		}
		return "VALUES " + names[0] + " { " + list + row() + " }"
	}
	list := "(" + row() + ")"
	for range g.IntN(2) {
		list += " (" + row() + ")"
	}
	return "VALUES (" + strings.Join(names, " ") + ") { " + list + " }"
}

func (g *gen) bind() string {
	value, name := g.pick(g.node(), g.literal(), g.expression(2)), g.variable()
	if g.p(40) {
		name = g.newVariable()
	}
	return "BIND(" + value + " AS " + name + ")"
}

func (g *gen) element(depth int) string {
	if depth <= 0 {
		return g.triples(0) + " ."
	}
	switch g.IntN(22) {
	case 0, 1:
		return "OPTIONAL " + g.group(depth-1)
	case 2:
		return "MINUS " + g.group(depth-1)
	case 3, 4:
		return "FILTER " + g.pick("", "NOT ", "not ") + g.pick("EXISTS ", "exists ") + g.group(depth-1)
	case 5:
		return "FILTER(" + g.expression(depth-1) + ")"
	case 6:
		return g.group(depth-1) + " UNION " + g.group(depth-1)
	case 7:
		return "GRAPH " + g.pick("x:g", "?g", "x:h", g.variable(), g.node()) + " " + g.group(depth-1)
	case 8, 9:
		return g.values()
	case 10:
		return g.bind()
	case 11:
		return "{ " + g.selection(depth-1) + " }"
	case 12, 13:
		return g.group(depth - 1)
	}
	return g.triples(1) + " ."
}

func (g *gen) group(depth int) string {
	if depth > 0 && g.p(6) {
		return "{ " + g.selection(depth-1) + " }"
	}
	n := 1 + g.IntN(3)
	if g.p(3) {
		n = 0
	}
	var s []string
	for range n {
		s = append(s, g.element(depth))
	}
	return "{ " + strings.Join(s, g.pick(" ", " ", "\n# } c\n")) + " }"
}

func (g *gen) expression(depth int) string {
	if depth <= 0 {
		return g.pick(g.anyVariable(), g.anyVariable(), g.node(), g.literal())
	}
	x := func() string { return g.expression(depth - 1) }
	switch g.IntN(18) {
	case 0, 1:
		return x() + g.pick(" = ", " != ", " < ", ">=", " && ", " || ", " + ", " * ", " - ") + x()
	case 2:
		return g.pick("EXISTS ", "NOT EXISTS ") + g.group(depth-1)
	case 3:
		return g.anyVariable() + g.pick(" IN ", " NOT IN ") + "(" + g.expression(0) + ", " + g.expression(0) + ")"
	case 4:
		return "!(" + x() + ")"
	case 5:
		return "BOUND(" + g.anyVariable() + ")"
	case 6:
		return g.pick("IF("+x()+", ", "COALESCE(") + x() + ", " + x() + ")"
	case 7:
		return g.pick("STR", "LANG", "DATATYPE", "IRI", "uri", "STRLEN", "UCASE", "isIRI", "isBLANK", "isNumeric", "ABS", "MD5",
			"xsd:integer", "xsd:string", "ENCODE_FOR_URI") + "(" + x() + ")"
	case 8:
		return g.pick("STRSTARTS", "CONTAINS", "REGEX", "langMatches", "sameTerm", "STRDT", "STRLANG") + "(" + x() + ", " + x() + ")"
	case 9:
		if g.p(8) {
			return g.pick("NOW()", "RAND()", "UUID()", "STRUUID()", "BNODE()", `bnode("x")`, "NoW ( )")
		}
	}
	return g.expression(0)
}

func (g *gen) aggregate() string {
	distinct := g.pick("", "DISTINCT ")
	switch g.IntN(8) {
	case 0:
		return "COUNT(" + distinct + "*)"
	case 1:
		return g.pick("SUM", "MIN", "MAX", "AVG") + "(" + distinct + g.anyVariable() + ")"
	case 2:
		return g.pick("MIN", "MAX", "COUNT") + "(" + distinct + "STR(" + g.anyVariable() + "))"
	case 3:
		return g.pick("SAMPLE", "GROUP_CONCAT") + "(" + g.anyVariable() + ")"
	}
	return "COUNT(" + distinct + g.anyVariable() + ")"
}

func (g *gen) selection(depth int) string { return g.selectFrom("", depth) }

// selectFrom draws a query with the given clauses FROM.
func (g *gen) selectFrom(from string, depth int) string {
	form := "SELECT " + g.pick("", "", "", "", "", "", "DISTINCT ", "DISTINCT ", "DISTINCT ", "REDUCED ")
	body := from + g.pick(" WHERE ", " ") + g.group(depth)
	if g.p(25) {
		return form + g.grouped(body)
	}
	if g.p(45) {
		return form + "*" + body + g.tail(nil)
	}
	vars := g.variables()
	head := strings.Join(vars, " ")
	if g.p(15) {
		n := g.newVariable()
		head, vars = head+" ("+g.expression(2)+" AS "+n+")", append(vars, n)
	}
	return form + head + body + g.tail(vars)
}

// variables draws different ones.
func (g *gen) variables() []string {
	vars := []string{g.anyVariable()}
	for range g.IntN(3) {
		v := g.anyVariable()
		if !slices.ContainsFunc(vars, func(other string) bool { return other[1:] == v[1:] }) {
			vars = append(vars, v)
		}
	}
	return vars
}

// grouped draws all of a query with aggregates but its form.
func (g *gen) grouped(body string) string {
	var keys, head []string
	if g.p(70) {
		body += " GROUP BY"
		for range 1 + g.IntN(2) {
			key, condition := g.variable(), ""
			switch g.IntN(6) {
			case 0:
				key = g.newVariable()
				condition = "(" + g.expression(1) + " AS " + key + ")"
			case 1:
				condition = g.pick("STR(", "STRLEN(", "(") + key + ")"
			default:
				condition = key
			}
			body, keys = body+" "+condition, append(keys, key)
		}
	}
	for _, k := range keys {
		if g.p(80) {
			head = append(head, k)
		}
	}
	for range 1 + g.IntN(2) {
		head = append(head, "("+g.aggregate()+" AS "+g.newVariable()+")")
	}
	if g.p(5) {
		head = append(head, "(EXISTS "+g.group(1)+" AS "+g.newVariable()+")")
	}
	if g.p(15) {
		body += " HAVING(" + g.aggregate() + g.pick(" > ", " = ") + g.pick("0", "1", "2") + g.pick("", " || EXISTS "+g.group(0)) + ")"
	}
	return strings.Join(head, " ") + body + g.tail(append(keys, g.variable()))
}

// tail draws what follows a group: an order by all or some variables, LIMIT and VALUES.
func (g *gen) tail(vars []string) (s string) {
	if g.p(30) {
		s = " ORDER BY" + g.order(vars)
	}
	if s != "" && g.p(50) || g.p(3) {
		s += fmt.Sprintf(" LIMIT %d", g.IntN(4)) + g.pick("", "", " OFFSET 0", " OFFSET 1", " OFFSET 2")
	}
	if g.p(6) {
		s += " " + g.values()
	}
	return s
}

func (g *gen) order(vars []string) (s string) {
	if vars = slices.Clone(vars); len(vars) == 0 || g.p(30) {
		vars = append(vars, g.variable())
	}
	g.Shuffle(len(vars), func(i, j int) { vars[i], vars[j] = vars[j], vars[i] })
	for _, v := range vars {
		s += " " + g.pick(v, v, v, v, "DESC("+v+")", "("+v+")", g.pick("STR", "STRLEN", "LCASE")+"("+v+")", "ASC("+g.pick(v, v+" + 1")+")")
	}
	if g.p(5) {
		s += " EXISTS " + g.group(1)
	}
	return s
}

// query draws a query, half of the time of a form that the result may narrow or that gives constants to variables.
func (g *gen) query() string {
	g.fresh = 0
	const head = "BASE <http://x/> PREFIX x: <http://x/> PREFIX : <http://x/> PREFIX xsd: <" + xsd + "> "
	switch g.IntN(12) {
	case 0, 1, 2, 3:
		return head + g.narrowable()
	case 4, 5, 6:
		return head + g.pick("SELECT *", "SELECT DISTINCT ?a ?b", "ASK", "SELECT (COUNT(*) AS ?n)") + " { " + g.scopes(3) + "}"
	case 7:
		return head + "ASK " + g.group(3)
	case 8:
		return head + g.construct()
	}
	from := ""
	for g.p(10) {
		from += g.pick(" FROM x:g", " FROM NAMED x:g", " FROM x:h", " FROM NAMED x:h", " FROM <http://none/>")
	}
	return head + g.selectFrom(from, 3)
}

func (g *gen) narrowable() string {
	star := func(verb string) string { return "?a " + verb + " " + g.object(1) + " " }
	s := "SELECT " + g.pick("*", "?a", "?a ?b") + " { " + star(g.predicate()) + ". "
	if g.p(40) {
		s += g.values() + " "
	}
	if g.p(50) {
		s += star(g.verb()) + ". "
	}
	for range g.IntN(3) {
		s += g.pick("OPTIONAL { "+star(g.predicate())+"} ", "OPTIONAL { "+star(g.verb())+"; "+g.predicate()+" "+g.object(1)+" } ",
			"OPTIONAL { ?b "+g.predicate()+" "+g.object(0)+" } ", "FILTER(?a != x:2) ", `FILTER(STR(?b) < "http://x/3") `,
			"FILTER("+g.expression(1)+") ", "VALUES ?a { x:1 x:2 } ", "MINUS { ?a x:p2 ?b } ", g.values()+" ",
			"OPTIONAL { "+star(g.predicate())+"FILTER("+g.expression(1)+") } ")
	}
	return s + "}" + g.pick("", "", " ORDER BY ?a")
}

// scopes draws groups in groups, with constants for variables in any of them.
func (g *gen) scopes(depth int) (s string) {
	if depth == 0 {
		return g.variable() + " " + g.predicate() + " " + g.pick(g.variable(), g.variable(), g.node()) + " . "
	}
	in := func() string { return "{ " + g.scopes(depth-1) + "} " }
	for range 1 + g.IntN(3) {
		s += g.pick(g.values()+" ", "VALUES ?a { x:1 } ", "VALUES ?b { x:2 x:3 } ", "BIND(x:1 AS ?a) ", "BIND(x:2 AS ?e) ",
			g.scopes(0), g.scopes(0), g.scopes(0), "OPTIONAL "+in(), "MINUS "+in(), "FILTER EXISTS "+in(), "FILTER NOT EXISTS "+in(), in(),
			in()+"UNION "+in(), "{ SELECT * "+in()+"} ", "{ SELECT (COUNT(*) AS "+g.newVariable()+") "+in()+"} ",
			"GRAPH "+g.pick("x:g", "?g")+" { "+g.scopes(0)+g.scopes(depth-1)+"} ", "FILTER(?a = ?b || EXISTS "+in()+") ",
			"?a "+g.path(2)+" ?b . ", "FILTER(!BOUND("+g.variable()+")) ")
	}
	return s
}

func (g *gen) construct() string {
	switch n := g.IntN(20); {
	case n < 8:
		return "CONSTRUCT WHERE { " + g.subject() + " " + g.predicate() + " " + g.object(0) + " . " + g.subject() + " " +
			g.pick("?p", g.predicate()) + " " + g.object(0) + " }" + g.pick("", " ORDER BY ?a ?b ?c ?d ?p LIMIT 2")
	case n < 9:
		return "DESCRIBE x:1"
	}
	return "CONSTRUCT { " + g.pick("?a x:r ?b", "[] x:r ?a", "?a x:r [ x:q ?b ]", "_:b x:r ?a . _:b x:q ?c", "?a ?b ?c", "x:1 x:q (?a ?b)") +
		" } WHERE " + g.group(3) + g.pick("", "", " ORDER BY ?a ?b ?c LIMIT 2", " ORDER BY ?a LIMIT 2")
}

// A quad is a statement of N-Quads. It is in the default graph if its graph is empty.
type quad struct{ s, p, o, g string }

func (g *gen) quad() quad {
	q := quad{s: g.term(g.nodes).data, p: fmt.Sprintf("<http://x/p%d>", g.IntN(3)), o: g.term(g.nodes).data}
	switch n := g.IntN(100); {
	case n < 8:
		q.p = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
	case n < 11:
		q.p = "<http://x/q>"
	}
	if g.p(40) {
		q.o = g.term(g.literals).data
	}
	if g.p(30) {
		q.g = g.pick("<http://x/g>", "<http://x/g>", "<http://x/h>", "<http://x/1>")
	}
	return q
}

// turtle writes a statement for INSERT DATA.
func (q quad) turtle() string {
	t := q.s + " " + q.p + " " + q.o + " ."
	if q.g != "" {
		return "GRAPH " + q.g + " { " + t + " }"
	}
	return t
}

// row writes a statement for a patch, which need not name the graph.
func (g *gen) row(q quad) string {
	graph := ""
	if q.g != "" && g.p(90) {
		graph = " " + g.spell(q.g)
	}
	return g.spell(q.s) + " " + g.spell(q.p) + " " + g.spell(q.o) + graph + " ."
}

func (g *gen) spell(term string) string {
	if local, is := strings.CutPrefix(term, "<http://x/"); is && g.p(40) {
		return "x:" + strings.ReplaceAll(strings.TrimSuffix(local, ">"), ",", `\,`)
	}
	if g.p(50) {
		return strings.ReplaceAll(term, "é", `\u00e9`)
	}
	return term
}
