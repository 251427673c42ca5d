package trial

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file reads results only with the standard library, so that the tested code does not check
// itself. A row becomes a text that is the same for equal rows and different for others.

// An answer is a result as rows: sorted texts, or for an ordered one the
// sequence.
type answer struct {
	rows  []string
	blank bool // some row has a blank node, named by its description
}

// A shape says how to read the results of one question.
type shape struct {
	form    string
	ordered bool
	keys    []string // ORDER BY variables, if rows with equal values have no order
}

// shapeOf reads a question like a registration without "ordered" does: the order counts if the
// query ends with an ORDER BY.
func shapeOf(q question) shape {
	s := shape{form: q.Form}
	if s.form == "SELECT" && orderClause.MatchString(strings.TrimSpace(q.Text)) {
		s.ordered, s.keys = true, orderKeys(q.Text)
	}
	return s
}

func (s shape) read(body []byte) (answer, error) {
	switch s.form {
	case "ASK":
		var doc struct{ Boolean *bool }
		if err := json.Unmarshal(body, &doc); err != nil || doc.Boolean == nil {
			return answer{}, fmt.Errorf("not the answer of an ASK: %.200s", body)
		}
		return answer{rows: []string{strconv.FormatBool(*doc.Boolean)}}, nil
	case "SELECT":
		return s.readRows(body)
	}
	return readGraph(strings.FieldsFunc(string(body), func(r rune) bool { return r == '\n' }))
}

type jsonTerm struct {
	Type, Value, Datatype string
	Lang                  string `json:"xml:lang"`
}

func (s shape) readRows(body []byte) (answer, error) {
	var doc struct {
		Head    *struct{ Vars []string }
		Results *struct {
			Bindings []map[string]jsonTerm
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return answer{}, err
	}
	if doc.Head == nil || doc.Results == nil {
		return answer{}, fmt.Errorf("not the answer of a SELECT: %.200s", body)
	}
	rows, keys := make([]string, len(doc.Results.Bindings)), make([]string, len(doc.Results.Bindings))
	for i, b := range doc.Results.Bindings {
		var err error
		if rows[i], err = bindingText(b); err != nil {
			return answer{}, err
		}
		for _, k := range s.keys {
			keys[i] += b[k].text() + "\x00"
		}
	}
	if !s.ordered {
		slices.Sort(rows)
	} else if s.tied(doc.Head.Vars) {
		for from, to := 0, 0; from < len(rows); from = to {
			for to = from; to < len(rows) && keys[to] == keys[from]; to++ {
			}
			slices.Sort(rows[from:to])
		}
	}
	return answer{rows: rows}, nil
}

// tied reports whether the rows contain all keys of the order, so that rows without an order
// among themselves can be recognised.
func (s shape) tied(vars []string) bool {
	for _, k := range s.keys {
		if !slices.Contains(vars, k) {
			return false
		}
	}
	return len(s.keys) > 0
}

func bindingText(b map[string]jsonTerm) (string, error) {
	var text strings.Builder
	for _, v := range slices.Sorted(maps.Keys(b)) {
		if b[v].Type == "bnode" {
			return "", fmt.Errorf("a blank node in a row: this test has no truth about those")
		}
		text.WriteString(v + "=" + b[v].text() + " ")
	}
	return text.String(), nil
}

func (t jsonTerm) text() string {
	switch t.Type {
	case "":
		return "unbound"
	case "uri":
		return "<" + t.Value + ">"
	}
	return literalText(t.Value, t.Lang, t.Datatype)
}

func literalText(value, lang, datatype string) string {
	text := strconv.Quote(value)
	switch {
	case lang != "":
		text += "@" + strings.ToLower(lang)
	case datatype != "" && datatype != "http://www.w3.org/2001/XMLSchema#string":
		text += "^^<" + datatype + ">"
	}
	return text
}

var (
	orderClause = regexp.MustCompile(`(?is)\bORDER\s+BY\s+((?:[^{}])*?)\s*(?:LIMIT\s+\d+\s*|OFFSET\s+\d+\s*)*$`)
	orderKey    = regexp.MustCompile(`(?i)^(?:(?:ASC|DESC)\s*\(\s*[?$](\w+)\s*\)|[?$](\w+))\s*`)
)

// orderKeys returns the variables by which a query orders its rows, nil if it orders by anything
// else.
func orderKeys(text string) (keys []string) {
	m := orderClause.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return nil
	}
	for rest := m[1]; rest != ""; {
		k := orderKey.FindStringSubmatch(rest)
		if k == nil {
			return nil
		}
		keys, rest = append(keys, k[1]+k[2]), rest[len(k[0]):]
	}
	return keys
}

// A statement is a triple with its terms as texts. Blank nodes keep their label, "_:x".
type statement [3]string

func (s statement) String() string { return strings.Join(s[:], " ") }

// readGraph reads N-Triples lines. It names each blank node by its triples, so that labels do
// not matter.
func readGraph(lines []string) (answer, error) {
	seen := map[statement]bool{} // a graph is a set
	var a answer
	about := map[string][]statement{}
	for _, line := range lines {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		s, err := readStatement(line)
		if err != nil {
			return a, err
		}
		if seen[s] {
			continue
		}
		seen[s] = true
		a.blank = a.blank || isBlank(s[0]) || isBlank(s[2])
		about[s[0]] = append(about[s[0]], s)
	}
	names := map[string]string{}
	for s := range seen {
		for _, n := range []int{0, 2} {
			if isBlank(s[n]) {
				name, err := describe(s[n], about, names, 0)
				if err != nil {
					return a, err
				}
				s[n] = name
			}
		}
		a.rows = append(a.rows, s.String())
	}
	slices.Sort(a.rows)
	return a, nil
}

func isBlank(term string) bool { return strings.HasPrefix(term, "_:") }

func describe(label string, about map[string][]statement, names map[string]string, depth int) (string, error) {
	if name, ok := names[label]; ok {
		return name, nil
	}
	if depth > 20 {
		return "", fmt.Errorf("blank nodes in a circle: this test has no truth about those")
	}
	var says []string
	for _, s := range about[label] {
		o := s[2]
		if isBlank(o) {
			var err error
			if o, err = describe(o, about, names, depth+1); err != nil {
				return "", err
			}
		}
		says = append(says, s[1]+" "+o)
	}
	slices.Sort(says)
	names[label] = fmt.Sprintf("_:%x", sha256.Sum256([]byte(strings.Join(says, "\n"))))
	return names[label], nil
}

func readStatement(line string) (s statement, err error) {
	bad := fmt.Errorf("not an N-Triples line: %.200s", line)
	rest, ok := strings.CutSuffix(line, ".")
	if !ok {
		return s, bad
	}
	rest = strings.TrimSpace(rest)
	for n := range 2 {
		i := strings.IndexAny(rest, " \t")
		if i < 0 {
			return s, bad
		}
		s[n], rest = rest[:i], strings.TrimSpace(rest[i:])
	}
	s[2] = rest
	for n := range s {
		if s[n], err = termText(s[n]); err != nil {
			return s, fmt.Errorf("%w: %w", bad, err)
		}
	}
	return s, nil
}

func termText(term string) (string, error) {
	switch {
	case strings.HasPrefix(term, "_:"):
		return term, nil
	case strings.HasPrefix(term, "<") && strings.HasSuffix(term, ">"):
		return unescaped(term)
	case !strings.HasPrefix(term, `"`):
		return "", fmt.Errorf("what is %q", term)
	}
	end := 1
	for end < len(term) && term[end] != '"' {
		if term[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(term) {
		return "", fmt.Errorf("no end of %q", term)
	}
	value, err := unescaped(term[1:end])
	if err != nil {
		return "", err
	}
	switch tail := term[end+1:]; {
	case tail == "":
		return literalText(value, "", ""), nil
	case strings.HasPrefix(tail, "@"):
		return literalText(value, tail[1:], ""), nil
	case strings.HasPrefix(tail, "^^<") && strings.HasSuffix(tail, ">"):
		datatype, err := unescaped(tail[3 : len(tail)-1])
		return literalText(value, "", datatype), err
	}
	return "", fmt.Errorf("what follows the literal in %q", term)
}

func unescaped(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b bytes.Buffer
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", fmt.Errorf("escape at the end of %q", s)
		}
		if at := strings.IndexByte(`tbnrf"'\`, s[i]); at >= 0 {
			b.WriteByte("\t\b\n\r\f\"'\\"[at])
			continue
		}
		digits := map[byte]int{'u': 4, 'U': 8}[s[i]]
		if digits == 0 || i+digits >= len(s) {
			return "", fmt.Errorf("escape in %q", s)
		}
		n, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
		if err != nil {
			return "", err
		}
		b.WriteRune(rune(n))
		i += digits
	}
	return b.String(), nil
}

// without removes the rows of b from a, each as often as it occurs in b. Both are sorted.
func without(a, b []string) (rest []string) {
	for _, row := range a {
		for len(b) > 0 && b[0] < row {
			b = b[1:]
		}
		if len(b) > 0 && b[0] == row {
			b = b[1:]
			continue
		}
		rest = append(rest, row)
	}
	return rest
}
