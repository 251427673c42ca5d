package merge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// node, predicate and value draw terms of a small vocabulary, so that patterns
// often match.
func node(r *rand.Rand) string       { return fmt.Sprintf("<http://x/n%d>", r.IntN(7)) }
func predicate1(r *rand.Rand) string { return fmt.Sprintf("<http://x/%c>", 'p'+rune(r.IntN(3))) }

func value(r *rand.Rand) string {
	literals := []string{`"ä€𝄞"`, `"2020-01-01"^^<http://www.w3.org/2001/XMLSchema#date>`, `"a"`, `"b"@en`, `"b"@EN`, `"b"`, `1`,
		`01`, `1.0`, `"1"`, `true`, `"q\"\\\n"`, `""`}
	if r.IntN(5) > 0 {
		return node(r)
	}
	return literals[r.IntN(len(literals))]
}

func randomData(r *rand.Rand) string {
	var b strings.Builder
	for range 42 {
		s, o := node(r), value(r)
		if r.IntN(12) == 0 {
			s = fmt.Sprintf("_:b%d", r.IntN(3))
		}
		if r.IntN(12) == 0 {
			o = fmt.Sprintf("_:b%d", r.IntN(3))
		}
		fmt.Fprintf(&b, "%s %s %s .\n", s, predicate1(r), o)
	}
	for range 6 {
		fmt.Fprintf(&b, "%s a %s .\n", node(r), node(r))
	}
	return b.String()
}

// generator writes one random query with placeholders for constants.
type generator struct {
	*rand.Rand
	strings.Builder
	holes, blanks int
	hidden        bool // in a part whose constants stay
	open          bool // with paths of any length
}

// randomQueries returns variants of one random query with other constants, most
// of them in few places so that many variants have the same template.
func randomQueries(r *rand.Rand, variants int) []string {
	g := &generator{Rand: r}
	for g.holes == 0 {
		g.Reset()
		g.open = g.IntN(5) == 0
		g.query()
	}
	pools := make([][]string, g.holes)
	for h := range pools {
		term := func() string { return value(r) }
		if strings.Contains(g.String(), fmt.Sprintf("$S%d$", h)) {
			term = func() string { return node(r) }
		}
		for range []int{1, 30, 30, 30}[r.IntN(4)] {
			pools[h] = append(pools[h], term())
		}
	}
	list := make([]string, 0, variants)
	for range variants {
		text := g.String()
		for h, pool := range pools {
			term := pool[r.IntN(len(pool))]
			text = strings.NewReplacer(fmt.Sprintf("$O%d$", h), term, fmt.Sprintf("$S%d$", h), term).Replace(text)
		}
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

func (g *generator) write(format string, args ...any) { fmt.Fprintf(g, format, args...) }

// pick returns one of the choices.
func (g *generator) pick(choices ...string) string { return choices[g.IntN(len(choices))] }

func (g *generator) variable() string { return g.pick("?a", "?b", "?c", "?i", "?p0") }

// hole is a constant that differs between variants, rarely so where it splits
// their template; object holes may be literals.
func (g *generator) hole(kind string) string {
	if g.hidden && g.IntN(4) > 0 {
		return node(g.Rand)
	}
	h := g.IntN(3)
	g.holes = max(g.holes, h+1)
	return fmt.Sprintf("$%s%d$", kind, h)
}

func (g *generator) query() {
	tail := ""
	switch g.IntN(8) {
	case 0:
		g.write("ASK ")
	case 1:
		g.write("CONSTRUCT { ?a <http://x/made> ?b . ?b <http://x/of> %s ; a <http://x/C> } WHERE ", g.hole("S"))
	case 2:
		g.write("SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?a) AS ?m) ")
	case 3:
		g.write("SELECT ?a (COUNT(?b) AS ?n) (MIN(?c) AS ?m) (SUM(?b) AS ?s) ")
		tail = " GROUP BY ?a"
		if g.IntN(2) == 0 {
			tail += " HAVING (COUNT(?b) > 1)"
		}
	case 4:
		g.write("SELECT * ")
	case 5:
		g.write("SELECT ?a ?b ?c ")
		tail = " ORDER BY " + g.pick("?a", "DESC(?b) ?a", "?c ?b")
	default:
		g.write("SELECT %s?b (STR(?a) AS ?t) ?c ", g.pick("", "DISTINCT "))
	}
	g.group(1+g.IntN(3), true)
	g.write("%s", tail)
}

// group writes a group graph pattern of at most the given depth.
func (g *generator) group(depth int, outermost bool) {
	g.write("{ ")
	if outermost || depth == 0 || g.IntN(4) > 0 {
		g.triples()
	}
	for range g.IntN(3) {
		g.part(depth)
	}
	g.write("} ")
}

func (g *generator) part(depth int) {
	if depth == 0 {
		g.triples()
		return
	}
	n := g.IntN(12)
	if 3 <= n && n <= 7 && n != 6 && !g.hidden {
		g.hidden = true
		defer func() { g.hidden = false }()
	}
	switch n {
	case 0, 1:
		g.write("OPTIONAL ")
		g.group(depth-1, false)
	case 2:
		g.group(depth-1, false)
		g.write("UNION ")
		g.group(depth-1, false)
	case 3:
		g.write("FILTER %s EXISTS ", g.pick("", "NOT"))
		g.group(0, false)
	case 4:
		g.write("MINUS ")
		g.group(0, false)
	case 5:
		g.write("FILTER(%s) ", g.pick(g.variable()+g.pick(" = ", " != ", " < ")+g.hole("O"), g.variable()+" != "+g.variable(),
			"BOUND("+g.variable()+")", "!BOUND("+g.variable()+")", "ISIRI("+g.variable()+")"))
	case 6:
		g.group(depth-1, false)
	case 7:
		g.write("{ SELECT %s?a ?b ", g.pick("", "DISTINCT "))
		g.group(0, false)
		g.write("} ")
	case 8:
		g.write("GRAPH <http://x/g> ")
		g.group(depth-1, false)
	case 9:
		g.write("BIND(%s AS %s) ", g.pick("STR("+g.variable()+")", g.variable(), node(g.Rand)), g.pick("?d", "?c"))
	case 10:
		g.write("VALUES %s { %s %s } ", g.pick("?a", "?b", "?k"), g.pick(node(g.Rand), predicate1(g.Rand)),
			g.pick(node(g.Rand), predicate1(g.Rand), "UNDEF"))
	default:
		g.triples()
	}
}

func (g *generator) triples() {
	for range 1 + g.IntN(2) {
		subject := g.pick(g.variable(), g.variable(), g.hole("S"), g.blank(), "[ "+g.path()+" "+g.object()+" ]")
		g.write("%s %s %s", subject, g.path(), g.object())
		switch g.IntN(5) {
		case 0:
			g.write(" ; a %s", g.pick(g.variable(), node(g.Rand)))
		case 1:
			g.write(" , %s", g.object())
		case 2:
			g.write(" ; %s %s", g.path(), g.object())
		}
		g.write(" . ")
	}
}

func (g *generator) blank() string {
	g.blanks++
	return fmt.Sprintf("_:x%d", g.blanks)
}

func (g *generator) object() string {
	return g.pick(g.variable(), g.variable(), g.variable(), g.hole("O"), g.hole("S"))
}

func (g *generator) path() string {
	p := predicate1(g.Rand)
	if g.open && g.IntN(4) == 0 {
		return g.pick(p+"+", p+"*", "("+p+"?)")
	}
	return g.pick(p, p, p, p, p, "?"+g.pick("k", "a"), "^"+p, p+"/"+predicate1(g.Rand), p+"|"+predicate1(g.Rand))
}
