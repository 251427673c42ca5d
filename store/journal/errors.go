package journal

import (
	"errors"
	"fmt"
)

// ErrDamaged is wrapped by the errors of a journal that this node must not follow. None of them
// goes away by trying again.
var ErrDamaged = errors.New("the journal cannot be followed")

// The kinds of ErrDamaged.
var (
	// ErrShortened: entries that were read or acknowledged are missing at the end.
	ErrShortened = fmt.Errorf("%w: entries are missing at its end", ErrDamaged)
	// ErrAltered: an entry does not have its hash, or does not continue the entry before.
	ErrAltered = fmt.Errorf("%w: entries were altered", ErrDamaged)
	// ErrForeign: the journal has another history than the position that is to be continued.
	ErrForeign = fmt.Errorf("%w: it is not the journal that this node has applied", ErrDamaged)
	// ErrUnreadable: files in which this member keeps the journal are damaged.
	ErrUnreadable = fmt.Errorf("%w: its files on this node are damaged", ErrDamaged)
	// ErrDropped: the entries after the position are no longer kept.
	ErrDropped = fmt.Errorf("%w: the next entries were dropped", ErrDamaged)
)

// Other errors.
var (
	ErrUnknown  = errors.New("the outcome of the command is unknown: append it again with the same id")
	ErrTooLarge = errors.New("the command is too large for the journal")
	ErrID       = errors.New("not an id of a command")
	ErrClosed   = errors.New("the journal is closed")
)

// remedy ends the messages of damage.
const remedy = "stop this node and run freshet cluster rebuild with the URL of a member that is up to date; if all members " +
	"report this, stop them, keep their data, start the newest of them once without the block cluster, and then begin a " +
	"journal with another cluster.name from it"

// Shortened returns an ErrShortened for a journal that ends before a position.
func Shortened(head, at uint64) error {
	return fmt.Errorf("%w: it ends with entry %d, entry %d was there: %s", ErrShortened, head, at, remedy)
}

// Foreign returns an ErrForeign for a journal with another history up to a number.
func Foreign(at uint64) error {
	return fmt.Errorf("%w: entry %d is another one: check cluster.name and cluster.journal, or %s", ErrForeign, at, remedy)
}

// Unreadable returns an ErrUnreadable for what is wrong with a member's files.
func Unreadable(what string) error { return fmt.Errorf("%w: %s: %s", ErrUnreadable, what, remedy) }

// Dropped returns an ErrDropped for a journal whose first entry is too new for a position.
func Dropped(first, at uint64) error {
	return fmt.Errorf("%w: it begins with entry %d, this node has applied %d, since it is new or was stopped for too long: "+
		"stop it, run freshet cluster rebuild with the URL of a member that is up to date, and start it again", ErrDropped, first, at)
}

// Altered returns an ErrAltered for a reason.
func Altered(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrAltered, fmt.Sprintf(format, args...), remedy)
}
