package loopbacktest

// This file keeps the ports of this process from other processes that use this package.

import (
	"fmt"
	"net"
)

// claim takes a port for this process until release is called. The claim is a Unix socket without
// a file, which ends with the process.
func claim(port int) (release func(), err error) {
	l, err := net.Listen("unix", fmt.Sprintf("@freshet-test-port-%d", port))
	if err != nil {
		return nil, err
	}
	return func() { l.Close() }, nil
}
