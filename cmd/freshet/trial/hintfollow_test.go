package trial

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A publisher publishes changesets in the layout of DBpedia Live.
type publisher struct {
	t    *testing.T
	dir  string
	http *httptest.Server
	down atomic.Bool
}

func newPublisher(t *testing.T) *publisher {
	p := &publisher{t: t, dir: t.TempDir()}
	files := http.FileServer(http.Dir(p.dir))
	p.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(p.http.Close)
	return p
}

// publish writes the files of one changeset by part, and announces it.
func (p *publisher) publish(hour string, number int, parts map[string]string) {
	p.t.Helper()
	for part, triples := range parts {
		path := filepath.Join(p.dir, filepath.FromSlash(hour), fmt.Sprintf("%06d.%s.nt.gz", number, part))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			p.t.Fatal(err)
		}
		f, err := os.Create(path)
		if err != nil {
			p.t.Fatal(err)
		}
		z := gzip.NewWriter(f)
		if _, err := fmt.Fprintf(z, "# started 2026\n%s\n# completed 2026\n", triples); err != nil {
			p.t.Fatal(err)
		}
		if z.Close() != nil || f.Close() != nil {
			p.t.Fatal("a file could not be written")
		}
	}
	name := fmt.Sprintf("%s-%06d", strings.ReplaceAll(hour, "/", "-"), number)
	if err := os.WriteFile(filepath.Join(p.dir, "lastPublishedFile.txt"), []byte(name+"\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// A hinter is "freshet hint --changesets" as a process.
type hinter struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string
	stderr clitest.Tail
}

func startHinter(t *testing.T, s *testServer, args ...string) *hinter {
	t.Helper()
	h := &hinter{t: t, cmd: exec.Command(binary(t), append([]string{"hint", "city", "--every", "1s"}, args...)...),
		lines: make(chan string, 1000)}
	h.cmd.Env = append(os.Environ(), "FRESHET_SERVER="+s.srv.Url)
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := h.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.cmd.Process.Kill() }) // it may have ended already
	go func() {
		for in := bufio.NewScanner(said); in.Scan(); {
			h.stderr.Add(in.Text())
		}
	}()
	go func() {
		defer close(h.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			h.lines <- in.Text()
		}
	}()
	return h
}

func (h *hinter) next(want string) {
	h.t.Helper()
	select {
	case line, ok := <-h.lines:
		if !ok || line != want {
			h.t.Fatalf("prints %q, want %q\n%s", line, want, &h.stderr)
		}
	case <-time.After(time.Minute):
		h.t.Fatalf("does not print %q\n%s", want, &h.stderr)
	}
}

func (h *hinter) stop() {
	h.t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		h.t.Fatal(err)
	}
	for range h.lines { // until its output ends
	}
	if err := h.cmd.Wait(); err != nil {
		h.t.Errorf("ended with %v\n%s", err, &h.stderr)
	}
}

// A growing publication is followed despite outages of the publication, the server and the
// follower itself. Every changeset becomes one hint, in order, and the affected queries run
// earlier than their policy would run them.
func TestLongHintFollow(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "n", "-")
	s.must(t, "SELECT ?s ?k { ?s <http://x/k> ?k }", "query", "add", "--name", "k", "-")
	for range 2 {
		s.must(t, "", "endpoint", "tick", "city")
	}
	p, state := newPublisher(t), filepath.Join(t.TempDir(), "place")
	p.publish("2026/01/01/22", 7, map[string]string{"added": `<http://x/old> <http://x/k> "1" .`})
	args := []string{"--changesets", p.http.URL, "--state", state}
	h := startHinter(t, s, args...)
	clitest.Eventually(t, "its place", func() bool { b, _ := os.ReadFile(state); return string(b) == "2026-01-01-22-000008\n" })
	p.publish("2026/01/01/22", 8, map[string]string{"added": `<http://x/1> <http://x/k> "1"^^<http://x/n> .`})
	h.next("2026-01-01-22-000008: 1 triples changed, 1 of 2 queries may be affected")
	s.must(t, "", "endpoint", "tick", "city")
	if _, b := s.get("GET", "/v1/queries/k/explain"); !strings.Contains(b, `"why":"hinted"`) {
		t.Errorf("after the hint: %s", b)
	}
	p.down.Store(true)
	time.Sleep(1500 * time.Millisecond)
	p.publish("2026/01/01/22", 9, map[string]string{"removed": `<http://x/1> <http://x/n> "1" .`,
		"clear": `<http://x/2> <http://x/other> "http://x/k" .`})
	p.publish("2026/01/01/22", 11, map[string]string{"reinserted": `<http://x/3> <http://x/k> <http://x/n> .`}) // changeset 10 changed nothing
	p.down.Store(false)
	h.next("2026-01-01-22-000009: 2 triples changed, 1 of 2 queries may be affected")
	h.next("2026-01-01-22-000011: 1 triples changed, 1 of 2 queries may be affected")
	s.srv.Kill()
	p.publish("2026/01/02/01", 0, map[string]string{"added": `<http://x/1> <http://x/k> "2" .`})
	clitest.Eventually(t, "that the server is not there", func() bool { return strings.Contains(h.stderr.String(), "trying again in 1s") })
	s.srv = clitest.Serve(t, binary(t), s.addr, s.data, s.yaml)
	h.next("2026-01-02-01-000000: 1 triples changed, 1 of 2 queries may be affected")
	clitest.Eventually(t, "its place", func() bool { b, _ := os.ReadFile(state); return string(b) == "2026-01-02-01-000001\n" })
	h.stop()
	p.publish("2026/01/02/01", 1, map[string]string{"added": `<http://x/1> <http://x/n> "2" .`})
	p.publish("2026/01/02/01", 2, map[string]string{"added": `<http://x/1> <http://x/q> "2" .`})
	h = startHinter(t, s, args...)
	h.next("2026-01-02-01-000001: 1 triples changed, 1 of 2 queries may be affected")
	h.next("2026-01-02-01-000002: 1 triples changed, 0 of 2 queries may be affected")
	h.stop()
	if code, _, stderr := runCLI(t, s.Env, "", "hint", "nowhere", "--changesets", p.http.URL, "--from",
		"2026-01-02-01-000000"); code != cli.ExitNotFound {
		t.Errorf("following for an endpoint that is not there: %d %s", code, stderr)
	}
}
