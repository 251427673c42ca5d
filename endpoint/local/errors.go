package local

import (
	"context"
	"errors"
	"fmt"
	"regexp"
)

// What can go wrong with a call of the engine. Test with errors.Is; the text
// of a syntax or evaluation error ends with the engine's own message, which
// *CallError carries alone.
var (
	// ErrNoEngine: the engine file was found nowhere.
	ErrNoEngine = errors.New("the embedded SPARQL engine was not found")
	// ErrEngineVersion: the file is not the release this package is made for.
	ErrEngineVersion = errors.New("the engine file is not the pinned release")
	// ErrSyntax: the query, the update or the data is malformed.
	ErrSyntax = errors.New("syntax error")
	// ErrEval: the text is well formed but the engine could not run it.
	ErrEval = errors.New("evaluation error")
	// ErrCut: the context ended before the call did. A cut update or load has
	// changed nothing. The context's error is wrapped as well.
	ErrCut = errors.New("cut off")
	// ErrClosed: the engine is closed.
	ErrClosed = errors.New("the engine is closed")
)

// CallError is an error that the engine itself reported.
type CallError struct {
	Kind    error  // ErrSyntax or ErrEval
	Message string // the engine's words, for example "error at 1:8: expected …"
}

func (e *CallError) Error() string { return e.Kind.Error() + ": " + e.Message }

// Unwrap makes errors.Is(err, ErrSyntax) work.
func (e *CallError) Unwrap() error { return e.Kind }

// cut wraps ErrCut and the reason the context ended.
func cut(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrCut, context.Cause(ctx))
}

// syntaxMessage knows the engine's parser messages by their beginnings: they
// carry a position, or name a rule of the grammar that is checked after it.
var syntaxMessage = regexp.MustCompile(`(?i)^(error at \d|error while parsing|parser error|.*\b(invalid iri|prefix not found|unexpected end)\b)`)

func callError(message string) error {
	if syntaxMessage.MatchString(message) {
		return &CallError{Kind: ErrSyntax, Message: message}
	}
	return &CallError{Kind: ErrEval, Message: message}
}
