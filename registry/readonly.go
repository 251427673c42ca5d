package registry

import "errors"

// ErrReadOnly is wrapped by the error of a store that temporarily takes no
// writes, for example because the disk is full. The write has no effect. The
// store takes writes again by itself when the cause is gone.
var ErrReadOnly = errors.New("the store takes no writes for now")

// ErrTooLarge is wrapped by the error of a store for a write that is too large to be made at
// once. The write has no effect, and neither has any other attempt.
var ErrTooLarge = errors.New("too large to be stored at once")

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
