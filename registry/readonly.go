package registry

import "errors"

// ErrReadOnly is wrapped by the error of a store that temporarily takes no
// writes, for example because the disk is full. The write has no effect. The
// store takes writes again by itself when the cause is gone.
var ErrReadOnly = errors.New("the store takes no writes for now")

// ErrTooLarge is wrapped by the error of a store for a write that is too large to be made at
// once. The write has no effect, and neither has any other attempt.
var ErrTooLarge = errors.New("too large to be stored at once")

// ErrUnusable is what the errors of a store are whose content is damaged, or whose disk is broken.
// The process should exit. Any other error of a store is about what was read or written: it makes
// that failing, and the process goes on.
var ErrUnusable = errors.New("the store cannot be used any more")

// StorageFull is the problem of a write for which the server's disk has too
// little room.
func StorageFull(detail string) *Problem {
	return &Problem{Kind: KindStorageFull, Detail: detail}
}

// A Storage is the state of the disk that holds the store.
type Storage struct {
	ReadOnly bool   // no write is possible
	Short    bool   // less than Reserve is free: no new registrations
	Free     int64  // bytes; -1: unknown
	Reserve  int64  // bytes
	Reason   string // in words; "" without a problem
}
