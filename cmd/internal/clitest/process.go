// Package clitest runs programs for tests: in the process of the test, or as users
// run them.
package clitest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/endpoint/loopbacktest"
	"github.com/spf13/cobra"
)

// A Process is the program under test, run as users run it: an ordinary binary.
type Process struct {
	t      testing.TB
	Cmd    *exec.Cmd
	Url    string // that it serves
	Stderr *Tail
	Ended  chan struct{}
	Err    error // of Wait, once ended is closed
}

var builds sync.Map // build flags → func() (string, error)

// ProgramsEnv names a directory of programs that were just built, so that not every package that
// runs them links them once more. "make test" sets it.
const ProgramsEnv = "FRESHET_TEST_PROGRAMS"

// Build builds a program, such as freshet, once per process and set of flags. A program without
// flags is taken from the directory that ProgramsEnv names.
func Build(t testing.TB, program string, flags ...string) string {
	t.Helper()
	if dir := os.Getenv(ProgramsEnv); dir != "" && len(flags) == 0 {
		return filepath.Join(dir, program, program)
	}
	once, _ := builds.LoadOrStore(program+" "+strings.Join(flags, " "), sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "freshet-test-")
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, program)
		args := append(append([]string{"build"}, flags...), "-o", path, "github.com/freshet/freshet/cmd/"+program)
		cmd := exec.Command("go", args...)
		if slices.Contains(flags, "-race") {
			cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return path, nil
	}))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var serves = regexp.MustCompile(`(?:serving|triples) at (http\S+)`)

// Start runs a command that serves, and waits until it prints its URL.
func Start(t testing.TB, bin string, args ...string) *Process {
	t.Helper()
	return StartTo(t, nil, bin, args...)
}

// StartTo is Start with a file for standard output.
func StartTo(t testing.TB, stdout *os.File, bin string, args ...string) *Process {
	t.Helper()
	p, err := TryStart(t, stdout, bin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TryStart is StartTo for a command that may not come up.
func TryStart(t testing.TB, stdout *os.File, bin string, args ...string) (*Process, error) {
	t.Helper()
	p, ready, err := launch(t, stdout, bin, args...)
	if err != nil {
		return nil, err
	}
	select {
	case p.Url = <-ready:
		return p, nil
	case <-p.Ended:
		return nil, fmt.Errorf("freshet %s ended: %w\n%s", strings.Join(args, " "), p.Err, p.Stderr)
	case <-time.After(2 * time.Minute):
		p.Kill()
		return nil, fmt.Errorf("freshet %s did not come up\n%s", strings.Join(args, " "), p.Stderr)
	}
}

// Launch runs a command that may never print a URL. It does not wait.
func Launch(t testing.TB, bin string, args ...string) *Process {
	t.Helper()
	p, _, err := launch(t, nil, bin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func launch(t testing.TB, stdout *os.File, bin string, args ...string) (p *Process, ready chan string, err error) {
	p = &Process{t: t, Cmd: exec.Command(bin, args...), Stderr: &Tail{}, Ended: make(chan struct{})}
	if stdout != nil {
		p.Cmd.Stdout = stdout
	}
	p.Cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1")
	pipe, err := p.Cmd.StderrPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := p.Cmd.Start(); err != nil {
		return nil, nil, err
	}
	ready = make(chan string, 1)
	go p.watch(bufio.NewScanner(pipe), ready)
	t.Cleanup(func() { p.Kill() })
	return p, ready, nil
}

func (p *Process) watch(lines *bufio.Scanner, ready chan<- string) {
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.Stderr.Add(lines.Text())
		if m := serves.FindStringSubmatch(lines.Text()); m != nil {
			select {
			case ready <- m[1]:
			default:
			}
		}
	}
	p.Err = p.Cmd.Wait()
	close(p.Ended)
}

// Kill ends the process at once, like a power cut.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // it may have ended already
	<-p.Ended
}

// Stop asks the process to end and returns its error.
func (p *Process) Stop() error {
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.Ended:
		return p.Err
	case <-time.After(time.Minute):
		p.Kill()
		return fmt.Errorf("did not end within a minute of SIGTERM\n%s", p.Stderr)
	}
}

// A Tail keeps the last lines of an output.
type Tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *Tail) Add(l string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, l)
	if len(t.lines) > 400 {
		t.lines = slices.Delete(t.lines, 0, 200)
	}
}

func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// FreeAddr returns a reserved loopback address for a process that restarts on it, or for
// none.
func FreeAddr(t testing.TB) string {
	t.Helper()
	return loopbacktest.Reserve(t)
}

// SkipPart skips a test that needs a missing part of the machine. It fails the test if
// FRESHET_REQUIRE names the part.
func SkipPart(t testing.TB, name, how string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), name) {
		t.Fatalf("the part %s is required and missing: %s", name, how)
	}
	t.Skipf("SKIP-PART %s: %s", name, how)
}

func NeedEngine(t testing.TB) {
	t.Helper()
	if _, err := local.FindEngine(""); err != nil {
		SkipPart(t, "engine", `run "make deps"`)
	}
}

// Serve starts the server on addr with a data directory, endpoints and more
// configuration lines.
func Serve(t testing.TB, bin, addr, data, yaml string) *Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "freshet.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return Start(t, bin, "serve", "--config", file, "--listen", addr, "--data", data)
}

// Main runs the tests of a package and removes the programs that they built.
func Main(m *testing.M) {
	code := m.Run()
	builds.Range(func(_, build any) bool {
		if path, err := build.(func() (string, error))(); err == nil {
			os.RemoveAll(filepath.Dir(path))
		}
		return true
	})
	os.Exit(code)
}

func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come: %s", what)
		}
	}
}

// Run runs one command line of a program in this process and returns its output.
func Run(t *testing.T, root func(*cli.Env) *cobra.Command, env map[string]string, stdin string, args ...string) (code int, stdout,
	stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	w := &cli.Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &err, Getenv: func(k string) string { return env[k] }}
	code = cli.Run(t.Context(), root(w), args, w)
	return code, out.String(), err.String()
}
