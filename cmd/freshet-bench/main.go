// Command freshet-bench compares refresh policies over recorded or generated
// histories and runs the experiments of papers. "freshet bench" starts it.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// version is set by the linker for releases: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	cli.Release = version
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := cli.OSEnv()
	os.Exit(cli.Run(ctx, newRoot(w), commandLine(os.Args[1:]), w))
}

// newRoot has the one command "freshet bench", so that help, usage and errors
// show what users type.
func newRoot(w *cli.Env) *cobra.Command {
	root := &cobra.Command{Use: "freshet"}
	root.AddCommand(benchCommand(w))
	cli.Finish(root, nil)
	return root
}

// commandLine is what newRoot takes for the arguments of this program, those of a
// request for completions included.
func commandLine(args []string) []string {
	at := 0
	if len(args) > 0 && slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, args[0]) {
		at = 1
	}
	return slices.Insert(slices.Clone(args), at, "bench")
}
