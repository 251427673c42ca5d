package main

// This file holds the root command and `freshet version`.

import (
	"fmt"

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
	root.AddCommand(serveCommand(w), demo.Command(w, changeLine), sparqlCommand(w),
		hintCommand(w), configCommand(w), clusterCommand(w), backupCommand(w), storeCommand(w), benchCommand(w), healthCommand(w), versionCommand(w))
	for _, x := range []row{queryTable, endpointTable, profileTable, ruleTable, resultsRow, changesTable, metricsTable, watchRow, watchEntityRow, watchClassRow, watchCategoryRow, subscriptionTable, webhookTable, letterTable, tokenTable} {
		root.AddCommand(clientCommand(w, x))
	}
	root.AddCommand(followCommand(w))
	root.AddCommand(cli.ManCommand(w, func() *cobra.Command { return root }, "  freshet man ~/.local/share/man/man1"))
	cli.Finish(root, examples())
	return root
}

func versionCommand(w *cli.Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version, the source revision and the Go version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return cli.PrintJSON(w.Stdout, cli.ThisBuild())
			}
			_, err := fmt.Fprintln(w.Stdout, cli.ThisBuild())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
