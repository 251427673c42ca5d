package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// The server notifies systemd when it is ready, that it is alive, and when it stops.
func TestServiceManagerIsTold(t *testing.T) {
	dir, err := os.MkdirTemp("", "sd") // short: paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	next := func() string {
		t.Helper()
		if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	t.Setenv("NOTIFY_SOCKET", l.LocalAddr().String())
	t.Setenv("WATCHDOG_USEC", "300000")
	p := clitest.Serve(t, binary(t), "127.0.0.1:0", t.TempDir(), "")
	if got := []string{next(), next(), next()}; strings.Join(got, " ") != "READY=1 WATCHDOG=1 WATCHDOG=1" {
		t.Fatalf("notified %q", got)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	for range 100 {
		if got := next(); got == "STOPPING=1" {
			return
		} else if got != "WATCHDOG=1" {
			t.Fatalf("notified %q", got)
		}
	}
	t.Error("not notified of the stop")
}

// A server that hangs sends no watchdog notification.
func TestNoSignOfLifeFromAHangingServer(t *testing.T) {
	s := supervisor{socket: filepath.Join(t.TempDir(), "none"), every: time.Millisecond, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	asked, over := make(chan bool), make(chan bool)
	go func() {
		s.watchdog(ctx, func() { <-asked })
		close(over)
	}()
	select {
	case <-over:
		t.Error("the watchdog gave up")
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	close(asked)
	<-over
}

// systemd accepts the unit file.
func TestUnit(t *testing.T) {
	unit, err := os.ReadFile("dist/freshet.service")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(unit), "[Service]")
	if !strings.Contains(head, "\nStartLimitIntervalSec=0\n") || !strings.Contains(string(unit), "\nRestart=on-failure\n") {
		t.Error("a server that fails at boot is given up after some tries")
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	path := filepath.Join(t.TempDir(), "freshet.service")
	if err := os.WriteFile(path, []byte(strings.Replace(string(unit), "/usr/bin/freshet", binary(t), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "verify", "--man=no", path).CombinedOutput(); err != nil || strings.Contains(string(out), path) {
		t.Errorf("%v\n%s", err, out)
	}
}
