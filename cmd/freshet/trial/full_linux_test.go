package trial

import (
	"io"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// On a full disk the server keeps running and only reads, whichever part notices it first. It
// reports this everywhere and resumes by itself when there is room. A kill meanwhile changes
// nothing stored.
func TestDiskFull(t *testing.T) {
	for name, find := range map[string]func(*testing.T, *testServer){
		"a registration": func(t *testing.T, s *testServer) {
			if code, _, said := runCLI(t, s.Env, "ASK { ?s ?p 1 }", "query", "add", "-"); code == cli.ExitOK || !strings.Contains(said,
				"disk is full and nothing of this was stored") {
				t.Errorf("registered on a full disk: exit code %d, %q", code, said)
			}
		},
		"a slot": func(t *testing.T, s *testServer) {
			if code, _, said := runCLI(t, s.Env, "", "endpoint", "tick", "city"); code == cli.ExitOK || !strings.Contains(said, "disk is full") {
				t.Errorf("a slot on a full disk: exit code %d, %q", code, said)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t, "")
			s.must(t, "SELECT ?s { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
			s.must(t, "", "endpoint", "tick", "city")
			results := s.results("rows")
			s.Update(t, `INSERT DATA { <http://x/1> <http://x/n> "1" }`)
			fill(t, s.srv.Cmd.Process.Pid, 1)
			find(t, s)
			checkReportsFull(t, s)
			if got := s.results("rows"); got != results {
				t.Errorf("the results were\n%s\nand are\n%s", results, got)
			}
			resp, err := http.Post(s.srv.Url+"/v1/queries?endpoint=city", "application/sparql-query", strings.NewReader("ASK {}"))
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != http.StatusInsufficientStorage || resp.Header.Get("Retry-After") == "" {
				t.Errorf("a registration meanwhile: %s", resp.Status)
			}
			if name == "a slot" { // and after a crash
				s.crash()
			} else {
				fill(t, s.srv.Cmd.Process.Pid, math.MaxUint64)
			}
			s.waitReady(t)
			s.must(t, "", "endpoint", "tick", "city")
			if got := s.must(t, "", "query", "show", "rows", "--json"); !strings.Contains(got, `"seq":2`) {
				t.Errorf("with room again: %s", got)
			}
			if got := s.results("rows"); got == results {
				t.Error("the change is not there")
			}
			checkNoneLost(t, s)
		})
	}
}

// checkReportsFull checks all places that report a full disk.
func checkReportsFull(t *testing.T, s *testServer) {
	t.Helper()
	for path, want := range map[string]string{
		"/readyz": "ready, read-only: the disk is full", "/metrics": "\nfreshet_store_read_only 1\n", "/": "Read-only: the disk is full.",
		"/v1/endpoints/city": `"halted":"no slot runs`, "/healthz": "ok",
	} {
		if got := s.page(t, path); !strings.Contains(got, want) {
			t.Errorf("%s does not say %q:\n%s", path, want, got)
		}
	}
	if said := s.srv.Stderr.String(); !strings.Contains(said, "the disk is full: the server only reads") {
		t.Errorf("the log does not say it:\n%s", said)
	}
}

func (s *testServer) page(t *testing.T, path string) string {
	t.Helper()
	resp, err := http.Get(s.srv.Url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v", path, resp.Status, err)
	}
	return string(b)
}

// waitReady waits until the server is ready and writes. While its endpoints start,
// /readyz answers with an error.
func (s *testServer) waitReady(t *testing.T) {
	t.Helper()
	ready := func() bool {
		resp, err := http.Get(s.srv.Url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK && string(b) == "ready\n"
	}
	for end := time.Now().Add(time.Minute); !ready(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("with room again it does not write again\n%s", s.srv.Stderr)
		}
	}
}

func checkNoneLost(t *testing.T, s *testServer) {
	t.Helper()
	if err := s.srv.Stop(); err != nil {
		t.Errorf("%v\n%s", err, s.srv.Stderr)
	}
	checkStore(t, binary(t), s.data)
}

// fill limits the size of the files that a process writes.
func fill(t *testing.T, pid int, bytes uint64) {
	t.Helper()
	limit := syscall.Rlimit{Cur: bytes, Max: math.MaxUint64}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limit)),
		0, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
}
