package live

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/notify"
)

// A connection waits for its client before it calls the library, whose frames would keep its stack from shrinking.
func TestWaitsOnASmallStack(t *testing.T) {
	hub := notify.NewServer(notify.Options{Logger: slog.New(slog.DiscardHandler)})
	defer hub.Shutdown(context.Background()) //nolint:errcheck // it does not fail without a deadline
	s := httptest.NewServer(New(hub))
	defer s.Close()
	d := websocket.Dialer{Subprotocols: []string{Subprotocol}}
	c, _, err := d.Dial("ws"+strings.TrimPrefix(s.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stacks := make([]byte, 1<<20)
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		for g := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
			if bytes.Contains(g, []byte("live.(*Conn).serve(")) && bytes.Contains(g, []byte("[IO wait")) {
				if bytes.Contains(g, []byte("websocket.(*Conn)")) {
					t.Errorf("the library waits:\n%s", g)
				}
				return
			}
		}
		if time.Since(start) > time.Minute {
			t.Fatal("no goroutine waits for the client")
		}
	}
}
