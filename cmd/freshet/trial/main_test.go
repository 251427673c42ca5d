// Package trial tests the program as it is built: servers, clusters and clients in processes of their own.
package trial

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// binary builds the program.
func binary(t testing.TB, flags ...string) string {
	t.Helper()
	return clitest.Build(t, "freshet", flags...)
}

// runCLI runs one command line and returns its output.
func runCLI(t *testing.T, env map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), binary(t), args...)
	c.Env = os.Environ()
	for name, value := range env {
		c.Env = append(c.Env, name+"="+value)
	}
	var out, messages strings.Builder
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &messages
	if err := c.Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			t.Fatal(err)
		}
	}
	return c.ProcessState.ExitCode(), out.String(), messages.String()
}

// A town is a running server over an embedded endpoint with two triples.
type town struct{ clitest.Town }

func newTown(t *testing.T, more string) town { return town{clitest.NewTown(t, binary(t), more)} }

// must runs a command that has to succeed and returns its output.
func (w town) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	code, out, stderr := runCLI(t, w.Env, stdin, args...)
	if code != cli.ExitOK {
		t.Fatalf("freshet %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return out
}
