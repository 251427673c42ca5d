package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newRoot(w *world) *cobra.Command {
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
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       programVersion(),
	}
	root.SetVersionTemplate(fmt.Sprintln(thisBuild())) // what "freshet version" prints
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%v\nSee '%s --help'.", err, c.CommandPath())
	})
	root.AddCommand(serveCommand(w), demoCommand(w), sparqlCommand(w), queryCommand(w), watchCommand(w),
		endpointCommand(w), profileCommand(w), hintCommand(w), subscriptionCommand(w), webhookCommand(w), tokenCommand(w), configCommand(w), backupCommand(w), storeCommand(w), benchCommand(w), versionCommand(w))
	root.InitDefaultCompletionCmd()
	root.AddCommand(helpCommand(root))
	strict(root)
	exemplify(root, examples())
	return root
}

// helpCommand is help that says so when there is no such command.
func helpCommand(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, sub := range about.Commands() {
				names = append(names, sub.Name()+"\t"+sub.Short)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usage("there is no command %q\nSee '%s --help'.", strings.Join(args, " "), root.CommandPath())
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
	root.SetHelpCommand(c)
	return c
}

// strict makes wrong arguments and unknown subcommands usage errors.
func strict(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usage("%v\nUsage: %s", err, c.UseLine())
			}
			return nil
		}
	}
	if c.HasSubCommands() && c.RunE == nil {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q for %q\nSee '%s --help'.", args[0], c.CommandPath(), c.CommandPath())
			}
			return c.Help()
		}
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}
