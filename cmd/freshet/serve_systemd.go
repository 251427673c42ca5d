package main

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"time"
)

// A supervisor is the service manager that started the process, as systemd's
// sd_notify knows it: READY, STOPPING and the watchdog are all that is needed of
// the protocol, one datagram each. Without one all of it does nothing.
type supervisor struct {
	socket string
	every  time.Duration // a sign of life is due within this time; 0 for none
	log    *slog.Logger
}

func newSupervisor(getenv func(string) string, log *slog.Logger) supervisor {
	s := supervisor{socket: getenv("NOTIFY_SOCKET"), log: log}
	if n, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && n > 0 {
		s.every = time.Duration(n) * time.Microsecond
	}
	return s
}

func (s supervisor) tell(state string) {
	if s.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err == nil {
		defer c.Close()
		_, err = c.Write([]byte(state))
	}
	if err != nil {
		s.log.Warn("the service manager was not told", "state", state, "error", err)
	}
}

// watchdog gives a sign of life for as long as alive returns, until ctx ends.
// A server that hangs gives none, and the service manager restarts it.
func (s supervisor) watchdog(ctx context.Context, alive func()) {
	if s.socket == "" || s.every == 0 {
		return
	}
	t := time.NewTicker(s.every / 3)
	defer t.Stop()
	for {
		alive()
		s.tell("WATCHDOG=1")
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
