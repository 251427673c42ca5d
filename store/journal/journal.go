package journal

import (
	"context"
	"fmt"
	"regexp"
)

// MaxCommand is the size of the largest command in bytes.
const MaxCommand = 64 << 20

// A Journal is an ordered durable log of commands that several nodes share. Its methods may be
// called concurrently. Head, Old and Drop fail while the engine does not answer, such as during an
// election. Their callers ask again, except after ErrDamaged and ErrClosed.
type Journal interface {
	// Append adds a command and returns its number once the command is durable on a quorum. A
	// command whose id the journal contains already is not added again; Append then returns the
	// number of the entry that is there. Append retries while ctx allows. An error that wraps
	// ErrUnknown leaves open whether the command is an entry, now or later: append it again with
	// the same id to find out. After any other error it is not an entry. The journal keeps cmd
	// for a while after an error, so the caller must not modify it.
	Append(ctx context.Context, id string, cmd []byte) (seq uint64, err error)

	// Read calls f with each entry after a position, in order, without gap or repetition, and
	// then waits for further ones. It returns an error of f as it is, the error of ctx, or an
	// error that says why the journal cannot be read on from here. The zero Position is the
	// beginning. Entries and their commands belong to f. While f runs, nothing else is read.
	Read(ctx context.Context, after Position, f func(Entry) error) error

	// Head returns the position of the last entry, which may be out of date by a few seconds on
	// a node that is cut off.
	Head(ctx context.Context) (Position, error)

	// Old returns the number of the last entry that is followed by more than a number of bytes, 0 if there is none.
	Old(ctx context.Context, bytes int64) (seq uint64, err error)

	// Drop removes the entries up to a number. The last entry always remains.
	Drop(ctx context.Context, upTo uint64) error

	// Close ends all calls with ErrClosed. It does not close the engine.
	Close() error
}

var (
	idForm   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
)

// CheckCommand returns an error if a command cannot be an entry.
func CheckCommand(id string, cmd []byte) error {
	if !idForm.MatchString(id) {
		return fmt.Errorf("%w: %.80q: use 1 to 64 letters, digits, hyphens and underscores", ErrID, id)
	}
	if len(cmd) > MaxCommand {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed: split it into several commands", ErrTooLarge, len(cmd), MaxCommand)
	}
	return nil
}

// CheckName returns an error if a journal cannot have a name.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("cluster.name %.40q: use 1 to 32 letters, digits, hyphens and underscores", name)
	}
	return nil
}
