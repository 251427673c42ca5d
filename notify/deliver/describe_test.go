package deliver

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
)

// What went wrong is said without addresses: neither ours nor where a name led.
func TestDescribeNamesNoAddress(t *testing.T) {
	here, there := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 40001}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 443}
	for op, cause := range map[string]error{"read": syscall.ECONNRESET, "write": syscall.EPIPE, "dial": syscall.ECONNREFUSED} {
		err := fmt.Errorf("send: %w", &url.Error{Op: "Post", URL: "http://secret.example/?key=hush",
			Err: &net.OpError{Op: op, Net: "tcp", Source: here, Addr: there, Err: os.NewSyscallError("x", cause)}})
		if got := describe(err); strings.Contains(got, "10.1.2.3") || strings.Contains(got, "192.0.2.7") ||
			strings.Contains(got, "hush") || !strings.Contains(got, cause.Error()) {
			t.Errorf("%q", got)
		}
	}
	if got := describe(&net.DNSError{Err: "no such host", Name: "x.example", Server: "10.1.2.3:53"}); strings.Contains(got, "10.1.2.3") {
		t.Errorf("%q", got)
	}
}
