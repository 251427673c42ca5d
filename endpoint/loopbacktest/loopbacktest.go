// Package loopbacktest reserves addresses for the servers that tests start.
//
// A test that listens itself uses port 0 and asks which port it got. A program with a fixed
// port, or one that restarts on the same port, needs an address that nothing else takes
// before it listens. Other tests listen and connect at the same time, so a port that was
// free a moment ago is not enough.
package loopbacktest

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// The ports are outside the range from which systems choose ports for sockets that name none.
const firstPort, ports = 10000, 20000

// Reserve returns an address of the loopback interface. Until the test ends, neither the system
// nor another call of Reserve, in any process, gives its port to something else. Only a server that
// names the port can listen on it, and connections are refused while none does.
func Reserve(t testing.TB) string {
	t.Helper()
	var err error
	for range ports {
		port := firstPort + (os.Getpid()*127+int(last.Add(1)))%ports
		var release func()
		if release, err = claim(port); err != nil {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			l.Close()
			t.Cleanup(release)
			return addr
		}
		release()
	}
	t.Fatalf("no port is free: %v", err)
	return ""
}

var last atomic.Int64
