package feed

import (
	"net/http"
	"testing"
)

// A stream can be silent for long, and pings show whether its HTTP/2 connection is alive.
func TestConnectionsAreLookedAfter(t *testing.T) {
	if h := newClient(Options{}).http.Transport.(*http.Transport).HTTP2; h == nil || h.SendPingTimeout == 0 {
		t.Errorf("no pings: %+v", h)
	}
}
