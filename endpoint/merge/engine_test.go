package merge

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/knakk/rdf"
)

// engine returns an embedded engine with data, N-Triples.
func engine(t testing.TB, data string) *local.Engine {
	t.Helper()
	if _, err := local.FindEngine(""); err != nil {
		if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), "engine") {
			t.Fatal("the part engine is required and missing")
		}
		t.Skip(`SKIP-PART engine: run "make deps"`)
	}
	e, err := local.Open(context.Background(), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if err := e.Load(context.Background(), strings.NewReader(data), "nt"); err != nil {
		t.Fatal(err)
	}
	return e
}

// asker runs queries and decodes their answers.
type asker func(text string, form diff.Form, o diff.Options) (*diff.Result, error)

func ask(e *local.Engine) asker {
	return func(text string, form diff.Form, o diff.Options) (*diff.Result, error) {
		format := "json"
		if form.Graph() {
			format = "nt"
		}
		body, err := e.Query(context.Background(), text, format, nil, nil)
		if err != nil {
			return nil, err
		}
		if !form.Graph() {
			return diff.DecodeJSON(body, form, o)
		}
		return graph(string(body), o)
	}
}

func graph(text string, o diff.Options) (*diff.Result, error) {
	b := diff.NewBuilder(diff.Construct, o)
	d := rdf.NewTripleDecoder(strings.NewReader(text), rdf.NTriples)
	for {
		t, err := d.Decode()
		if err == io.EOF {
			return b.Finish()
		}
		if err == nil {
			err = b.Triple(termOf(t.Subj), termOf(t.Pred), termOf(t.Obj))
		}
		if err != nil {
			return nil, err
		}
	}
}

func termOf(t rdf.Term) diff.Term {
	switch t := t.(type) {
	case rdf.IRI:
		return diff.Term{Kind: diff.IRI, Value: t.String()}
	case rdf.Blank:
		return diff.Term{Kind: diff.Blank, Value: t.String()}
	case rdf.Literal:
		return diff.Term{Kind: diff.Literal, Value: t.String(), Datatype: t.DataType.String(), Lang: t.Lang()}
	}
	return diff.Term{}
}

// cohort is queries of one template.
type cohort struct {
	template *Template
	texts    []string
	members  [][]string
}

// cohorts groups the queries that can be merged by template.
func cohorts(t testing.TB, texts []string, ignored Reason) (list []*cohort, refused map[Reason]int) {
	t.Helper()
	byID := map[string]*cohort{}
	refused = map[Reason]int{}
	for _, text := range texts {
		a, err := sparql.Analyse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		tpl, args, err := parse(a, ignored)
		var r *Refusal
		if errors.As(err, &r) {
			refused[r.Reason]++
			continue
		}
		c := byID[tpl.ID]
		if c == nil {
			c = &cohort{template: tpl}
			byID[tpl.ID] = c
			list = append(list, c)
		}
		c.texts, c.members = append(c.texts, text), append(c.members, args)
	}
	return list, refused
}

// differences asks a cohort both ways. It returns a description of each member
// whose answers differ, and the number of members that were compared.
func (c *cohort) differences(t testing.TB, ask asker) (found []string, compared int) {
	t.Helper()
	singles := make([]*diff.Result, len(c.texts))
	for i, text := range c.texts {
		o := diff.Options{Ordered: c.template.Ordered, OrderKeys: c.template.OrderKeys}
		var err error
		if singles[i], err = ask(text, c.template.Form, o); err != nil {
			return nil, 0 // not a query: the generator does not know the whole grammar
		}
	}
	merged, err := ask(c.template.Query(c.members), mergedForm, c.template.Options(diff.Options{}))
	if err != nil {
		return []string{fmt.Sprintf("%v for %s", err, c.template.Query(c.members))}, 0
	}
	found = c.probeDifferences(t, ask, singles)
	answers, err := c.template.Split(merged, c.members, func(m int) diff.Options { return diff.Options{Vars: singles[m].Vars()} })
	if err != nil {
		return []string{err.Error()}, 0
	}
	for i, a := range answers {
		if errors.Is(a.Err, ErrInexact) || errors.Is(a.Err, ErrTies) {
			continue
		}
		compared++
		if a.Err != nil || diff.Compare(singles[i], a.Result) != nil || a.Result.Hash() != singles[i].Hash() {
			found = append(found, fmt.Sprintf("%s\nmerged as %s\nanswers %v %s\ninstead of %s", c.texts[i], c.template.Query(c.members), a.Err, a.Result.Document(), singles[i].Document()))
		}
	}
	return found, compared
}

const mergedForm = diff.Select

// probeDifferences asks for the digests of a cohort. It returns a description
// of each member whose digest is not the one of its result.
func (c *cohort) probeDifferences(t testing.TB, ask asker, singles []*diff.Result) (found []string) {
	t.Helper()
	if !c.template.Probes() {
		return nil
	}
	probe, err := ask(c.template.Probe(c.members), diff.Select, diff.Options{})
	if err != nil {
		return []string{fmt.Sprintf("%v for %s", err, c.template.Probe(c.members))}
	}
	digests, known, err := c.template.Digests(probe, len(c.members))
	if err != nil {
		return []string{err.Error()}
	}
	for i, r := range singles {
		want, ok := c.template.Digest(r)
		if ok != known[i] || ok && want != digests[i] {
			found = append(found, fmt.Sprintf("%s\nprobed as %s\ndigest %v %v\ninstead of %v %v", c.texts[i], c.template.Probe(c.members), digests[i], known[i], want, ok))
		}
	}
	return found
}

var seed = flag.Uint64("merge.seed", 1, "seed of the random queries")

// Random queries over random data have the same answers merged and alone.
func TestExact(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 0))
	compared, members := exact(t, r, 30, "")
	t.Logf("seed %d: %d answers compared, %d of them in cohorts of several", *seed, compared, members)
	if members < 1000 {
		t.Errorf("only %d answers of merged queries were compared", members)
	}
}

func exact(t *testing.T, r *rand.Rand, rounds int, ignored Reason) (compared, several int) {
	t.Helper()
	e := engine(t, "")
	for range rounds {
		if err := e.Update(context.Background(), "CLEAR ALL; INSERT DATA {"+randomData(r)+"}"); err != nil {
			t.Fatal(err)
		}
		for range 30 {
			list, _ := cohorts(t, randomQueries(r, 8), ignored)
			for _, c := range list {
				found, n := c.differences(t, ask(e))
				compared += n
				if len(c.members) > 1 {
					several += n
				}
				if len(found) > 0 {
					t.Fatalf("%d of %d answers differ; the first:\n%s", len(found), len(c.members), found[0])
				}
			}
		}
	}
	return compared, several
}

// node, predicate and value draw terms of a small vocabulary, so that patterns
// often match.
func node(r *rand.Rand) string       { return fmt.Sprintf("<http://x/n%d>", r.IntN(6)) }
func predicate1(r *rand.Rand) string { return fmt.Sprintf("<http://x/%c>", 'p'+rune(r.IntN(3))) }

func value(r *rand.Rand) string {
	literals := []string{`"ä€𝄞"`, `"2020-01-01"^^<http://www.w3.org/2001/XMLSchema#date>`, `"a"`, `"b"@en`, `"b"@EN`, `"b"`, `1`, `01`, `1.0`, `"1"`, `true`, `"q\"\\\n"`, `""`}
	if r.IntN(3) > 0 {
		return node(r)
	}
	return literals[r.IntN(len(literals))]
}

func randomData(r *rand.Rand) string {
	var b strings.Builder
	for range 30 {
		s, o := node(r), value(r)
		if r.IntN(12) == 0 {
			s = fmt.Sprintf("_:b%d", r.IntN(3))
		}
		if r.IntN(12) == 0 {
			o = fmt.Sprintf("_:b%d", r.IntN(3))
		}
		fmt.Fprintf(&b, "%s %s %s . ", s, predicate1(r), o)
	}
	for range 6 {
		fmt.Fprintf(&b, "%s a %s . ", node(r), node(r))
	}
	return b.String()
}

// generator writes one random query with placeholders for constants.
type generator struct {
	*rand.Rand
	strings.Builder
	holes, blanks int
}

// randomQueries returns variants of one random query with other constants.
func randomQueries(r *rand.Rand, variants int) []string {
	g := &generator{Rand: r}
	g.query()
	list := make([]string, 0, variants)
	for range variants {
		text := g.String()
		for h := range g.holes {
			term := node(r)
			if !strings.Contains(text, fmt.Sprintf("$S%d$", h)) {
				term = value(r)
			}
			text = strings.ReplaceAll(text, fmt.Sprintf("$O%d$", h), term)
			text = strings.ReplaceAll(text, fmt.Sprintf("$S%d$", h), term)
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

// hole is a constant that differs between variants; object holes may be
// literals.
func (g *generator) hole(kind string) string {
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
	g.group(3)
	g.write("%s", tail)
}

// group writes a group graph pattern of at most the given depth.
func (g *generator) group(depth int) {
	g.write("{ ")
	if depth == 3 || depth == 0 || g.IntN(4) > 0 {
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
	switch g.IntN(9) {
	case 0, 1:
		g.write("OPTIONAL ")
		g.group(depth - 1)
	case 2:
		g.group(depth - 1)
		g.write("UNION ")
		g.group(depth - 1)
	case 3:
		g.write("FILTER %s EXISTS ", g.pick("", "NOT"))
		g.group(0)
	case 4:
		g.write("MINUS ")
		g.group(0)
	case 5:
		g.write("FILTER(%s %s %s) ", g.variable(), g.pick("=", "!=", "<"), g.hole("O"))
	case 6:
		g.group(depth - 1)
	case 7:
		g.write("{ SELECT %s?a ?b ", g.pick("", "DISTINCT "))
		g.group(0)
		g.write("} ")
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
	return g.pick(g.variable(), g.variable(), g.hole("O"), g.hole("S"))
}

func (g *generator) path() string {
	p := predicate1(g.Rand)
	return g.pick(p, p, p, p, "?"+g.pick("k", "a"), "^"+p, p+"/"+predicate1(g.Rand), p+"|"+predicate1(g.Rand), p+"+", p+"*", "("+p+"?)")
}
