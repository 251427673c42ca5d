package ui

import (
	"html/template"
	"strings"

	"github.com/freshet/freshet/registry/sparql"
)

// highlight renders a query text with its keywords, variables, IRIs, literals and
// comments in spans. It accepts any text, valid SPARQL or not: what cannot be read stays
// plain, and everything is escaped.
func highlight(text string) template.HTML {
	var b strings.Builder
	b.Grow(len(text) * 2)
	at := 0
	write := func(class string, end int) {
		s := template.HTMLEscapeString(text[at:end])
		if class != "" && s != "" {
			s = `<span class="` + class + `">` + s + `</span>`
		}
		b.WriteString(s)
		at = end
	}
	tokens, err := sparql.Tokens(text)
	for _, t := range append(tokens, sparql.Token{Kind: sparql.Punct, Pos: len(text), End: len(text)}) {
		for at < t.Pos && err == nil { // white space and comments
			comment := strings.IndexByte(text[at:t.Pos], '#')
			if comment < 0 {
				break
			}
			write("", at+comment)
			end := strings.IndexAny(text[at:t.Pos], "\r\n")
			if end < 0 {
				end = t.Pos - at
			}
			write("c", at+end)
		}
		write("", t.Pos)
		write(class(t), t.End)
	}
	return template.HTML(b.String())
}

// class returns the class of a token's span.
func class(t sparql.Token) string {
	switch {
	case t.Kind == sparql.IRI:
		return "i"
	case t.Kind == sparql.Variable:
		return "v"
	case t.Kind == sparql.String, t.Kind == sparql.Number, t.Kind == sparql.Word && (t.Text == "true" || t.Text == "false"):
		return "s"
	case t.Kind == sparql.Word && t.Keyword():
		return "k"
	}
	return ""
}
