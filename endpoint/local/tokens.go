package local

import (
	"regexp"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry/sparql"
)

// queryForm returns SELECT, ASK, CONSTRUCT or DESCRIBE, or "" when the text has
// none of these words where a query has one.
func queryForm(text string) string {
	tokens, _ := sparql.Tokens(text)
	for _, t := range tokens {
		if t.Kind != sparql.Word {
			continue
		}
		switch word := strings.ToUpper(t.Text); word {
		case "SELECT", "ASK", "CONSTRUCT", "DESCRIBE":
			return word
		}
	}
	return ""
}

// hiddenCall finds calls in what looks like an IRI but may be a comparison
// written without spaces, as in ?a<?b&&NOW()>?c.
var hiddenCall = regexp.MustCompile(`(?i)\b(now|rand|uuid|struuid|bnode)\s*\(\s*\)`)

// mentions reports whether any of the words occurs as a bare word, or the text cannot be read.
func mentions(text string, words ...string) bool {
	tokens, err := sparql.Tokens(text)
	return err != nil || slices.ContainsFunc(tokens, func(t sparql.Token) bool {
		return t.Kind == sparql.Word && slices.Contains(words, strings.ToUpper(t.Text)) || t.Kind == sparql.IRI && hiddenCall.MatchString(t.Text)
	})
}

// volatile reports whether the answer to a query may differ on the same data.
func volatile(query string) bool {
	if mentions(query, "NOW", "RAND", "UUID", "STRUUID", "BNODE", "SERVICE") {
		return true
	}
	tokens, _ := sparql.Tokens(query)
	return queryForm(query) == "CONSTRUCT" && slices.ContainsFunc(tokens, func(t sparql.Token) bool {
		return t.Text == "[" || t.Kind == sparql.BlankNode // a template makes new ones each time
	})
}

// repeatable reports whether an update has the same effect when it is run again on the
// same data, up to the labels of blank nodes. An update that depends on the clock, on
// randomness, on another service or, through a subquery, on the order of solutions is
// not repeatable. In doubt the answer is false.
func repeatable(update string) bool {
	return !mentions(update, "NOW", "RAND", "UUID", "STRUUID", "BNODE", "SERVICE", "SELECT", "LOAD")
}
