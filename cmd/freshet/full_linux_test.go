package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// A full disk ends the server, whoever finds it full first, with an error that
// says what to do. What was committed before is there at the next start.
func TestDiskFull(t *testing.T) {
	for name, find := range map[string]func(*testing.T, *stage){
		"a registration": func(t *testing.T, s *stage) {
			if code, _, said := cli(t, s.env, "ASK { ?s ?p 1 }", "query", "add", "-"); code == exitOK || !strings.Contains(said, "disk is full and nothing of this was stored") {
				t.Errorf("registered on a full disk: exit code %d, %q", code, said)
			}
		},
		"a slot": func(t *testing.T, s *stage) {
			if code, _, _ := cli(t, s.env, "", "endpoint", "tick", "city"); code == exitOK {
				t.Error("a slot on a full disk")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, "")
			s.must(t, "SELECT ?s { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
			s.must(t, "", "endpoint", "tick", "city")
			before := s.must(t, "", "query", "show", "rows", "--json")
			fill(t, s.srv.cmd.Process.Pid)
			find(t, s)
			select {
			case <-s.srv.ended:
			case <-time.After(time.Minute):
				t.Fatalf("the server goes on without taking writes\n%s", s.srv.stderr)
			}
			said := s.srv.stderr.String()
			if s.srv.err == nil || !strings.Contains(said, "disk is full: make room") || strings.Count(said, "\nfreshet: ")+strings.Count(said, "\ncommit to ") > 1 {
				t.Errorf("ended with %v and said\n%s", s.srv.err, said)
			}
			s.srv = serve(t, binary(t), s.addr, s.data, s.yaml)
			if after := s.must(t, "", "query", "show", "rows", "--json"); after != before {
				t.Errorf("before\n%s\nafter\n%s", before, after)
			}
			if resp, err := http.Post(s.srv.url+"/v1/queries?endpoint=city", "application/sparql-query", strings.NewReader("ASK {}")); err != nil {
				t.Error(err)
			} else if resp.Body.Close(); resp.StatusCode != http.StatusCreated {
				t.Errorf("with room again: %s", resp.Status)
			}
			checkNoneLost(t, s)
		})
	}
}

func checkNoneLost(t *testing.T, s *stage) {
	t.Helper()
	if err := s.srv.stop(); err != nil {
		t.Errorf("%v\n%s", err, s.srv.stderr)
	}
	checkStore(t, binary(t), s.data)
}

// fill lets no file that a process writes be longer than a byte.
func fill(t *testing.T, pid int) {
	t.Helper()
	limit := syscall.Rlimit{Cur: 1, Max: 1}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
}
