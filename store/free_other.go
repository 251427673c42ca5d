//go:build !(linux || darwin || freebsd)

package store

import "errors"

// freeBytes is not known here: the store then finds a full disk by its writes.
func freeBytes(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }
