package main

// This file holds `freshet serve`, which runs the server until a signal ends it.

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
)

var serveRow = row{use: "serve", short: "Run the server", local: "print one JSON object with the URL and the version",
	long: `Runs the server until SIGTERM or Ctrl-C. It then stops slots, asks followers to
reconnect later, and ends within 15 seconds. Requests that have not ended by then
are abandoned, and nothing committed is lost. SIGHUP reads the configuration file
again and applies endpoints, feeds, tokens and a renewed certificate; other settings
apply at the next start. An invalid file changes nothing.`,
	example: "freshet serve --endpoint coins=http://127.0.0.1:3030/sparql\nfreshet serve --config /etc/freshet.yaml", conf: serve}

func serve(a *remote, c *cobra.Command, s *config.Flags) error {
	ctx, w := c.Context(), a.w
	conf, err := s.Load(w)
	if err != nil {
		return err
	}
	log := conf.Log.Logger(w)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // now, because a node may wait for its journal
	defer signal.Stop(hangups)
	srv, err := server.New(ctx, conf, log)
	if err != nil {
		return err
	}
	defer srv.Close()
	stop := onHangup(hangups, func() { reload(w, s, srv, log) })
	defer stop()
	fmt.Fprintf(w.Stderr, "Freshet %s serving at %s\n", cli.Version(), srv.URL())
	if a.asJSON {
		if err := cli.PrintJSON(w.Stdout, map[string]string{"url": srv.URL(), "version": cli.Version()}); err != nil {
			return err
		}
	}
	if err := srv.LogStart(); err != nil {
		return err
	}
	manager := newSupervisor(w.Getenv, log)
	srv.WhenReady = func(ctx context.Context) {
		manager.notify("READY=1")
		go manager.watchdog(ctx, srv.Alive)
	}
	srv.WhenStopping = func() { manager.notify("STOPPING=1") }
	return srv.Run(ctx)
}

func reload(w *cli.Env, s *config.Flags, srv *server.Server, log *slog.Logger) {
	conf, err := s.Load(w)
	if err == nil {
		err = srv.Reload(conf)
	}
	if err != nil {
		log.Error("the configuration was not reloaded, the old settings stay in force", "error", err)
		return
	}
	log.Info("the configuration is reloaded")
}

// onHangup calls do for each signal of a channel until the returned function is called.
func onHangup(c chan os.Signal, do func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range c {
			do()
		}
	}()
	return func() {
		signal.Stop(c)
		close(c)
		<-done
	}
}

// A supervisor is the service manager that started the process. It receives READY,
// STOPPING and the watchdog of systemd's sd_notify protocol, one datagram each.
// Without a service manager nothing is sent.
type supervisor struct {
	socket string
	every  time.Duration // the watchdog's limit between two heartbeats; 0 for none
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

// watchdog sends heartbeats until ctx ends. It calls alive before each, which does
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
