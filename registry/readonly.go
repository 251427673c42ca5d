package registry

import "errors"

// ErrReadOnly is wrapped by what a store returns while it takes no writes and
// will by itself when what keeps it from them is over, such as a full disk.
// Nothing of the write is in effect.
var ErrReadOnly = errors.New("the store takes no writes for now")

// StorageFull is the problem of a write that finds too little room on the
// server's disk.
func StorageFull(detail string) *Problem {
	return &Problem{Type: "storage-full", Status: 507, Title: titles["storage-full"], Detail: detail}
}

// A Storage is the state of the disk that holds the store.
type Storage struct {
	ReadOnly bool   // nothing can be written
	Short    bool   // less than Reserve is free: nothing new is taken in
	Free     int64  // bytes, -1 when unknown
	Reserve  int64  // bytes
	Reason   string // in words; "" while all is well
}
