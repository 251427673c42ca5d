package sparql

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// prologue is the part before the query form.
type prologue struct {
	items    []*declaration
	prefixes map[string]*declaration // the last declaration of each prefix
	pragma   *Token                  // the first DEFINE, prefix of an option or comment that is a pragma, nil if there is none
	comments string                  // before and in it that are pragmas
	dataset  bool                    // a DEFINE names graphs to query, as FROM does
	crawling []string                // the pragmas that start Virtuoso's crawler
	end      int                     // index of the first token after it
}

// options begin the prefixes by which AllegroGraph and Oracle take options of a query
// (https://franz.com/agraph/support/documentation/7.2.0/namespaces-query-options.html, and
// "Additions to the SPARQL Syntax" in Oracle's guide to RDF graphs).
var options = []string{"franzOption_", "ORACLE_SEM_"}

// declaration is a BASE, PREFIX, VERSION or DEFINE. kept reports whether the normal
// form needs it. Only a PREFIX that is no option and whose uses were all expanded is not needed.
type declaration struct {
	text      string // as in the normal form
	namespace string // of a PREFIX
	kept      bool
}

type prologueReader struct {
	prologue
	text   string
	tokens []Token
}

func readPrologue(text string, tokens []Token) (*prologue, error) {
	r := &prologueReader{prologue{prefixes: map[string]*declaration{}}, text, tokens}
	for {
		t := r.peek()
		var err error
		switch name, glued := gluedPrefix(t); {
		case t.keyword() == "BASE":
			err = r.simple(IRI, "BASE needs an IRI in angle brackets")
		case t.keyword() == "VERSION":
			err = r.simple(String, "VERSION needs a string")
		case t.keyword() == "DEFINE":
			err = r.define()
		case t.keyword() == "PREFIX":
			r.end++
			err = r.prefix(r.peek().Text)
		case glued:
			err = r.prefix(name)
		default:
			return &r.prologue, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// gluedPrefix returns the name in PREFIX:<…> or PREFIXp:<…>, which is lexed as
// one prefixed name but can only be a declaration here.
func gluedPrefix(t Token) (string, bool) {
	if t.Kind != Name || !strings.HasPrefix(upperASCII(t.Text), "PREFIX") {
		return "", false
	}
	name := t.Text[len("PREFIX"):]
	r, _ := utf8.DecodeRuneInString(name)
	return name, r == ':' || r != '_' && isNameStart(r)
}

// peek returns the next token, an empty punctuation at the end.
func (r *prologueReader) peek() Token {
	if r.end < len(r.tokens) {
		return r.tokens[r.end]
	}
	return Token{Kind: Punct, Pos: len(r.text)}
}

// expect returns the next token if it is of one of the kinds, otherwise an error.
func (r *prologueReader) expect(message string, kinds ...Kind) (Token, error) {
	t := r.peek()
	if !slices.Contains(kinds, t.Kind) {
		return t, syntaxError(r.text, t.Pos, "%s", message)
	}
	r.end++
	return t, nil
}

// simple reads a declaration with one value.
func (r *prologueReader) simple(k Kind, message string) error {
	word := r.peek().keyword()
	r.end++
	t, err := r.expect(message, k)
	r.items = append(r.items, &declaration{text: word + " " + t.canonical(), kept: true})
	return err
}

func (r *prologueReader) prefix(name string) error {
	const message = "PREFIX needs a name that ends with a colon"
	if _, err := r.expect(message, Name); err != nil {
		return err
	}
	if strings.IndexByte(name, ':') != len(name)-1 {
		return syntaxError(r.text, r.tokens[r.end-1].Pos, message)
	}
	iri, err := r.expect("PREFIX "+shorten(name)+" needs an IRI in angle brackets", IRI)
	if err != nil {
		return err
	}
	option := hasPrefixFold(name, options)
	if option && r.pragma == nil {
		r.pragma = &Token{Kind: Name, Text: name, Pos: r.tokens[r.end-2].Pos}
	}
	d := &declaration{text: "PREFIX " + name + " " + iri.Text, namespace: iri.Text[1 : len(iri.Text)-1], kept: option}
	r.prefixes[name] = d
	r.items = append(r.items, d)
	return nil
}

// define reads Virtuoso's pragmas, DEFINE input:inference "rules", whose values
// may be a list with commas. Their prefixes are not declared by the query: a name stays
// unchanged, with the prefix that may declare it.
func (r *prologueReader) define() error {
	if r.pragma == nil {
		t := r.peek()
		r.pragma = &t
	}
	r.end++
	t, err := r.expect("DEFINE needs the name of a pragma", Name, Word)
	if err != nil {
		return err
	}
	r.dataset = r.dataset || hasPrefixFold(t.Text, []string{"input:default-graph", "input:named-graph"})
	if crawls(t.Text) {
		r.crawling = append(r.crawling, t.Text)
	}
	var text strings.Builder
	text.WriteString("DEFINE " + t.Text)
	for separator := " "; ; separator = " , " {
		v, err := r.expect("DEFINE needs a value", Word, IRI, Name, BlankNode, String, LangTag, Number, SolutionSet)
		if err != nil {
			return err
		}
		if v.Kind == Name {
			if d := r.prefixes[v.Text[:strings.IndexByte(v.Text, ':')+1]]; d != nil {
				d.kept = true
			}
		}
		text.WriteString(separator + v.canonical())
		if !r.peek().is(",") {
			r.items = append(r.items, &declaration{text: text.String(), kept: true})
			return nil
		}
		r.end++
	}
}
