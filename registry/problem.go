package registry

import (
	"fmt"
	"time"
)

// A Problem is an error that a client can act on. Type is a stable slug; the
// HTTP API serves it as RFC 9457 problem details.
type Problem struct {
	Type   string // e.g. "bad-query"; part of the public contract
	Status int    // HTTP status that fits
	Title  string
	Detail string
	Errors []FieldError
	IDs    []string // of the objects that the problem is about, such as the queries of one name
	// RetryAfter is how long to wait before the next attempt; 0 if unknown.
	RetryAfter time.Duration
}

// A FieldError points to the invalid part of a request.
type FieldError struct {
	Pointer string `json:"pointer"` // JSON pointer (RFC 6901)
	Detail  string `json:"detail"`
}

func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}

// Is makes errors.Is(err, ErrNotFound) work.
func (p *Problem) Is(target error) bool { return target == ErrNotFound && p.Status == 404 }

func notFound(format string, a ...any) *Problem {
	return &Problem{Type: "not-found", Status: 404, Title: "Not found", Detail: fmt.Sprintf(format, a...)}
}

func forbidden(format string, a ...any) *Problem {
	return &Problem{Type: "forbidden", Status: 403, Title: "Not allowed", Detail: fmt.Sprintf(format, a...)}
}

// unprocessable is the problem of one field in a well-formed request.
func unprocessable(typ, pointer, format string, a ...any) *Problem {
	detail := fmt.Sprintf(format, a...)
	return &Problem{Type: typ, Status: 422, Title: titles[typ], Detail: detail,
		Errors: []FieldError{{pointer, detail}}}
}

// malformed is the problem of a text that is not a query: 400, as the SPARQL
// Protocol requires.
func malformed(format string, a ...any) *Problem {
	p := unprocessable("bad-query", "/query", format, a...)
	p.Status = 400
	return p
}

var titles = map[string]string{
	"bad-query":        "The query cannot be watched",
	"update-refused":   "SPARQL Update is not accepted",
	"service-refused":  "SERVICE is not allowed on this endpoint",
	"unknown-endpoint": "No such endpoint",
	"bad-setting":      "A setting is out of range",
	"bad-endpoint":     "The endpoint's settings do not fit",
	"bad-profile":      "The profile cannot be captured",
	"ambiguous-name":   "Several have this name",
	"name-taken":       "You use this name for another query",
	"limit":            "A limit of this server is reached",
	"quota":            "The token holds as much as it may",
	"rate":             "Too many registrations at once",
	"storage-full":     "The server's disk is full",
}
