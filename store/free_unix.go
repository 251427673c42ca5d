//go:build linux || darwin || freebsd

package store

import "syscall"

// freeBytes returns the bytes that an unprivileged process may still write to the file
// system of a path, and that file system's size.
func freeBytes(path string) (free, total int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}
