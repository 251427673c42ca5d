package merge

import (
	"strconv"
	"strings"
)

// Query returns the text that asks for all members at once. Each member is its
// arguments, as Parse returned them. A parameter for which all members have
// the same argument is written as a constant.
func (t *Template) Query(members [][]string) string { return t.query(t.writer(members), t.dataset) }

// query writes a merged query with FROM clauses.
func (t *Template) query(w *writer, dataset []part) string {
	switch t.Form {
	case "ASK":
		w.words("SELECT DISTINCT", w.number)
	case "CONSTRUCT":
		w.words("SELECT DISTINCT", w.number)
		for _, v := range t.Vars {
			w.words("?" + v)
		}
	default:
		w.words("SELECT")
		if t.distinct {
			w.words("DISTINCT")
		}
		w.words(w.number)
		w.parts(t.projection)
	}
	w.parts(dataset)
	w.words("WHERE {")
	w.values()
	w.parts(t.pattern)
	w.words("}")
	if len(t.groupBy) > 0 || t.single {
		w.words("GROUP BY", w.number)
		w.parts(t.groupBy)
	}
	if len(t.having) > 0 {
		w.words("HAVING")
		w.parts(t.having)
	}
	if t.Ordered {
		w.words("ORDER BY", w.number)
		w.parts(t.orderBy)
	}
	w.parts(t.slice)
	return w.String()
}

type writer struct {
	strings.Builder
	function bool     // the last token is a keyword or function
	number   string   // the variable of a member's number
	params   []string // the variable or the common term of each parameter
	varying  []int    // the parameters that are variables
	members  [][]string
}

func (t *Template) writer(members [][]string) *writer {
	w := &writer{number: t.fresh("i"), params: make([]string, t.Parameters), members: members}
	for p := range w.params {
		w.params[p] = members[0][p]
		for _, m := range members[1:] {
			if m[p] != members[0][p] {
				w.params[p] = t.fresh("p" + strconv.Itoa(p))
				w.varying = append(w.varying, p)
				break
			}
		}
	}
	return w
}

// fresh returns a variable that the query does not use.
func (t *Template) fresh(name string) string {
	v := "?" + name
	for t.names[v] {
		v += "_"
	}
	return v
}

// words writes tokens with a space between two of them, except between a
// function and its arguments: some parsers do not accept one there.
func (w *writer) words(list ...string) {
	for _, s := range list {
		if w.Len() > 0 && !(s == "(" && w.function) {
			w.WriteByte(' ')
		}
		w.WriteString(s)
		w.function = isWord(s) && s != "a"
	}
}

func (w *writer) parts(list []part) {
	for _, p := range list {
		if p.param < 0 {
			w.words(p.text)
		} else {
			w.words(w.params[p.param])
		}
	}
}

// values writes the block that binds each member's number and arguments.
func (w *writer) values() {
	w.words("VALUES (", w.number)
	for _, p := range w.varying {
		w.words(w.params[p])
	}
	w.words(") {")
	for i, m := range w.members {
		w.words("(", strconv.Itoa(i))
		for _, p := range w.varying {
			w.words(m[p])
		}
		w.words(")")
	}
	w.words("}")
}

// isWord reports whether t consists of letters and underscores: a keyword, a
// function, or a word of a dialect.
func isWord(t string) bool {
	for _, c := range t {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return t[0] > '9'
}
