package main

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"time"
)

// A supervisor is the service manager that started the process. It receives READY,
// STOPPING and the watchdog of systemd's sd_notify protocol, one datagram each.
// Without a service manager nothing is sent.
type supervisor struct {
	socket string
	every  time.Duration // the watchdog's limit between two signs of life; 0 for none
	log    *slog.Logger
}

func newSupervisor(getenv func(string) string, log *slog.Logger) supervisor {
	s := supervisor{socket: getenv("NOTIFY_SOCKET"), log: log}
	if n, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && n > 0 {
		s.every = time.Duration(n) * time.Microsecond
	}
	return s
}

func (s supervisor) notify(state string) {
	if s.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err == nil {
		defer c.Close()
		_, err = c.Write([]byte(state))
	}
	if err != nil {
		s.log.Warn("the service manager cannot be notified", "state", state, "error", err)
	}
}

// watchdog sends signs of life until ctx ends. It calls alive before each, which does
// not return in a server that hangs; then the service manager restarts the server.
func (s supervisor) watchdog(ctx context.Context, alive func()) {
	if s.socket == "" || s.every == 0 {
		return
	}
	t := time.NewTicker(s.every / 3)
	defer t.Stop()
	for {
		alive()
		s.notify("WATCHDOG=1")
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
