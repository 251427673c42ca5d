package diff

import "bytes"

// RowTerms parses a canonical row: one term for each of vars for SELECT;
// subject, predicate and object for graphs. The terms of a row that is not
// canonical are unbound.
func RowTerms(form Form, vars []string, row []byte) []Term {
	if form.Graph() {
		t, err := parseLine(string(row))
		if err != nil {
			return make([]Term, 3)
		}
		return t[:]
	}
	out := make([]Term, len(vars))
	next := 0
	eachBinding(row, func(name, term []byte) {
		key, ok := unescape(nil, name)
		for i := next; ok && i < len(vars); i++ {
			if vars[i] == string(key) {
				out[i], next = parseTerm(term), i+1
				return
			}
		}
	})
	return out
}

// eachBinding calls f with the raw name and the term object of each binding of
// a canonical row. It stops where the row is not canonical.
func eachBinding(row []byte, f func(name, term []byte)) {
	if len(row) < 2 || row[0] != '{' {
		return
	}
	for i := 1; i < len(row) && row[i] == '"'; i++ {
		n := stringEnd(row, i+1)
		if n < 0 || n+2 >= len(row) || row[n+1] != ':' || row[n+2] != '{' {
			return
		}
		name, from := row[i+1:n], n+2
		to := termEnd(row, from)
		if to < 0 {
			return
		}
		f(name, row[from:to])
		i = to // at the comma or the end of the row
	}
}

// termEnd returns the index after the term object at i, or -1.
func termEnd(b []byte, i int) int {
	for i++; i < len(b) && b[i] == '"'; i++ {
		n := stringEnd(b, i+1)
		if n < 0 || n+2 >= len(b) || b[n+1] != ':' || b[n+2] != '"' {
			return -1
		}
		if i = stringEnd(b, n+3); i < 0 {
			return -1
		}
		if i++; i < len(b) && b[i] == '}' {
			return i + 1
		}
	}
	return -1
}

// parseTerm reads a canonical term object.
func parseTerm(b []byte) (t Term) {
	for i := 1; i < len(b) && b[i] == '"'; {
		n := stringEnd(b, i+1)
		if n < 0 || n+3 > len(b) {
			return Term{}
		}
		m := stringEnd(b, n+3)
		if m < 0 {
			return Term{}
		}
		v, ok := unescape(nil, b[n+3:m])
		if !ok {
			return Term{}
		}
		setMember(&t, string(b[i+1:n]), string(v))
		i = m + 2
	}
	return t
}

func setMember(t *Term, name, v string) {
	switch name {
	case "type":
		t.Kind = kindOf([]byte(v))
	case "value":
		t.Value = v
	case "xml:lang":
		t.Lang = v
	case "datatype":
		t.Datatype = v
	}
}

func kindOf(typ []byte) Kind {
	switch string(typ) {
	case "uri":
		return IRI
	case "literal", "typed-literal":
		return Literal
	case "bnode":
		return Blank
	}
	return Unbound
}

// AppendTerm appends the canonical JSON of a term in normal form.
func AppendTerm(dst []byte, t Term) []byte {
	dst = append(dst, termPrefix(t.Kind)...)
	dst = appendEscaped(dst, t.Value)
	return appendTermSuffix(dst, t.Lang, t.Datatype)
}

func termPrefix(k Kind) string {
	switch k {
	case IRI:
		return `{"type":"uri","value":"`
	case Blank:
		return blankPrefix
	}
	return `{"type":"literal","value":"`
}

// blankPrefix cannot occur inside a JSON string, where quotes are escaped.
const blankPrefix = `{"type":"bnode","value":"`

func appendTermSuffix[S string | []byte](dst []byte, lang, datatype S) []byte {
	switch {
	case len(lang) > 0:
		dst = append(dst, `","xml:lang":"`...)
		dst = appendEscaped(dst, lang)
	case len(datatype) > 0:
		dst = append(dst, `","datatype":"`...)
		dst = appendEscaped(dst, datatype)
	}
	return append(dst, `"}`...)
}

// splitRows splits the content of a bindings array into rows. Every row except
// the empty one ends with a closing quote and two braces. Inside a string that
// quote is escaped; only the opening quote of a value that begins with two
// braces looks the same.
func splitRows(b []byte, base int) ([]span, error) {
	var out []span
	for i := 0; i < len(b); {
		end, err := rowEnd(b, i)
		if err != nil {
			return nil, err
		}
		out = append(out, span{base + i, base + end})
		if end == len(b) {
			return out, nil
		}
		if b[end] != ',' || end+1 == len(b) {
			return nil, malformed("no comma between rows")
		}
		i = end + 1
	}
	return out, nil
}

// opens reports whether the structural quote b[j] begins a member's value: then
// the closing quote of the member's name is two bytes before it. That quote in
// turn may be the opening one of the value ":", which follows a colon.
func opens(b []byte, j int) bool {
	return j > 2 && b[j-1] == ':' && b[j-2] == '"' && b[j-3] != ':' && !escapedAt(b, j-2)
}

func rowEnd(b []byte, i int) (int, error) {
	if bytes.HasPrefix(b[i:], []byte("{}")) {
		return i + 2, nil
	}
	if b[i] != '{' {
		return 0, malformed("row is not an object")
	}
	for j := i + 1; ; {
		k := bytes.Index(b[j:], []byte(`"}}`))
		if k < 0 {
			return 0, malformed("row without an end")
		}
		if j += k; !escapedAt(b, j) && !opens(b, j) {
			return j + 3, nil
		}
		j++
	}
}
