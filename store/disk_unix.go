//go:build linux || darwin || freebsd

package store

import (
	"os"
	"strconv"
	"syscall"
)

// freeBytes returns the bytes that an unprivileged process may still write to the file
// system of a path, and that file system's size.
func freeBytes(path string) (free, total int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}

// inodeOf identifies a file on its file system.
func inodeOf(path string) (string, error) {
	i, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if s, ok := i.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(s.Ino), 10), nil
	}
	return "-", nil
}
