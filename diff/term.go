package diff

import (
	"errors"
	"strings"
)

// A Form is one of the four query forms of SPARQL 1.1.
type Form string

// The forms. Select and Ask answer with SPARQL results, Construct and Describe with a graph.
const (
	Select    Form = "SELECT"
	Ask       Form = "ASK"
	Construct Form = "CONSTRUCT"
	Describe  Form = "DESCRIBE"
)

// Graph reports whether results of this form are sets of triples.
func (f Form) Graph() bool { return f == Construct || f == Describe }

func (f Form) valid() bool { return f == Select || f == Ask || f.Graph() }

// A Kind is the kind of an RDF term.
type Kind uint8

// The kinds. The zero Term is an unbound variable.
const (
	Unbound Kind = iota
	IRI
	Literal
	Blank
)

const (
	xsdString  = "http://www.w3.org/2001/XMLSchema#string"
	langString = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
)

// A Term is an RDF term or an unbound variable. Terms that a Result returns are
// normalised: Lang is lower-case; Datatype is empty for xsd:string and for
// language-tagged strings. The lexical form is never changed.
type Term struct {
	Kind     Kind
	Value    string // the IRI, the lexical form, or the label without "_:"
	Datatype string
	Lang     string
}

// normal returns t in normal form. The error says why it is not an RDF term.
func (t Term) normal() (Term, error) {
	if t.Kind != Literal {
		if t.Kind > Blank {
			return t, malformed("unknown kind of term")
		}
		return Term{Kind: t.Kind, Value: t.Value}, nil
	}
	if t.Lang != "" {
		if t.Datatype != "" && t.Datatype != langString {
			return t, malformed("literal with a language and the datatype " + t.Datatype)
		}
		if hasDirection(t.Lang) {
			return t, NotRDF11(baseDirection)
		}
		t.Lang, t.Datatype = lower(t.Lang), ""
	}
	if t.Datatype == xsdString {
		t.Datatype = ""
	}
	return t, nil
}

// hasDirection reports whether a language tag ends with a base direction, as in en--ltr.
func hasDirection(tag string) bool { return strings.Contains(tag, "--") }

// lower converts ASCII letters to lower case. Language tags are ASCII, and
// other characters must not change their length.
func lower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return strings.Map(func(r rune) rune {
				if 'A' <= r && r <= 'Z' {
					r += 'a' - 'A'
				}
				return r
			}, s)
		}
	}
	return s
}

// Errors to be tested with errors.Is.
var (
	// ErrMalformed reports that the input is not a complete results document of
	// the expected form.
	ErrMalformed = errors.New("not a complete results document")
	// ErrRowLimit reports that the result has more rows than Options.MaxRows.
	ErrRowLimit = errors.New("result has too many rows")
	// ErrByteLimit reports that the body or the canonical text is larger than
	// Options.MaxBytes.
	ErrByteLimit = errors.New("result is too large")
	// ErrColumnLimit reports that the head has more variables than
	// Options.MaxVars.
	ErrColumnLimit = errors.New("result has too many columns")
	// ErrMismatch reports that a delta does not fit the result or the delta it is
	// applied to.
	ErrMismatch = errors.New("delta does not fit")
)

// A SyntaxError is an ErrMalformed with its location.
type SyntaxError struct {
	Offset int // in the body; -1: unknown
	Reason string
}

func (e *SyntaxError) Error() string {
	if e.Offset < 0 {
		return ErrMalformed.Error() + ": " + e.Reason
	}
	return ErrMalformed.Error() + ": " + e.Reason + " at byte " + itoa(e.Offset)
}

// Unwrap makes errors.Is(err, ErrMalformed) true.
func (e *SyntaxError) Unwrap() error { return ErrMalformed }

// NotRDF11 reports a part of an answer that RDF 1.2 has added. It wraps ErrMalformed. Without such
// parts an answer would look unchanged when they change.
func NotRDF11(part string) error {
	return malformed(rdf12 + part)
}

const (
	rdf12         = "RDF 1.2 is not supported, and the answer has a "
	baseDirection = "base direction (its:dir)"
	tripleTerm    = "triple term"
)

func malformed(reason string) error { return &SyntaxError{Offset: -1, Reason: reason} }

// Options say how to read a result. The zero value reads an unordered result
// without limits.
type Options struct {
	// Ordered keeps the sequence of rows (SELECT only).
	Ordered bool
	// OrderKeys are the variables in ORDER BY if all its conditions are plain
	// variables; nil means unknown. Neighbouring rows that agree in all of them
	// are ties, whose order SPARQL leaves open: they are sorted by their bytes.
	OrderKeys []string
	// Vars is the head of the last result. These variables keep their order, and
	// new ones come behind them. If no row binds a new one, the head stays as it was.
	Vars []string
	// Head is called with the variables of the head as they arrive, unless it is nil.
	Head func(vars []string)
	// MaxRows and MaxBytes are limits; 0 means no limit.
	MaxRows  int
	MaxBytes int
	// MaxVars is the maximum number of variables of a SELECT result; 0 means no
	// limit.
	MaxVars int
	// Stop is called regularly while a result is read and its blank nodes are
	// labelled, unless it is nil. Its first error ends the work and is returned
	// unchanged.
	Stop func() error
	// KeepLabels keeps the labels of blank nodes. Clients that receive canonical
	// labels use it.
	KeepLabels bool
	// BlankBudget bounds the work for canonical blank node labels, in units of one
	// neighbourhood hashed or one permutation tried. 0 means 20000, or 8 for each
	// blank node if that is more.
	BlankBudget int
}
