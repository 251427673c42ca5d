package loopbacktest_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/freshet/freshet/endpoint/loopbacktest"
)

// TestReserve starts servers on a reserved address one after the other. While none runs, the
// port refuses connections.
func TestReserve(t *testing.T) {
	addr := loopbacktest.Reserve(t)
	if other := loopbacktest.Reserve(t); addr == other {
		t.Fatalf("%s is reserved twice", addr)
	}
	for range 2 {
		if c, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial %s: %v, %v", addr, c, err)
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

// TestClaim checks that another process cannot claim a reserved port.
func TestClaim(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have no claims")
	}
	var port int
	if _, err := fmt.Sscanf(loopbacktest.Reserve(t), "127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	if l, err := net.Listen("unix", fmt.Sprintf("@freshet-test-port-%d", port)); err == nil {
		l.Close()
		t.Errorf("port %d can be claimed twice", port)
	}
}
