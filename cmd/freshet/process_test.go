package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/local"
)

// A process is the program under test, run as users run it: an ordinary binary.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	url    string // what it says it serves
	stderr *tail
	ended  chan struct{}
	err    error // of Wait, once ended is closed
}

var builds sync.Map // build flags → func() (string, error)

// binary builds the program once per process and set of flags.
func binary(t testing.TB, flags ...string) string {
	t.Helper()
	build, _ := builds.LoadOrStore(strings.Join(flags, " "), sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "freshet-test-")
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, "freshet")
		args := append(append([]string{"build"}, flags...), "-o", path, ".")
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return path, nil
	}))
	path, err := build.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var serves = regexp.MustCompile(`(?:serving|triples) at (http\S+)`)

// start runs a command that serves and waits until it says where.
func start(t testing.TB, bin string, args ...string) *process {
	t.Helper()
	return startTo(t, nil, bin, args...)
}

// startTo is start with a file for what the command prints.
func startTo(t testing.TB, stdout *os.File, bin string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(bin, args...), stderr: &tail{}, ended: make(chan struct{})}
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	p.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1")
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	go p.watch(bufio.NewScanner(pipe), ready)
	t.Cleanup(func() { p.kill() })
	select {
	case p.url = <-ready:
	case <-p.ended:
		t.Fatalf("freshet %s ended: %v\n%s", strings.Join(args, " "), p.err, p.stderr)
	case <-time.After(2 * time.Minute):
		t.Fatalf("freshet %s did not come up\n%s", strings.Join(args, " "), p.stderr)
	}
	return p
}

func (p *process) watch(lines *bufio.Scanner, ready chan<- string) {
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.stderr.add(lines.Text())
		if m := serves.FindStringSubmatch(lines.Text()); m != nil {
			select {
			case ready <- m[1]:
			default:
			}
		}
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// kill ends the process at once, as a power cut would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

// stop asks the process to end and returns its error.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
		return p.err
	case <-time.After(time.Minute):
		p.kill()
		return fmt.Errorf("did not end within a minute of SIGTERM\n%s", p.stderr)
	}
}

// A tail keeps the last lines of an output.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) add(l string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, l)
	if len(t.lines) > 400 {
		t.lines = slices.Delete(t.lines, 0, 200)
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// freeAddr is an address for a process that is to come back to it. Its port is
// below those that the system gives away by itself, so that no connection of
// another test sits on it meanwhile.
func freeAddr(t testing.TB) string {
	t.Helper()
	const first, ports = 20000, 12000
	for range ports {
		n := (os.Getpid()*127 + int(lastPort.Add(1))) % ports
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+n))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}

var lastPort atomic.Int64

// part skips a test that needs what this machine does not have, or fails it
// where FRESHET_REQUIRE names the part.
func part(t testing.TB, name, how string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), name) {
		t.Fatalf("the part %s is required and missing: %s", name, how)
	}
	t.Skipf("SKIP-PART %s: %s", name, how)
}

func needEngine(t testing.TB) {
	t.Helper()
	if _, err := local.FindEngine(""); err != nil {
		part(t, "engine", `run "make deps"`)
	}
}

// serve starts the server on addr with a data directory, endpoints and more
// configuration lines.
func serve(t testing.TB, bin, addr, data, yaml string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "freshet.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, bin, "serve", "--config", file, "--listen", addr, "--data", data)
}

func TestMain(m *testing.M) {
	code := m.Run()
	builds.Range(func(_, build any) bool {
		if path, err := build.(func() (string, error))(); err == nil {
			os.RemoveAll(filepath.Dir(path))
		}
		return true
	})
	os.Exit(code)
}
