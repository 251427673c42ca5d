//go:build !unix

package cli

// This file starts another program in the place of this one where the system cannot
// replace a process.

import (
	"errors"
	"os"
	"os/exec"
)

// replace runs a program and ends this process with its exit code.
func replace(path string, args, env []string) error {
	c := &exec.Cmd{Path: path, Args: args, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err := c.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return err
	}
	os.Exit(c.ProcessState.ExitCode())
	return nil
}
