package registry

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Position is a point in a query's log: the state after change Seq of the
// numbering Epoch. Seq 0 means that there is no result yet.
type Position struct {
	Epoch string `json:"epoch"`
	Seq   uint64 `json:"seq"`
}

// String returns the form used in URLs and event ids, "epoch:seq".
func (p Position) String() string { return p.Epoch + ":" + strconv.FormatUint(p.Seq, 10) }

// maxEpoch is the maximum length of an epoch in bytes. Those that the store makes are much shorter.
const maxEpoch = 64

// ParsePosition reads the form that String writes.
func ParsePosition(s string) (Position, error) {
	epoch, seq, ok := strings.Cut(s, ":")
	n, err := strconv.ParseUint(seq, 10, 53)
	if !ok || err != nil || epoch == "" || len(epoch) > maxEpoch {
		return Position{}, fmt.Errorf("position %q is not of the form epoch:seq", s)
	}
	return Position{epoch, n}, nil
}

// An Offset is a point in the log of all queries. Its epoch is the store's, not
// a query's.
type Offset = Position

// Reasons why a log does not continue from a position, as clients receive them.
const (
	TooOld     = "too_old"     // the changes after it are trimmed
	OtherEpoch = "other_epoch" // numbering has restarted
	Ahead      = "ahead"       // the position is after the newest change
)

// A GapError says that the log does not continue from a position, and why.
type GapError struct {
	Reason string
	Detail string // replaces the usual text, unless empty
}

func (e *GapError) Error() string {
	if e.Detail != "" {
		return e.Detail
	}
	return "the change log does not continue from this position: " + e.Reason
}

// Errors that every implementation of the stores returns, possibly wrapped.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	// ErrLastToken refuses to remove the last admin token that does not expire.
	ErrLastToken = errors.New("no other admin token lasts")
	// ErrUnauthorized reports a wrong, missing or expired token.
	ErrUnauthorized = errors.New("no valid token")
	// ErrGuessing refuses an address that sent too many wrong tokens. It does not
	// reveal whether the present token is valid.
	ErrGuessing = errors.New("too many wrong tokens came from this address, so this one was not checked: it may be valid. Try " +
		"again in 2 seconds")
)
