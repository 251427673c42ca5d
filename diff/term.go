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

// Graph tells whether results of this form are sets of triples.
func (f Form) Graph() bool { return f == Construct || f == Describe }

func (f Form) valid() bool { return f == Select || f == Ask || f.Graph() }

// A Kind says what an RDF term is.
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

// A Term is an RDF term, or nothing. Terms handed out by a Result are
// normalised: Lang is lower-case, Datatype is empty for xsd:string and for
// language-tagged strings. The lexical form is never touched.
type Term struct {
	Kind     Kind
	Value    string // the IRI, the lexical form, or the label without "_:"
	Datatype string
	Lang     string
}

// normal gives t in normal form, or an error when it is no RDF term.
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
		t.Lang, t.Datatype = lower(t.Lang), ""
	}
	if t.Datatype == xsdString {
		t.Datatype = ""
	}
	return t, nil
}

// lower folds ASCII only: language tags are ASCII, and anything else must not
// change its length under us.
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

// Errors that callers tell apart with errors.Is.
var (
	// ErrMalformed: not a complete results document of the expected form.
	ErrMalformed = errors.New("not a complete results document")
	// ErrRowLimit: the result has more rows than Options.MaxRows.
	ErrRowLimit = errors.New("result has too many rows")
	// ErrByteLimit: the body or the canonical text is larger than Options.MaxBytes.
	ErrByteLimit = errors.New("result is too large")
	// ErrColumnLimit: the head has more variables than Options.MaxVars.
	ErrColumnLimit = errors.New("result has too many columns")
	// ErrMismatch: the delta does not fit the result or the delta it was applied to.
	ErrMismatch = errors.New("delta does not fit")
)

// A SyntaxError is an ErrMalformed that knows its place.
type SyntaxError struct {
	Offset int // byte offset in the body, -1 when unknown
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

func malformed(reason string) error { return &SyntaxError{Offset: -1, Reason: reason} }

// Options say how a result is read. The zero value is an unordered result
// without limits.
type Options struct {
	// Ordered keeps the sequence of rows (SELECT only).
	Ordered bool
	// OrderKeys are the variables that ORDER BY sorts on when all its conditions
	// are plain variables; nil means unknown. Neighbouring rows that agree in all
	// of them are ties, whose order SPARQL leaves open: they are sorted by bytes.
	OrderKeys []string
	// Vars is the head order to keep when the set of variables is the same.
	Vars []string
	// MaxRows and MaxBytes bound what is accepted; 0 means no limit.
	MaxRows  int
	MaxBytes int
	// MaxVars bounds the variables of a SELECT result; 0 means no limit.
	MaxVars int
	// Stop is asked now and then while a result is read and its blank nodes are
	// labelled, unless it is nil. The first error that it returns ends the work
	// and is returned as it is.
	Stop func() error
	// KeepLabels takes the labels of blank nodes as they are: for a client that
	// is sent canonical ones.
	KeepLabels bool
	// BlankBudget bounds the work spent on canonical blank node labels, in units
	// of one neighbourhood hashed or one permutation tried; 0 means 20000, or 8
	// for each blank node when that is more.
	BlankBudget int
}
