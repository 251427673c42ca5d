package formats

import (
	"errors"
	"fmt"
	"strings"

	"github.com/freshet/freshet/diff"
)

// ErrStopped ends the work on an answer when its time is over.
var ErrStopped = errors.New("the time is over")

// limited reports whether an error is about a limit rather than about the
// document.
func limited(err error) bool {
	return errors.Is(err, ErrStopped) || errors.Is(err, diff.ErrByteLimit) || errors.Is(err, diff.ErrRowLimit) ||
		errors.Is(err, diff.ErrColumnLimit)
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", diff.ErrMalformed, strings.TrimSpace(fmt.Sprintf(format, args...)))
}
