// Package loopback reserves addresses for the servers that tests start.
//
// A test that listens itself uses port 0 and asks which port it got. A program with a fixed
// port, or one that restarts on the same port, needs an address that nothing else takes
// before it listens. Other tests listen and connect at the same time, so a port that was
// free a moment ago is not enough.
package loopback

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// Reserve returns an address of the loopback interface. Until the test ends, the system
// gives its port to no other socket. Only a server that names the port can listen on it,
// and connections are refused while none does.
func Reserve(t testing.TB) string {
	t.Helper()
	if addr, release, err := hold(); err == nil {
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			t.Cleanup(release)
			return addr
		}
		release()
	}
	addr, err := unused()
	if err != nil {
		t.Fatalf("no port is free: %v", err)
	}
	return addr
}

// unused returns an address outside the range from which systems choose ports, for systems
// on which none can be held. No two calls of a process return the same address soon.
func unused() (addr string, err error) {
	const first, ports = 10000, 20000
	for range ports {
		n := (os.Getpid()*127 + int(last.Add(1))) % ports
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+n)); err == nil {
			l.Close()
			return l.Addr().String(), nil
		}
	}
	return "", err
}

var last atomic.Int64
