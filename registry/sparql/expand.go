package sparql

import "strings"

// expand replaces the prefixed names of the body by IRIs, in place, and returns
// the undeclared prefixes in the order of first use. It keeps a name, and the
// declaration of its prefix, if joining the namespace and the local name might
// give another IRI than the endpoint gets: if the namespace is relative, or if
// there are dot segments, which are resolved in an IRI but not in a name.
func expand(text string, body []Token, p *prologue) (undeclared []Token, err error) {
	var seen map[string]bool
	size := 0
	for i := range body {
		t := &body[i]
		if t.Kind == Name {
			name := t.Text[:strings.IndexByte(t.Text, ':')+1]
			switch d := p.prefixes[name]; {
			case d != nil:
				expandName(t, d, len(name))
			case !seen[name]:
				if seen == nil {
					seen = map[string]bool{}
				}
				seen[name] = true
				undeclared = append(undeclared, Token{Kind: Word, Text: name, Pos: t.Pos})
			}
		}
		if size += len(t.Text); size > MaxText {
			return nil, tooLong(text)
		}
	}
	return undeclared, nil
}

func tooLong(text string) error {
	return syntaxError(text, 0, "the query is more than %d bytes long once its prefixes are expanded", MaxText)
}

func expandName(t *Token, d *declaration, colon int) {
	expanded := "<" + d.namespace + unescapeLocal(t.Text[colon:]) + ">"
	if schemeLen(d.namespace) == 0 || hasDotSegment(d.namespace) || hasDotSegment(expanded[1:len(expanded)-1]) {
		d.kept, t.Own = true, true
		return
	}
	t.Kind, t.Text = IRI, expanded
}

func hasDotSegment(iri string) bool {
	return strings.Contains(iri, "/./") || strings.Contains(iri, "/../") ||
		strings.HasSuffix(iri, "/.") || strings.HasSuffix(iri, "/..") ||
		strings.Contains(iri, "/.?") || strings.Contains(iri, "/..?") ||
		strings.Contains(iri, "/.#") || strings.Contains(iri, "/..#")
}

// unescapeLocal removes the backslashes of a local name: \, is a comma.
func unescapeLocal(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
