package sparql

import (
	"cmp"
	"strings"
)

// Analysis is the result of analysing a query text.
type Analysis struct {
	Form   string // SELECT, ASK, CONSTRUCT or DESCRIBE
	Normal string // the normal form, see the package comment

	Ordered       bool     // ORDER BY at top level: the sequence of rows is part of the result
	OrderKeys     []string // the variables of ORDER BY if all its conditions are plain variables, else nil
	Limit, Offset int64    // at top level, -1 if there is none

	Distinct bool
	Star     bool     // SELECT * or DESCRIBE *
	HasFrom  bool     // FROM or FROM NAMED, or Virtuoso's pragmas for them: the query names its own dataset
	Pragmas  bool     // Virtuoso's DEFINE, the prefix of an option, or a comment "#pragma …"
	Vars     []string // projected variables of a SELECT without *; unnamed columns are left out
	Unnamed  bool     // the endpoint names a projected column: an expression without AS, or a variable that is projected twice

	Services         []string // targets of SERVICE, in the normal form's spelling, each once
	SideEffects      []string // what makes Virtuoso fetch, send or write, as written; see sideeffects.go
	NonDeterministic []string // NOW, RAND, UUID, STRUUID, BNODE, each once

	// Constants are the absolute IRIs of patterns (filters included), templates,
	// VALUES and DESCRIBE, sorted, each once. They exclude functions, datatypes,
	// FROM, SERVICE, the keyword a, relative IRIs and names of undeclared
	// prefixes.
	Constants []string

	Warnings []Warning
}

// Analyse analyses the text of one query. The error is ErrUpdate for SPARQL
// Update and a *SyntaxError for a text that cannot be a query. An endpoint may
// still refuse other texts: Analyse checks brackets and clauses but not the
// whole grammar, and accepts dialects. It takes time linear in the text, never
// panics, and is safe for concurrent use.
func Analyse(text string) (*Analysis, error) {
	p, body, err := read(text)
	if err != nil {
		return nil, err
	}
	undeclared, err := expand(text, body, p)
	if err != nil {
		return nil, err
	}
	x := &analyser{treeReader: parse(p, body), text: text}
	if err := x.run(); err != nil {
		return nil, err
	}
	a := x.analysis()
	a.HasFrom = a.HasFrom || p.dataset
	a.SideEffects = append(p.crawling, a.SideEffects...)
	if a.Normal = normalForm(p, body); len(a.Normal) > MaxText {
		return nil, tooLong(text)
	}
	a.Warnings = x.warnings(a, p, undeclared)
	return a, nil
}

// read returns the prologue and the body of one query.
func read(text string) (*prologue, []Token, error) {
	if len(text) > MaxText {
		return nil, nil, syntaxError(text, 0, "the query is %d bytes long, more than the %d that are accepted", len(text), MaxText)
	}
	tokens, lexical := Tokens(text) // those before an error distinguish an update from a broken query
	p, err := readPrologue(text, tokens)
	if p != nil && p.end < len(tokens) && startsUpdate(tokens[p.end:]) {
		return nil, nil, ErrUpdate
	}
	if err = cmp.Or(lexical, err); err != nil {
		return nil, nil, err
	}
	var comments strings.Builder
	for i, t := range tokens {
		if c, _, ok := strings.Cut(t.Pragmas, "\n"); ok && p.pragma == nil {
			p.pragma = &Token{Kind: Word, Text: c, Pos: t.Pos}
		}
		if i < p.end {
			comments.WriteString(t.Pragmas)
		}
	}
	p.comments = comments.String()
	body := tokens[p.end:]
	if len(body) == 0 || !queryForms[body[0].keyword()] {
		return nil, nil, noForm(text, body)
	}
	return p, body, nil
}

// startsUpdate recognises an update by its first word. WITH begins an update
// too, never a query.
func startsUpdate(body []Token) bool {
	w := body[0].keyword()
	return updateWords[w] || w == "WITH"
}

func noForm(text string, body []Token) error {
	const expected = "a query begins with SELECT, ASK, CONSTRUCT or DESCRIBE"
	if len(body) == 0 {
		return syntaxError(text, len(text), "%s, but the text ends here", expected)
	}
	return syntaxError(text, body[0].Pos, "%s, not with %q", expected, shorten(body[0].Text))
}
