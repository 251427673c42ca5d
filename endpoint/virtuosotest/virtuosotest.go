// Package virtuosotest runs Virtuoso Open Source for tests: a process of its
// own with a new database in a temporary directory, on loopback.
package virtuosotest

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/loopbacktest"
)

// Options are the settings that tests vary; 0 means the default.
type Options struct {
	MaxRows     int // ResultSetMaxRows: where results are cut
	MaxEstimate int // MaxQueryCostEstimationTime in seconds: what is refused beforehand; 0 is 400
}

// A Server is a running Virtuoso. Anyone may query and update it.
type Server struct {
	URL string // of its SPARQL endpoint

	t       testing.TB
	dir     string
	sql     string // where isql-vt finds it
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	crashes int
}

const startTime = 2 * time.Minute

// Start runs a server until the end of the test. Without Virtuoso on this
// machine the test is skipped, or fails when FRESHET_REQUIRE names virtuoso.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	for _, program := range []string{"virtuoso-t", "isql-vt"} {
		if _, err := exec.LookPath(program); err != nil {
			absent(t)
		}
	}
	for tries := 3; ; tries-- {
		s, err := launch(t, o)
		if err == nil {
			s.grant()
			return s
		}
		if tries == 1 {
			t.Fatal(err)
		}
		t.Logf("once more: %v", err)
	}
}

// launch starts a server and waits until it answers.
func launch(t testing.TB, o Options) (*Server, error) {
	t.Helper()
	sql, web := loopbacktest.Reserve(t), loopbacktest.Reserve(t)
	s := &Server{URL: "http://" + web + "/sparql", t: t, dir: t.TempDir(), sql: sql}
	if err := os.WriteFile(filepath.Join(s.dir, "virtuoso.ini"), []byte(settings(s.dir, sql, web, o)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run()
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("the log of virtuoso (%v):\n%s", s.process.ProcessState, s.lastLog())
		}
	})
	return s, s.await()
}

// run starts the process.
func (s *Server) run() {
	s.t.Helper()
	s.process = exec.Command("virtuoso-t", "+foreground", "+configfile", filepath.Join(s.dir, "virtuoso.ini"))
	s.process.Dir = s.dir
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func(p *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = p.Wait()
	}(s.process, s.ended)
}

// mostCrashes bounds how often a test starts its server again.
const mostCrashes = 3

// Revive is for tests of long series of requests: now and then one of Virtuoso's threads reads
// a null pointer, and its process ends. Revive starts it again, with its data, and reports whether it
// had ended. It is called after a request failed, by one goroutine at a time.
func (s *Server) Revive() bool {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second): // the kernel may still write its memory to a file
		return false
	}
	s.crashes++
	s.t.Logf("virtuoso ended (%v), the %d. time:\n%s", s.process.ProcessState, s.crashes, s.lastLog())
	if s.crashes > mostCrashes {
		return false
	}
	if err := os.Remove(filepath.Join(s.dir, "virtuoso.lck")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	s.run()
	if err := s.await(); err != nil {
		s.t.Fatal(err)
	}
	return true
}

func absent(t testing.TB) {
	t.Helper()
	const message = `SKIP-PART virtuoso: run "apt-get install virtuoso-opensource"`
	for _, part := range strings.Split(os.Getenv("FRESHET_REQUIRE"), ",") {
		if strings.TrimSpace(part) == "virtuoso" {
			t.Fatal(message)
		}
	}
	t.Skip(message)
}

// stop shuts the server down, and kills it if it does not end.
func (s *Server) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		_ = s.process.Process.Kill()
		<-s.ended
	}
}

// await returns when the endpoint answers, or with an error if the server
// ended.
func (s *Server) await() error {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		select {
		case <-s.ended:
			return fmt.Errorf("virtuoso ended at its start:\n%s", s.lastLog())
		default:
		}
		if r, err := client.Get(s.URL + "?query=" + url.QueryEscape("ASK {}")); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return fmt.Errorf("virtuoso did not answer within %v:\n%s", startTime, s.lastLog())
}

func (s *Server) lastLog() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "virtuoso.log"))
	return string(b[max(0, len(b)-2000):])
}

// grant allows updates by anyone, which the tests need.
func (s *Server) grant() {
	s.t.Helper()
	out, err := exec.Command("isql-vt", s.sql, "dba", "dba", `exec=GRANT SPARQL_UPDATE TO "SPARQL";`).CombinedOutput()
	if err != nil {
		s.t.Fatalf("granting the right to update: %v\n%s", err, out)
	}
}

// Update runs one SPARQL Update request.
func (s *Server) Update(text string) {
	s.t.Helper()
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	r, err := client.PostForm(s.URL, url.Values{"query": {text}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		b := make([]byte, 1000)
		n, _ := r.Body.Read(b)
		s.t.Fatalf("update: %s\n%s", r.Status, b[:n])
	}
}

// Insert adds N-Triples statements to a graph, in portions: Virtuoso refuses
// much above a thousand triples in one request.
func (s *Server) Insert(graph string, statements ...string) {
	s.t.Helper()
	for len(statements) > 0 {
		n := min(len(statements), 500)
		s.Update("INSERT DATA { GRAPH <" + graph + "> {\n" + strings.Join(statements[:n], "\n") + "\n} }")
		statements = statements[n:]
	}
}

func settings(dir, sql, web string, o Options) string {
	if o.MaxEstimate == 0 {
		o.MaxEstimate = 400
	}
	rows := ""
	if o.MaxRows > 0 {
		rows = fmt.Sprintf("ResultSetMaxRows = %d\n", o.MaxRows)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	return fmt.Sprintf(`[Database]
DatabaseFile = %s
ErrorLogFile = %s
LockFile = %s
TransactionFile = %s
xa_persistent_file = %s
ErrorLogLevel = 7
FileExtend = 200
MaxCheckpointRemap = 2000
Striping = 0
TempStorage = TempDatabase
[TempDatabase]
DatabaseFile = %s
TransactionFile = %s
MaxCheckpointRemap = 2000
Striping = 0
[Parameters]
ServerPort = %s
DisableUnixSocket = 1
MaxClientConnections = 20
CheckpointInterval = 0
CaseMode = 2
SchedulerInterval = 10
DirsAllowed = %s
NumberOfBuffers = 10000
MaxDirtyBuffers = 6000
ThreadsPerQuery = 2
AsyncQueueMaxThreads = 4
[HTTPServer]
ServerPort = %s
ServerRoot = %s
ServerThreads = 10
KeepAliveTimeout = 10
MaxKeepAlives = 10
[URIQA]
DynamicLocal = 0
DefaultHost = %s
[SPARQL]
MaxQueryExecutionTime = 60
MaxQueryCostEstimationTime = %d
%s`, in("virtuoso.db"), in("virtuoso.log"), in("virtuoso.lck"), in("virtuoso.trx"), in("virtuoso.pxa"),
		in("temp.db"), in("temp.trx"), sql, dir, web, dir, web, o.MaxEstimate, rows)
}
