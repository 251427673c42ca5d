package ui

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// A body that is announced and does not arrive ends the connection on every page, form, text and
// stream, with or without a sign-in.
func TestEveryBodyHasTime(t *testing.T) {
	ops, _ := token("ops", registry.RoleAdmin)
	for name, tokens := range map[string][]registry.Token{"open": nil, "tokens": {ops}} {
		t.Run(name, func(t *testing.T) {
			r := newRigWith(t, func(_ *rig, c *Config) { c.Limits.BodyTime = 200 * time.Millisecond }, tokens...)
			lines := []string{"GET /signin", "GET /nowhere", "POST /nowhere", "GET /ui/static/x/y", "POST /ui/static/x/y"}
			for _, p := range r.pages.pages() {
				lines = append(lines, "GET "+p.path, "PUT "+p.path)
				if p.live {
					lines = append(lines, "GET /ui/events"+p.path)
				}
			}
			for _, a := range r.pages.actions() {
				lines = append(lines, "POST "+a.path)
			}
			for _, a := range texts {
				lines = append(lines, "GET "+a.path)
			}
			var wait sync.WaitGroup
			defer wait.Wait()
			for _, line := range lines {
				line = strings.NewReplacer("{$}", "", "{id}", "x", "{name}", "x", "{seq}", "1").Replace(line)
				for _, accept := range []string{"text/html", "*/*"} {
					wait.Go(func() { ends(t, r.server.Listener.Addr().String(), line, accept) })
				}
			}
		})
	}
}

func ends(t *testing.T, addr, line, accept string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, line+" HTTP/1.1\r\nHost: localhost\r\nAccept: "+accept+
		"\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\nx"); err != nil {
		t.Error(err)
		return
	}
	_, err = io.Copy(io.Discard, conn)
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
		t.Errorf("%s stays open", line)
	}
}
