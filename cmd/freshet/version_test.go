package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// A release sets its version at link time.
func TestVersionOfARelease(t *testing.T) {
	out, err := exec.Command(binary(t, "-ldflags", "-X main.version=v9.8.7"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "freshet v9.8.7 (") {
		t.Errorf("prints %q, %v", out, err)
	}
}

// The flag prints the same as the command.
func TestVersionFlag(t *testing.T) {
	_, want, _ := runCLI(t, nil, "", "version")
	for _, args := range [][]string{{"--version"}, {"-v"}} {
		if code, got, stderr := runCLI(t, nil, "", args...); code != cli.ExitOK || got != want || stderr != "" || got == "" {
			t.Errorf("%s: exit code %d, prints %q and %q, want %q", args, code, got, stderr, want)
		}
	}
}
