package merge

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry/sparql"
)

// ErrAnswer reports that the answer of a merged query does not have the
// columns, numbers or terms that the query asks for. Such an answer says
// nothing about any member.
var ErrAnswer = errors.New("the answer does not fit the merged query")

// ErrInexact reports that a member's sums are floating-point numbers, which
// depend on the sequence in which the endpoint adds. The member must be asked
// alone.
var ErrInexact = errors.New("a sum of floating-point numbers")

// ErrTies reports that the sequence of a member's rows is not certain, because
// ORDER BY may leave open which of two rows comes first. The member must be asked
// alone.
var ErrTies = errors.New("rows without a certain order")

// ErrSpelling reports a boolean in a triple that is neither true nor false. Virtuoso
// writes 1 in rows and true in triples. The member must be asked alone.
var ErrSpelling = errors.New("a boolean that may be written otherwise in triples")

// An Answer is what a merged answer says about one member.
type Answer struct {
	Result *diff.Result
	Err    error // ErrInexact, ErrTies, ErrSpelling, or a limit of Options that the member exceeds
}

// Split returns the answers of the members, in their order. The merged answer has its sequence if t is
// ordered, and the labels of blank nodes as they are, because Split labels them per member. options holds
// the limits of one member and the order of its columns. The error is ErrAnswer.
func (t *Template) Split(merged *diff.Result, members [][]string, options func(member int) diff.Options) ([]Answer, error) {
	s := &splitter{template: t, members: members, options: options, builders: make([]*diff.Builder, len(members)),
		answers: make([]Answer, len(members)), last: make([][]diff.Term, len(members))}
	if err := s.head(merged); err != nil {
		return nil, err
	}
	for i := range merged.Len() {
		if err := s.row(merged.Terms(i)); err != nil {
			return nil, err
		}
	}
	for m := range s.answers {
		s.finish(m)
	}
	return s.answers, nil
}

type splitter struct {
	template *Template
	members  [][]string
	options  func(int) diff.Options
	builders []*diff.Builder
	answers  []Answer
	number   int           // the column of the member's number
	columns  []int         // where each of the template's variables is in the answer
	terms    []diff.Term   // one row of a member
	last     [][]diff.Term // the sort keys of each member's last row, if there is an order
}

// head finds the columns.
func (s *splitter) head(merged *diff.Result) error {
	vars := merged.Vars()
	if s.number = slices.Index(vars, s.template.fresh("i")[1:]); s.number < 0 {
		return fmt.Errorf("%w: no column for the number of the member", ErrAnswer)
	}
	want := s.template.Vars
	if s.template.Form == diff.Ask {
		want = nil
	}
	for _, v := range want {
		c := slices.Index(vars, v)
		if c < 0 {
			return fmt.Errorf("%w: no column ?%s", ErrAnswer, v)
		}
		s.columns = append(s.columns, c)
	}
	if len(vars) != len(want)+1 {
		return fmt.Errorf("%w: %d columns instead of %d", ErrAnswer, len(vars), len(want)+1)
	}
	s.terms = make([]diff.Term, len(s.columns))
	return nil
}

// row gives one row to its member.
func (s *splitter) row(terms []diff.Term) error {
	m, err := strconv.Atoi(terms[s.number].Value)
	if err != nil || m < 0 || m >= len(s.members) || terms[s.number].Kind != diff.Literal {
		return fmt.Errorf("%w: %q is not the number of a member", ErrAnswer, terms[s.number].Value)
	}
	if s.answers[m].Err != nil {
		return nil
	}
	for i, c := range s.columns {
		s.terms[i] = terms[c]
	}
	b := s.builder(m)
	switch s.template.Form {
	case diff.Ask:
		s.answers[m].Err = b.SetBoolean(true)
	case diff.Construct:
		s.answers[m].Err = s.triples(b, s.members[m])
	default:
		for _, c := range s.template.sums {
			if d := s.terms[c].Datatype; strings.HasSuffix(d, "#double") || strings.HasSuffix(d, "#float") {
				s.answers[m].Err = ErrInexact
				return nil
			}
		}
		if s.template.Ordered && !s.follows(m) {
			s.answers[m].Err = ErrTies
			return nil
		}
		s.answers[m].Err = b.Row(s.terms...)
	}
	return nil
}

// follows reports whether the row must come after the last row of its member,
// or is equal to it in all keys.
func (s *splitter) follows(m int) bool {
	keys := make([]diff.Term, len(s.template.OrderKeys))
	for i, k := range s.template.OrderKeys {
		keys[i] = s.terms[slices.Index(s.template.Vars, k)]
	}
	last := s.last[m]
	s.last[m] = keys
	if last == nil {
		return true
	}
	for i := range keys {
		if keys[i] != last[i] {
			return distinguishable(keys[i], last[i])
		}
	}
	return true
}

func (s *splitter) builder(m int) *diff.Builder {
	if s.builders[m] == nil {
		o := s.options(m)
		o.Ordered, o.OrderKeys = s.template.Ordered, s.template.OrderKeys
		b := diff.NewBuilder(s.template.Form, o)
		if s.template.Form == diff.Select {
			s.answers[m].Err = b.SetVars(s.template.Vars)
		}
		s.builders[m] = b
	}
	return s.builders[m]
}

// triples adds the triples that the CONSTRUCT template makes of one solution.
// Triples with an unbound or impossible term are left out.
func (s *splitter) triples(b *diff.Builder, args []string) error {
	t := s.template
	for _, triple := range t.triples {
		var terms [3]diff.Term
		for i, p := range triple {
			switch {
			case p.param >= 0:
				terms[i] = parseTerm(args[p.param])
			case p.isVariable():
				terms[i] = s.terms[slices.Index(t.Vars, p.text[1:])]
			default:
				terms[i] = parseTerm(p.text)
			}
		}
		if terms[0].Kind == diff.Unbound || terms[0].Kind == diff.Literal || terms[1].Kind != diff.IRI || terms[2].Kind == diff.Unbound {
			continue
		}
		if o := terms[2]; o.Datatype == xsd+"boolean" && o.Value != "true" && o.Value != "false" {
			return ErrSpelling
		}
		if err := b.Triple(terms[0], terms[1], terms[2]); err != nil {
			return err
		}
	}
	return nil
}

// finish completes the answer of a member. A member without rows has the empty
// result, or one row of zeros if it aggregates without GROUP BY.
func (s *splitter) finish(m int) {
	a := &s.answers[m]
	if a.Err != nil {
		return
	}
	empty := s.builders[m] == nil
	b := s.builder(m)
	switch {
	case empty && s.template.Form == diff.Ask:
		a.Err = b.SetBoolean(false)
	case empty && s.template.single:
		for i := range s.terms {
			s.terms[i] = diff.Term{Kind: diff.Literal, Value: "0", Datatype: xsd + "integer"}
		}
		a.Err = b.Row(s.terms...)
	}
	if a.Err == nil {
		a.Result, a.Err = b.Finish()
	}
}

const xsd = "http://www.w3.org/2001/XMLSchema#"

// parseTerm reads a term of a normal form.
func parseTerm(t string) diff.Term {
	switch {
	case t[0] == '<':
		return diff.Term{Kind: diff.IRI, Value: t[1 : len(t)-1]}
	case t[0] == '"':
		text, suffix, _ := sparql.Unquote(t)
		term := diff.Term{Kind: diff.Literal, Value: text}
		if lang, ok := strings.CutPrefix(suffix, "@"); ok {
			term.Lang = lang
		} else if suffix != "" {
			term.Datatype = suffix[3 : len(suffix)-1]
		}
		return term
	case t == "true" || t == "false":
		return diff.Term{Kind: diff.Literal, Value: t, Datatype: xsd + "boolean"}
	case strings.ContainsAny(t, "eE"):
		return diff.Term{Kind: diff.Literal, Value: t, Datatype: xsd + "double"}
	case strings.Contains(t, "."):
		return diff.Term{Kind: diff.Literal, Value: t, Datatype: xsd + "decimal"}
	}
	return diff.Term{Kind: diff.Literal, Value: t, Datatype: xsd + "integer"}
}
