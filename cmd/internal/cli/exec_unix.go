//go:build unix

package cli

import "syscall"

// replace runs a program in the place of this one. It only returns errors.
func replace(path string, args, env []string) error { return syscall.Exec(path, args, env) }
