//go:build !(linux || darwin || freebsd)

package store

import "errors"

// freeBytes is not available on this platform: the store detects a full disk by
// failing writes.
func freeBytes(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

// inodeOf identifies a file on its file system, if the platform supports it.
func inodeOf(string) (string, error) { return "-", nil }
