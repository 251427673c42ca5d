// Command freshet keeps SPARQL query results up to date and tells applications
// what changed.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // slots in time zones also where the system has none

	"github.com/freshet/freshet/cmd/internal/cli"
)

// version is set by the linker for releases: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	cli.Release = version
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := cli.OSEnv()
	os.Exit(cli.Run(ctx, newRoot(w), os.Args[1:], w))
}
