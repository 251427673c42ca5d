package local

import (
	"context"
	"errors"
	"fmt"
	"regexp"
)

// Errors of a call of the engine, to be tested with errors.Is. The text of a
// syntax or evaluation error ends with the engine's own message, which
// CallError holds.
var (
	// ErrNoEngine reports that the engine file was not found.
	ErrNoEngine = errors.New("the embedded SPARQL engine was not found")
	// ErrEngineVersion reports that the engine file is not the release that this
	// package supports.
	ErrEngineVersion = errors.New("the engine file is not the pinned release")
	// ErrSyntax reports a malformed query, update or document.
	ErrSyntax = errors.New("syntax error")
	// ErrEval reports that the engine could not run a well-formed text.
	ErrEval = errors.New("evaluation error")
	// ErrCut reports that the context ended before the call. An update or load has
	// changed nothing. The context's error is wrapped as well.
	ErrCut = errors.New("cut off")
	// ErrClosed reports that the engine is closed.
	ErrClosed = errors.New("the engine is closed")
)

// CallError is an error that the engine itself reported.
type CallError struct {
	Kind    error  // ErrSyntax or ErrEval
	Message string // for example "error at 1:8: expected …"
}

func (e *CallError) Error() string { return e.Kind.Error() + ": " + e.Message }

// Unwrap makes errors.Is(err, ErrSyntax) work.
func (e *CallError) Unwrap() error { return e.Kind }

// cut wraps ErrCut and the reason the context ended.
func cut(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrCut, context.Cause(ctx))
}

// syntaxMessage matches the engine's parser messages by their beginnings: they
// contain a position, or name a rule of the grammar that is checked afterwards.
var syntaxMessage = regexp.MustCompile(`(?i)^(error at \d|error while parsing|parser error|.*\b(invalid iri|prefix not ` +
	`found|unexpected end)\b)`)

func callError(message string) error {
	if syntaxMessage.MatchString(message) {
		return &CallError{Kind: ErrSyntax, Message: message}
	}
	return &CallError{Kind: ErrEval, Message: message}
}
