package local

import (
	"regexp"
	"strings"
)

// token finds the next piece of SPARQL text that matters here: comments,
// IRIs, strings, prefixed names and variables are taken as wholes, so that a
// word inside one of them is not mistaken for a keyword.
var token = regexp.MustCompile("(?s)" + strings.Join([]string{
	`(#[^\n]*)`,                // 1 comment
	"(<[^<>\"{}|^`\\\\\\s]*>)", // 2 IRI
	`("""(?:"{0,2}(?:[^"\\]|\\.))*"""|'''(?:'{0,2}(?:[^'\\]|\\.))*'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')`, // 3 string
	`([?$]\w+|@[A-Za-z][\w-]*)`,       // 4 variable, language tag
	`([\pL\pN_.-]*:[\pL\pN_.:%\\-]*)`, // 5 prefixed name, blank node
	`([A-Za-z]\w*)`,                   // 6 word
	`(\[)`,                            // 7 anonymous blank node
}, "|"))

const (
	tokenIRI   = 2
	tokenName  = 5
	tokenWord  = 6
	tokenBlank = 7
)

// tokens calls visit with the kind and text of each piece until it returns false.
func tokens(text string, visit func(kind int, piece string) bool) {
	for len(text) > 0 {
		m := token.FindStringSubmatchIndex(text)
		if m == nil {
			return
		}
		for kind := 1; kind <= tokenBlank; kind++ {
			if m[2*kind] >= 0 && !visit(kind, text[m[2*kind]:m[2*kind+1]]) {
				return
			}
		}
		text = text[m[1]:]
	}
}

// queryForm returns SELECT, ASK, CONSTRUCT or DESCRIBE, or "" when the text has
// none of these words where a query has one.
func queryForm(text string) (form string) {
	tokens(text, func(kind int, piece string) bool {
		if kind != tokenWord {
			return true
		}
		switch word := strings.ToUpper(piece); word {
		case "SELECT", "ASK", "CONSTRUCT", "DESCRIBE":
			form = word
			return false
		}
		return true
	})
	return form
}

// hiddenCall finds calls in what looks like an IRI but may be a comparison
// written without spaces, as in ?a<?b&&NOW()>?c.
var hiddenCall = regexp.MustCompile(`(?i)\b(now|rand|uuid|struuid|bnode)\s*\(\s*\)`)

// mentions tells whether any of the words occurs as a bare word.
func mentions(text string, words ...string) (found bool) {
	tokens(text, func(kind int, piece string) bool {
		switch kind {
		case tokenWord:
			for _, w := range words {
				found = found || strings.EqualFold(piece, w)
			}
		case tokenIRI:
			found = found || hiddenCall.MatchString(piece)
		}
		return !found
	})
	return found
}

// volatile tells whether a query may answer differently on the same data.
func volatile(query string) bool {
	if mentions(query, "NOW", "RAND", "UUID", "STRUUID", "BNODE", "SERVICE") {
		return true
	}
	if queryForm(query) != "CONSTRUCT" {
		return false
	}
	blank := false // a template with blank nodes makes new ones each time
	tokens(query, func(kind int, piece string) bool {
		blank = kind == tokenBlank || kind == tokenName && strings.HasPrefix(piece, "_:")
		return !blank
	})
	return blank
}

// repeatable tells whether an update, run again on the same data, does the
// same, up to the labels of blank nodes. Whatever draws on the clock, on
// chance, on another service or, through a subquery, on the order of solutions
// is not; in doubt it is not.
func repeatable(update string) bool {
	return !mentions(update, "NOW", "RAND", "UUID", "STRUUID", "BNODE", "SERVICE", "SELECT", "LOAD")
}
