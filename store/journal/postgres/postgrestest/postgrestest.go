// Package postgrestest starts PostgreSQL servers for tests.
package postgrestest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/loopbacktest"
	"github.com/jackc/pgx/v5"
)

// A Server is a PostgreSQL server with a data directory of its own.
type Server struct {
	URL string

	bin, dir, port string
	run            *exec.Cmd
	log            bytes.Buffer
}

// Start starts a server for the test, on a reserved port of the loopback interface. Where PostgreSQL
// is missing the test is skipped, or fails when FRESHET_REQUIRE names postgresql.
func Start(t testing.TB) *Server {
	t.Helper()
	bin, ok := programs()
	if !ok {
		skip(t, "PostgreSQL is missing, so the journal in PostgreSQL is not tested: make parts installs it")
	}
	dir, err := os.MkdirTemp("", "freshet-postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(loopbacktest.Reserve(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{bin: bin, dir: dir, port: port, URL: "postgres://freshet:freshet@127.0.0.1:" + port + "/postgres?sslmode=disable"}
	s.create(t)
	s.Restart(t)
	t.Cleanup(s.Kill)
	return s
}

// skip skips the test, or fails it when FRESHET_REQUIRE names postgresql.
func skip(t testing.TB, why string) {
	t.Helper()
	why = "SKIP-PART postgresql: " + why
	if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), "postgresql") {
		t.Fatal(why)
	}
	t.Skip(why)
}

// programs returns the directory of the newest installed server.
func programs() (string, bool) {
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			return filepath.Dir(p), true
		}
	}
	// Debian installs each major version in a directory of its own.
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", false
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), true
}

func version(program string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program))))
	if err != nil {
		return 0
	}
	return n
}

// command runs a program of PostgreSQL, which refuses to run as root, as another user then.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	program = filepath.Join(s.bin, program)
	if os.Getuid() == 0 {
		args = append([]string{"--reuid=" + other, "--regid=" + other, "--clear-groups", "--", program}, args...)
		program = "setpriv"
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	return cmd
}

// other is the user of Debian's package.
const other = "postgres"

func (s *Server) create(t testing.TB) {
	t.Helper()
	password := filepath.Join(s.dir, "password")
	if err := os.WriteFile(password, []byte("freshet\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		u, err := user.Lookup(other)
		if err != nil {
			skip(t, fmt.Sprint("PostgreSQL does not run as root, and the user postgres is missing: ", err))
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID != nil || errGID != nil {
			t.Fatal(errUID, errGID)
		}
		for _, path := range []string{s.dir, password} {
			if err := os.Chown(path, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, err := s.command("initdb", "-D", s.data(), "-U", "freshet", "-A", "scram-sha-256", "--pwfile", password, "-E", "UTF8",
		"--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Restart starts the server again, after a crash if it is running.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	s.log.Reset()
	s.run = s.command("postgres", "-D", s.data(), "-p", s.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "shared_buffers=16MB", "-c", "max_connections=400")
	s.run.Stdout, s.run.Stderr = &s.log, &s.log
	if err := s.run.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := s.ping()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.Kill()
			t.Fatalf("PostgreSQL does not start: %v\n%s", err, s.log.String())
		}
	}
}

// Dump returns what pg_dump prints about the database of URL.
func (s *Server) Dump(t testing.TB) []byte {
	t.Helper()
	return s.client(t, nil, "pg_dump", "--no-owner", s.URL)
}

// Restore creates a database from a dump. It returns its URL.
func (s *Server) Restore(t testing.TB, database string, dump []byte) string {
	t.Helper()
	s.client(t, nil, "psql", "-c", "CREATE DATABASE "+pgx.Identifier{database}.Sanitize(), s.URL)
	to := strings.Replace(s.URL, "/postgres?", "/"+database+"?", 1)
	s.client(t, dump, "psql", "--single-transaction", to)
	return to
}

// client runs a client program and returns its output.
func (s *Server) client(t testing.TB, in []byte, program string, args ...string) []byte {
	t.Helper()
	if program == "psql" {
		args = append([]string{"-X", "-q", "-v", "ON_ERROR_STOP=1"}, args...)
	}
	cmd := s.command(program, args...)
	var errors bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, errors.String())
	}
	return out
}

func (s *Server) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return c.Close(ctx)
}

// Kill ends the server and its helper processes at once. Its next start recovers as after a crash.
func (s *Server) Kill() {
	if s.run == nil {
		return
	}
	_ = s.run.Process.Signal(syscall.SIGQUIT) // fails only if it has ended
	_ = s.run.Wait()                          // returns the status of that
	s.run = nil
}
