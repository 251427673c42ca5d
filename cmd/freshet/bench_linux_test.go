package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// The tool replaces the program's process: signals reach it, and its exit code is the
// program's.
func TestBenchTakesTheProcess(t *testing.T) {
	c := exec.Command(both(t), "bench", "cei", "--figures", t.TempDir(), "--seeds", "1000")
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	clitest.Eventually(t, "the tool", func() bool {
		name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.Process.Pid), "comm"))
		return err == nil && strings.TrimSpace(string(name)) == benchTool
	})
	if err := c.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // returns the error of the kill
	if s := c.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGKILL {
		t.Errorf("ended by %v: %s", c.ProcessState, said.String())
	}
}
