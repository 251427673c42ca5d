package loopback_test

import (
	"errors"
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/freshet/freshet/endpoint/loopback"
)

// TestReserve starts servers on a reserved address one after the other. While none runs, the
// port refuses connections, and no other connection can use it.
func TestReserve(t *testing.T) {
	addr := loopback.Reserve(t)
	if other := loopback.Reserve(t); addr == other {
		t.Fatalf("%s is reserved twice", addr)
	}
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	local, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if c, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial %s: %v, %v", addr, c, err)
		}
		out := net.Dialer{LocalAddr: local}
		if c, err := out.Dial("tcp", elsewhere.Addr().String()); err == nil && runtime.GOOS == "linux" {
			t.Errorf("a connection has the reserved address %s", c.LocalAddr())
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		served, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		served.Close() // first, so that the server's port still belongs to the connection
		c.Close()
		l.Close()
	}
}
