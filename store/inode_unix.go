//go:build unix

package store

import (
	"os"
	"strconv"
	"syscall"
)

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
