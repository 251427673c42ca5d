package main

import (
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// The flag prints the same as the command.
func TestVersionFlag(t *testing.T) {
	_, want, _ := runCLI(t, nil, "", "version")
	for _, args := range [][]string{{"--version"}, {"-v"}} {
		if code, got, stderr := runCLI(t, nil, "", args...); code != cli.ExitOK || got != want || stderr != "" || got == "" {
			t.Errorf("%s: exit code %d, prints %q and %q, want %q", args, code, got, stderr, want)
		}
	}
}
