package sparql

import (
	"slices"
	"strings"
)

// Declare adds declarations to a query for those of its undeclared prefixes that are in
// prefixes, which maps names such as "wd:" to IRIs; nil means a few well-known ones. They are
// added before the query form, so that comments and pragmas stay first. Any other text stays
// as it is.
func Declare(text string, prefixes map[string]string) string {
	if prefixes == nil {
		prefixes = usualPrefixes
	}
	p, body, err := read(text)
	if err != nil {
		return text
	}
	at := body[0].Pos
	undeclared, err := expand(text, slices.Clone(body), p)
	if err != nil {
		return text
	}
	var added strings.Builder
	for _, t := range undeclared {
		if iri, ok := prefixes[t.Text]; ok {
			added.WriteString("PREFIX " + t.Text + " <" + iri + ">\n")
		}
	}
	return text[:at] + added.String() + text[at:]
}
