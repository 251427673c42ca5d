package notify

import (
	"net/http"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
)

// The number of connections of one address is limited. An IPv6 /64 network counts as
// one address, and this machine's own addresses do not count.
func TestConnectionsOfOneAddress(t *testing.T) {
	s := NewServer(Options{Limits: Limits{OneAddress: 2}})
	enter := func(remote string, forwarded ...string) *Place {
		t.Helper()
		r := &http.Request{RemoteAddr: remote, Header: http.Header{}}
		if len(forwarded) > 0 {
			r.Header["X-Forwarded-For"] = forwarded
		}
		at, ok := s.Connect(nil, r, registry.SSE)
		if !ok {
			t.Fatal("the server is down")
		}
		return at
	}
	first := enter("203.0.113.9:1000")
	for i, c := range []struct {
		remote    string
		forwarded []string
		crowded   bool
	}{
		{"203.0.113.9:1001", nil, false},
		{"203.0.113.9:1002", nil, true},
		{"203.0.113.8:1", nil, false},
		{"[2001:db8::1]:1", nil, false},
		{"[2001:db8::2]:1", nil, false},
		{"[2001:db8::3]:1", nil, true},
		{"127.0.0.1:1", nil, false},
		{"127.0.0.1:2", nil, false},
		{"127.0.0.1:3", nil, false},
		{"[::1]:3", nil, false},
		{"[::1]:4", nil, false},
		{"[::1]:5", nil, false},
		{"127.0.0.1:4", []string{"203.0.113.9"}, true},
		{"203.0.113.7:4", []string{"203.0.113.9"}, false},
	} {
		if at := enter(c.remote, c.forwarded...); (at.Refused != "") != c.crowded {
			t.Errorf("%d: %s %v: crowded %q, want %t", i, c.remote, c.forwarded, at.Refused, c.crowded)
		}
	}
	if at := enter("203.0.113.9:1002"); !strings.Contains(at.Refused, "limits.address_connections") || len(at.Refused) > 123 {
		t.Errorf("refused with %q", at.Refused)
	} else {
		at.Leave()
	}
	first.Leave()
	// Two of those refused are still to be closed.
	if n := s.addresses["203.0.113.9"]; n != 3 {
		t.Errorf("%d are counted", n)
	}
}
