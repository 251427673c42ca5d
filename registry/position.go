package registry

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Position names one point in a query's history: the state after change Seq
// of numbering Epoch. Seq 0 means that there is no result yet.
type Position struct {
	Epoch string `json:"epoch"`
	Seq   uint64 `json:"seq"`
}

// String gives the form used in URLs and event ids, "epoch:seq".
func (p Position) String() string { return p.Epoch + ":" + strconv.FormatUint(p.Seq, 10) }

// ParsePosition reads the form that String writes.
func ParsePosition(s string) (Position, error) {
	epoch, seq, ok := strings.Cut(s, ":")
	n, err := strconv.ParseUint(seq, 10, 53)
	if !ok || err != nil || epoch == "" {
		return Position{}, fmt.Errorf("position %q is not of the form epoch:seq", s)
	}
	return Position{epoch, n}, nil
}

// An Offset names one point in the store-wide sequence of all changes. Its
// epoch is the store's, not a query's.
type Offset = Position

// Reasons why a log cannot continue from a position. They are sent to clients
// as they stand.
const (
	TooOld     = "too_old"     // the changes after it have been trimmed
	OtherEpoch = "other_epoch" // numbering began anew
	Ahead      = "ahead"       // the position lies after the newest change
)

// A GapError says that the log does not continue from a position and why.
type GapError struct{ Reason string }

func (e *GapError) Error() string {
	return "the change log does not continue from this position: " + e.Reason
}

// Errors that every implementation of the stores returns, wrapped or not.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	// ErrUnauthorized is what a gate says to wrong, missing and expired tokens.
	ErrUnauthorized = errors.New("no valid token")
	// ErrGuessing is what a gate says to an address that sent too many wrong
	// tokens. Whether the one at hand is valid is not told.
	ErrGuessing = errors.New("too many wrong tokens came from this address: wait a little")
)
