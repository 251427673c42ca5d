package main

// This file holds the root command, and the smallest ones.

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/demo"
)

func newRoot(w *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "freshet",
		Short: "Keep SPARQL query results up to date and tell applications what changed",
		Long: `Freshet runs registered SPARQL queries against endpoints you do not control,
within a budget of execution seconds per slot, compares results exactly and
pushes what changed over WebSocket and Server-Sent Events.`,
		Example: `  freshet demo                                   see it work: data, queries and page included
  freshet serve --endpoint coins=http://127.0.0.1:3030/sparql
  freshet query add --endpoint coins --name types query.rq
  freshet watch types`,
	}
	root.AddCommand(demo.Command(w), benchCommand(w))
	for _, x := range []row{
		queryTable, endpointTable, feedTable, profileTable, ruleTable, resultsRow, changesTable, metricsTable, watchRow, watchEntityRow,
		watchClassRow, watchCategoryRow, subscriptionTable, notifyTable, webhookTable, letterTable, tokenTable, backupRow, healthRow,
		clusterTable, hintRow, followRow, serveRow, configTable, storeTable, sparqlRow, versionRow,
	} {
		root.AddCommand(tableCommand(w, x))
	}
	root.AddCommand(cli.ManCommand(w, func() *cobra.Command { return root }, "  freshet man ~/.local/share/man/man1"))
	cli.Finish(root, examples())
	return root
}

var healthRow = row{use: "health", short: "Check that a server is ready",
	long: `Asks /readyz and prints its answer. The exit code is 0 when the server is ready, 1
when it is not ready yet, and 5 when it does not answer. No token is needed.`,
	example: "freshet health\nfreshet health --server http://127.0.0.1:8080 --json",
	run: func(a *remote, c *cobra.Command, _ []string) error {
		resp, err := a.send(c.Context(), http.MethodGet, "/readyz", nil, nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		state := strings.TrimSpace(string(b))
		switch {
		case err != nil:
			return err
		case !strings.HasPrefix(state, "ready"):
			return fmt.Errorf("%s answers %q: is it a Freshet server? Name another one with --server", a.base(), state)
		case a.asJSON:
			return cli.PrintJSON(a.w.Stdout, map[string]any{"ready": true, "state": state})
		}
		_, err = fmt.Fprintln(a.w.Stdout, state)
		return err
	}}

var versionRow = row{use: "version", short: "Print the version, the source revision and the Go version", local: "print one JSON object",
	example: "freshet version --json",
	run: func(a *remote, _ *cobra.Command, _ []string) error {
		if a.asJSON {
			return cli.PrintJSON(a.w.Stdout, cli.ThisBuild())
		}
		_, err := fmt.Fprintln(a.w.Stdout, cli.ThisBuild())
		return err
	}}

// examples are those of commands so short that they have none of their own, by
// their path below freshet.
func examples() map[string]string {
	return map[string]string{
		"completion":            "source <(freshet completion bash)",
		"completion bash":       "freshet completion bash > /etc/bash_completion.d/freshet",
		"completion fish":       "freshet completion fish > ~/.config/fish/completions/freshet.fish",
		"completion powershell": "freshet completion powershell | Out-String | Invoke-Expression",
		"completion zsh":        "freshet completion zsh > \"${fpath[1]}/_freshet\"",
		"help":                  "freshet help query add",
	}
}
