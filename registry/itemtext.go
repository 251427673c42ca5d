package registry

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ItemGrammar is the syntax of a profile's item on the command line and in the
// pages.
const ItemGrammar = "QUERY every SPAN [slack SPAN], QUERY on QUERY [where VAR OP VALUE]... [within SPAN], or QUERY predicted [within SPAN]"

// ParseItem reads an item in the syntax of ItemGrammar. A span is a duration
// such as 10m or a number of slots such as "3 slots". Other words that contain
// blanks are written in double quotes.
func ParseItem(text string) (Item, error) {
	words, err := splitWords(text)
	if err != nil {
		return Item{}, err
	}
	if len(words) < 2 {
		return Item{}, errors.New("write " + ItemGrammar)
	}
	it, said := Item{Query: words[0]}, map[string]bool{}
	for rest := words[1:]; len(rest) > 0; {
		key := rest[0]
		if said[key] && key != "where" {
			return Item{}, fmt.Errorf("%q is given twice", key)
		}
		said[key] = true
		n, err := it.When.clause(key, rest[1:])
		if err != nil {
			return Item{}, err
		}
		rest = rest[1+n:]
	}
	return it, nil
}

// clause reads the arguments of a keyword and returns how many words it read.
func (w *When) clause(key string, rest []string) (int, error) {
	need := map[string]int{"every": 1, "slack": 1, "within": 1, "on": 1, "where": 3, "predicted": 0}
	n, known := need[key]
	switch {
	case !known:
		return 0, fmt.Errorf("%q is not one of every, slack, on, where, within, predicted", key)
	case len(rest) < n:
		return 0, fmt.Errorf("something is missing after %q", key)
	}
	switch key {
	case "predicted":
		w.Predicted = true
	case "on":
		w.Changed = rest[0]
	case "where":
		w.Where = append(w.Where, Condition{Var: rest[0], Op: rest[1], Value: rest[2]})
	default:
		span := rest[0]
		if len(rest) > 1 && (rest[1] == "slot" || rest[1] == "slots") {
			span, n = span+" "+rest[1], 2
		}
		to := map[string]*Span{"every": &w.Every, "slack": &w.Slack, "within": &w.Within}[key]
		if err := to.UnmarshalText([]byte(span)); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// String returns the item in the syntax of ItemGrammar.
func (i Item) String() string { return quoteWord(i.Query) + " " + i.When.String() }

// String returns the condition in the syntax of ItemGrammar.
func (w When) String() string {
	var words []string
	span := func(key string, s Span) {
		if !s.IsZero() {
			words = append(words, key, shortSpan(s))
		}
	}
	span("every", w.Every)
	span("slack", w.Slack)
	if w.Changed != "" {
		words = append(words, "on", quoteWord(w.Changed))
	}
	for _, c := range w.Where {
		value, _ := c.text()
		words = append(words, "where", quoteWord(c.Var), c.Op, quoteWord(value))
	}
	if w.Predicted {
		words = append(words, "predicted")
	}
	span("within", w.Within)
	return strings.Join(words, " ")
}

// shortSpan omits zeros; see Duration.Short.
func shortSpan(s Span) string {
	if s.Slots > 0 {
		return s.String()
	}
	return Duration(s.Time).Short()
}

func quoteWord(s string) string {
	if s == "" || strings.ContainsFunc(s, unicode.IsSpace) {
		return `"` + s + `"`
	}
	return s
}

// splitWords splits s at blanks outside of double quotes.
func splitWords(s string) (list []string, err error) {
	quoted, open := false, false
	for _, r := range s {
		switch {
		case r == '"':
			if quoted = !quoted; !open {
				list, open = append(list, ""), true
			}
		case !quoted && unicode.IsSpace(r):
			open = false
		default:
			if !open {
				list, open = append(list, ""), true
			}
			list[len(list)-1] += string(r)
		}
	}
	if quoted {
		return nil, errors.New("a double quote is not closed")
	}
	return list, nil
}
