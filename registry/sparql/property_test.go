package sparql

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// piece is one token of a generated query, not yet spelled.
type piece struct {
	role  string // keyword, name, iri, variable, string, other
	text  string // of a name: "a:local" or "b:local"
	tight bool   // may be written without a space
}

// namespaces are those of the generated names.
var namespaces = map[string]string{"a": "http://a.example/ns#", "b": "http://b.example/"}

// queryGen builds queries as lists of pieces.
type queryGen struct {
	t   *rapid.T
	out []piece
}

func (g *queryGen) add(role string, texts ...string) {
	for _, s := range texts {
		g.out = append(g.out, piece{role: role, text: s, tight: role == "other" && strings.Contains("(){}[];,", s)})
	}
}

func (g *queryGen) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(g.t, label)
}

func (g *queryGen) variable() { g.add("variable", g.pick("variable", "x", "y", "Z", "é1")) }

func (g *queryGen) name() {
	g.add("name", g.pick("name", "a:p", "a:Q", "b:x.y", "b:", `b:c\,d`, "a:%2C", "a:1-2", "b:select"))
}

func (g *queryGen) literal() {
	g.add("string", rapid.StringOf(rapid.SampledFrom([]rune("ab #'\"\\\n\r\té{}?<>"))).Draw(g.t, "string"))
	switch g.pick("tag", "", "@", "^^") {
	case "@":
		g.add("other", "@en-GB")
	case "^^":
		g.add("other", "^^")
		g.name()
	}
}

func (g *queryGen) term() {
	switch g.pick("term", "variable", "name", "string", "number", "boolean", "blank", "anon") {
	case "variable":
		g.variable()
	case "name":
		g.name()
	case "string":
		g.literal()
	case "number":
		g.add("other", g.pick("number", "1", "-2.50", "+3e5", ".5"))
	case "boolean":
		g.add("keyword", "true")
	case "blank":
		g.add("other", "_:n1")
	case "anon":
		g.add("other", "[", "]")
	}
}

func (g *queryGen) triple() {
	g.variable()
	switch g.pick("verb", "a", "name", "path", "variable") {
	case "a":
		g.add("other", "a")
	case "name":
		g.name()
	case "path":
		g.add("other", "(")
		g.name()
		g.add("other", g.pick("path", "|", "/"))
		g.name()
		g.add("other", ")", "*")
	case "variable":
		g.variable()
	}
	g.term()
	g.add("other", ".")
}

func (g *queryGen) filter() {
	g.add("keyword", "filter")
	g.add("other", "(")
	g.add("keyword", g.pick("call", "str", "isIRI", "now", "regex"))
	g.add("other", "(")
	g.variable()
	g.add("other", ")", g.pick("operator", "<", ">", "=", "!=", "<=", "+", "&&"))
	g.term()
	g.add("other", ")")
}

func (g *queryGen) group(depth int) {
	g.add("other", "{")
	for range rapid.IntRange(0, 3).Draw(g.t, "members") {
		switch kind := g.pick("member", "triple", "filter", "optional", "subselect", "service", "values"); {
		case kind == "triple" || depth == 0:
			g.triple()
		case kind == "filter":
			g.filter()
		case kind == "optional":
			g.add("keyword", "optional")
			g.group(depth - 1)
		case kind == "subselect":
			g.add("other", "{")
			g.selectQuery(depth - 1)
			g.add("other", "}")
		case kind == "service":
			g.add("keyword", "service", "silent")
			g.name()
			g.group(depth - 1)
		case kind == "values":
			g.add("keyword", "values")
			g.variable()
			g.add("other", "{")
			g.name()
			g.add("keyword", "undef")
			g.add("other", "}")
		}
	}
	g.add("other", "}")
}

func (g *queryGen) selectQuery(depth int) {
	g.add("keyword", "select", "distinct")
	g.variable()
	g.add("other", "(")
	g.add("keyword", "count")
	g.add("other", "(", "*", ")")
	g.add("keyword", "as")
	g.variable()
	g.add("other", ")")
	g.add("keyword", "where")
	g.group(depth)
	g.modifiers()
}

func (g *queryGen) modifiers() {
	if rapid.Bool().Draw(g.t, "ordered") {
		g.add("keyword", "order", "by", "desc")
		g.add("other", "(")
		g.variable()
		g.add("other", ")")
	}
	if rapid.Bool().Draw(g.t, "limited") {
		g.add("keyword", "limit")
		g.add("other", "10")
	}
}

func (g *queryGen) query() []piece {
	switch g.pick("form", "select", "ask", "construct", "describe") {
	case "select":
		g.selectQuery(2)
	case "ask":
		g.add("keyword", "ask")
		g.group(2)
	case "construct":
		g.add("keyword", "construct")
		g.add("other", "{")
		g.triple()
		g.add("other", "}")
		g.add("keyword", "where")
		g.group(2)
		g.modifiers()
	case "describe":
		g.add("keyword", "describe")
		g.name()
		g.variable()
	}
	return g.out
}

// speller writes pieces as a text, each in one of its equivalent spellings.
type speller struct {
	t        *rapid.T
	prefixes map[string]string // of a and b in this text
	b        strings.Builder
}

func (s *speller) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(s.t, label)
}

func (s *speller) spell(pieces []piece) string {
	s.prefixes = map[string]string{"a": s.pick("prefix a", "a", "b", "", "x.y-z"), "b": s.pick("prefix b", "é", "prefix", "B")}
	for _, p := range []string{"a", "b"} {
		if rapid.Bool().Draw(s.t, "declared before") {
			s.keyword("prefix")
			s.b.WriteString(" " + s.prefixes[p] + ":<http://other.example/>")
		}
		s.keyword("prefix")
		s.b.WriteString(" " + s.prefixes[p] + ":" + s.space("") + "<" + namespaces[p] + ">" + s.space(""))
	}
	for i, p := range pieces {
		if i > 0 {
			least := " "
			if p.tight || pieces[i-1].tight {
				least = ""
			}
			s.b.WriteString(s.space(least))
		}
		s.piece(p)
	}
	s.b.WriteString(s.space(""))
	return s.b.String()
}

// space returns random white space, at least the given one.
func (s *speller) space(least string) string {
	return s.pick("space", least, least, " ", "\n", "\t \r\n", " # it's <a> \"comment\" } ; DROP ALL\n", "#\r\n")
}

func (s *speller) keyword(w string) {
	for _, r := range w {
		if c := string(r); rapid.Bool().Draw(s.t, "upper") {
			s.b.WriteString(strings.ToUpper(c))
		} else {
			s.b.WriteString(strings.ToLower(c))
		}
	}
}

func (s *speller) piece(p piece) {
	switch p.role {
	case "keyword":
		s.keyword(p.text)
	case "variable":
		s.b.WriteString(s.pick("sigil", "?", "$") + p.text)
	case "name":
		s.name(p.text)
	case "string":
		s.string(p.text)
	default:
		s.b.WriteString(p.text)
	}
}

func (s *speller) name(name string) {
	prefix, local, _ := strings.Cut(name, ":")
	if rapid.Bool().Draw(s.t, "in full") {
		s.b.WriteString("<" + namespaces[prefix] + unescapeLocal(local) + ">")
		return
	}
	if local == "1-2" && rapid.Bool().Draw(s.t, "escaped") {
		local = `1\-\u0032`
	}
	s.b.WriteString(s.prefixes[prefix] + ":" + local)
}

// string writes a string in one of the four quotings. It escapes what must be
// escaped and sometimes more.
func (s *speller) string(content string) {
	quote := s.pick("quoting", `'`, `"`, `'''`, `"""`)
	s.b.WriteString(quote)
	for _, r := range content {
		must := r == '\\' || string(r) == quote[:1] || len(quote) == 1 && (r == '\n' || r == '\r')
		if !must && !rapid.Bool().Draw(s.t, "escape") {
			s.b.WriteRune(r)
			continue
		}
		switch r {
		case '\n':
			s.b.WriteString(`\n`)
		case '\r':
			s.b.WriteString(`\r`)
		case '\t':
			s.b.WriteString(`\t`)
		case '\\', '\'', '"':
			s.b.WriteString(`\` + string(r))
		case 'é':
			s.b.WriteString(s.pick("codepoint", `\u00e9`, `\U000000E9`))
		default:
			s.b.WriteRune(r)
		}
	}
	s.b.WriteString(quote)
}

// TestSpellingDoesNotMatter checks that comments, white space, keyword case,
// prefix names, sigils and quoting do not change the analysis.
func TestSpellingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := (&queryGen{t: t}).query()
		one := (&speller{t: t}).spell(pieces)
		two := (&speller{t: t}).spell(pieces)
		a, err := Analyse(one)
		if err != nil {
			t.Fatalf("%s\n%v", one, err)
		}
		b, err := Analyse(two)
		if err != nil {
			t.Fatalf("%s\n%v", two, err)
		}
		if d := cmpAnalyses(a, b); d != "" {
			t.Fatalf("%s\n----\n%s\n----\n%s", one, two, d)
		}
		checkFixpoint(t, a)
	})
}

// TestMeaningMatters checks that a query with one token replaced is another
// query.
func TestMeaningMatters(t *testing.T) {
	replacements := map[string]string{"keyword": "", "variable": "other", "name": "a:other", "string": "other"}
	rapid.Check(t, func(t *rapid.T) {
		pieces := (&queryGen{t: t}).query()
		i := rapid.IntRange(0, len(pieces)-1).Draw(t, "replaced")
		changed := append([]piece(nil), pieces...)
		changed[i].text = replacements[changed[i].role]
		if changed[i].text == "" {
			t.Skip("changing a keyword or bracket may make the text unreadable")
		}
		a, err := Analyse((&speller{t: t}).spell(pieces))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Analyse((&speller{t: t}).spell(changed))
		if err != nil {
			t.Fatal(err)
		}
		if a.Normal == b.Normal {
			t.Fatalf("piece %d replaced, normal form still %s", i, a.Normal)
		}
	})
}
