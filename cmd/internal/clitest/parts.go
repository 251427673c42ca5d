package clitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// NeedNode skips a test that needs Node.js and the packages of the client in a directory.
func NeedNode(t *testing.T, client string) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		SkipPart(t, "npm", "install Node.js and npm")
	}
	if _, err := os.Stat(filepath.Join(client, "node_modules", "ws")); err != nil {
		SkipPart(t, "npm", `run "npm ci --prefix web/client"`)
	}
}

// NeedPython skips a test that needs Python.
func NeedPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		SkipPart(t, "python", "apt-get install python3")
	}
}
