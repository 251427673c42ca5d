package sparql

import "strings"

// ForeignColumn returns the first column of an answer that the text of a SELECT does not ask for, "" if
// there is none. The answer may lack columns, as of variables without bindings, or have them in
// any order and case. For SELECT *, every variable of the text counts. If endpoints name a column
// themselves, none is foreign.
func ForeignColumn(text string, columns []string) string {
	a, err := Analyse(text)
	if err != nil || a.Form != "SELECT" || a.Unnamed {
		return ""
	}
	asked := map[string]bool{}
	for _, v := range a.Vars {
		asked[strings.ToLower(v)] = true
	}
	if a.Star {
		tokens, _ := Tokens(text) // which Analyse has read without an error
		for _, t := range tokens {
			if t.Kind == Variable {
				asked[strings.ToLower(t.Text[1:])] = true
			}
		}
	}
	for _, c := range columns {
		if !asked[strings.ToLower(c)] {
			return c
		}
	}
	return ""
}

// NamesColumns reports whether the text is a SELECT that projects a variable by its name.
func NamesColumns(text string) bool {
	a, err := Analyse(text)
	return err == nil && a.Form == "SELECT" && len(a.Vars) > 0
}
