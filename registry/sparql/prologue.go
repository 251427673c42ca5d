package sparql

import (
	"strings"
	"unicode/utf8"
)

// prologue is the part before the query form.
type prologue struct {
	items    []*declaration
	prefixes map[string]*declaration // the last declaration of each prefix
	pragma   *Token                  // the first DEFINE, nil if there is none
	dataset  bool                    // a DEFINE names graphs to query, as FROM does
	crawling []string                // the pragmas that start Virtuoso's crawler
	end      int                     // index of the first token after it
}

// declaration is a BASE, PREFIX, VERSION or DEFINE. kept reports whether the normal
// form needs it. Only a PREFIX whose uses were all expanded is not needed.
type declaration struct {
	words     string // as in the normal form, except for a PREFIX
	name, iri string // of a PREFIX
	kept      bool
}

func (d *declaration) text() string {
	if d.iri == "" {
		return d.words
	}
	return "PREFIX " + d.name + " " + d.iri
}

// namespace is the IRI of a PREFIX without its angle brackets.
func (d *declaration) namespace() string { return d.iri[1 : len(d.iri)-1] }

type prologueReader struct {
	text   string
	tokens []Token
	i      int
	out    *prologue
}

func readPrologue(text string, tokens []Token) (*prologue, error) {
	r := &prologueReader{text: text, tokens: tokens, out: &prologue{prefixes: map[string]*declaration{}}}
	for {
		more, err := r.declaration()
		if err != nil {
			return nil, err
		}
		if !more {
			r.out.end = r.i
			return r.out, nil
		}
	}
}

func (r *prologueReader) declaration() (bool, error) {
	t := r.peek(0)
	switch t.keyword() {
	case "BASE":
		return true, r.base()
	case "VERSION":
		return true, r.version()
	case "DEFINE":
		return true, r.define()
	case "PREFIX":
		r.i++
		return true, r.prefix(r.peek(0).Text)
	}
	if name, ok := gluedPrefix(t); ok {
		return true, r.prefix(name)
	}
	return false, nil
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

// peek returns the token n ahead, an empty punctuation at the end.
func (r *prologueReader) peek(n int) Token {
	if r.i+n < len(r.tokens) {
		return r.tokens[r.i+n]
	}
	return Token{Kind: Punct, Pos: len(r.text)}
}

func (r *prologueReader) errorHere(message string) error {
	return syntaxError(r.text, r.peek(0).Pos, "%s", message)
}

func (r *prologueReader) keep(text string) {
	r.out.items = append(r.out.items, &declaration{words: text, kept: true})
}

func (r *prologueReader) base() error {
	r.i++
	if r.peek(0).Kind != IRI {
		return r.errorHere("BASE needs an IRI in angle brackets")
	}
	r.keep("BASE " + r.peek(0).Text)
	r.i++
	return nil
}

func (r *prologueReader) version() error {
	r.i++
	if r.peek(0).Kind != String {
		return r.errorHere("VERSION needs a string")
	}
	r.keep("VERSION " + r.peek(0).canonical())
	r.i++
	return nil
}

func (r *prologueReader) prefix(name string) error {
	t := r.peek(0)
	if t.Kind != Name || strings.IndexByte(name, ':') != len(name)-1 {
		return r.errorHere("PREFIX needs a name that ends with a colon")
	}
	r.i++
	iri := r.peek(0)
	if iri.Kind != IRI {
		return r.errorHere("PREFIX " + shorten(name) + " needs an IRI in angle brackets")
	}
	r.i++
	d := &declaration{name: name, iri: iri.Text}
	r.out.prefixes[name] = d
	r.out.items = append(r.out.items, d)
	return nil
}

// define reads Virtuoso's pragmas, DEFINE input:inference "rules", whose values
// may be a list with commas. Their prefixes are not declared by the query.
func (r *prologueReader) define() error {
	if r.out.pragma == nil {
		t := r.peek(0)
		r.out.pragma = &t
	}
	r.i++
	if k := r.peek(0).Kind; k != Name && k != Word {
		return r.errorHere("DEFINE needs the name of a pragma")
	}
	name := r.peek(0).Text
	if hasPrefixFold(name, []string{"input:default-graph", "input:named-graph"}) {
		r.out.dataset = true
	}
	if crawls(name) {
		r.out.crawling = append(r.out.crawling, name)
	}
	r.i++
	var values []string
	for {
		value, err := r.pragmaValue()
		if err != nil {
			return err
		}
		values = append(values, value)
		if !r.peek(0).is(",") {
			r.keep("DEFINE " + name + " " + strings.Join(values, " , "))
			return nil
		}
		r.i++
	}
}

// pragmaValue keeps a name unchanged, with the prefix that may declare it.
func (r *prologueReader) pragmaValue() (string, error) {
	t := r.peek(0)
	if t.Kind == Punct || t.Kind == Variable {
		return "", r.errorHere("DEFINE needs a value")
	}
	if t.Kind == Name {
		if d := r.out.prefixes[t.Text[:strings.IndexByte(t.Text, ':')+1]]; d != nil {
			d.kept = true
		}
	}
	r.i++
	return t.canonical(), nil
}
