package sparql

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrUpdate is returned for SPARQL Update, including one that follows a query.
var ErrUpdate = errors.New("this is SPARQL Update: Freshet only reads, register a SELECT, ASK, CONSTRUCT or DESCRIBE query")

// SyntaxError is the position at which a text stops being a query that can be
// registered. Line and Column count from 1. Columns count characters, not bytes.
type SyntaxError struct {
	Line, Column int
	Message      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

func syntaxError(text string, pos int, format string, args ...any) *SyntaxError {
	line, column := lineColumn(text, pos)
	return &SyntaxError{Line: line, Column: column, Message: fmt.Sprintf(format, args...)}
}

// lineColumn finds the line and column of a byte offset; CR, LF and CR LF end lines.
func lineColumn(text string, pos int) (line, column int) {
	pos = min(pos, len(text))
	line, start := 1, 0
	for i := range pos {
		if text[i] == '\n' || text[i] == '\r' && (i+1 == len(text) || text[i+1] != '\n') {
			line, start = line+1, i+1
		}
	}
	return line, utf8.RuneCountInString(text[start:pos]) + 1
}

// shorten shortens a quotation in a message.
func shorten(s string) string {
	const most = 40
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
