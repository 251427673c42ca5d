package registry

import (
	"cmp"
	"fmt"
	"time"
)

// A Problem is an error that a client can act on.
type Problem struct {
	Kind   Kind
	Title  string // "" means the kind's title
	Detail string
	Errors []FieldError
	IDs    []string // ids of the subjects, such as the queries with one name
	// RetryAfter is how long to wait before trying again, 0 if unknown.
	RetryAfter time.Duration
	Reason     string   // of a gap
	Available  []string // what could have been negotiated
}

// A FieldError points to the invalid part of a request.
type FieldError struct {
	Pointer string `json:"pointer"` // JSON pointer (RFC 6901)
	Detail  string `json:"detail"`
}

// Heading returns the title of p or, if it is empty, that of its kind.
func (p *Problem) Heading() string { return cmp.Or(p.Title, p.Kind.Title()) }

func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Heading()
	}
	return p.Heading() + ": " + p.Detail
}

// Is makes errors.Is(err, ErrNotFound) work.
func (p *Problem) Is(target error) bool {
	return target == ErrNotFound && (p.Kind == KindNotFound || p.Kind == KindNoResult)
}

func notFound(format string, a ...any) *Problem {
	return &Problem{Kind: KindNotFound, Detail: fmt.Sprintf(format, a...)}
}

func forbidden(format string, a ...any) *Problem {
	return &Problem{Kind: KindForbidden, Detail: fmt.Sprintf(format, a...)}
}

// BadSetting returns a problem about a setting that cannot be used.
func BadSetting(pointer, format string, a ...any) error {
	return WrongField(KindBadSetting, pointer, format, a...)
}

// UnknownQuery returns the problem of a request that names a query which does not exist.
func UnknownQuery(pointer, ref string) error {
	return WrongField(KindUnknownQuery, pointer, "no query has the id or name %.64q: register it first, or see the list of queries", ref)
}

// Conflict returns a problem about a state that does not allow what is asked for.
func Conflict(detail string) error { return &Problem{Kind: KindConflict, Detail: detail} }

// WrongField returns a problem about one field of a request.
func WrongField(k Kind, pointer, format string, a ...any) *Problem {
	detail := fmt.Sprintf(format, a...)
	return &Problem{Kind: k, Detail: detail, Errors: []FieldError{{pointer, detail}}}
}

// malformed returns a problem about a text that is not a query.
func malformed(format string, a ...any) *Problem {
	return WrongField(KindBadQuery, "/query", format, a...)
}
