package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet/freshet/registry"
)

// Finish adds the common parts of all programs to root: version, help, completion,
// usage errors with their exit code, and examples, by command path, of commands that
// have none.
func Finish(root *cobra.Command, examples map[string]string) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = Version()
	root.SetVersionTemplate(fmt.Sprintln(ThisBuild())) // what "freshet version" prints
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return UsageErrorf("%v%s\nSee '%s --help'.", err, nearFlag(c, err), c.CommandPath())
	})
	root.InitDefaultCompletionCmd()
	root.AddCommand(helpCommand(root))
	strict(root)
	exemplify(root, examples)
}

// helpCommand replaces cobra's help. It returns an error for an unknown command.
func helpCommand(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		ValidArgsFunction: func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			about, rest, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			if about.DisableFlagParsing {
				return about.ValidArgsFunction(about, rest, toComplete)
			}
			var names []string
			for _, sub := range about.Commands() {
				names = append(names, sub.Name()+"\t"+sub.Short)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err == nil && about.DisableFlagParsing { // another program has the help
				return about.RunE(about, append(rest, "--help"))
			}
			if err != nil || len(rest) > 0 {
				return UsageErrorf("there is no command %q\nSee '%s --help'.", strings.Join(args, " "), root.CommandPath())
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
	root.SetHelpCommand(c)
	return c
}

// strict makes wrong arguments, flags that exclude each other and unknown subcommands
// usage errors.
func strict(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return UsageErrorf("%s\nUsage: %s", argumentError(c, args, err), c.UseLine())
			}
			if err := c.ValidateFlagGroups(); err != nil {
				return UsageErrorf("%s\nSee '%s --help'.", groupError(err), c.CommandPath())
			}
			return nil
		}
	}
	if c.HasSubCommands() && c.RunE == nil {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return c.Help()
		}
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

// unknownCommand suggests the intended subcommand.
func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		names = append(append(names, sub.Name()), sub.Aliases...)
	}
	hint := ""
	if near := registry.Nearest(name, names); near != "" {
		hint = fmt.Sprintf(", did you mean %s?", near)
	}
	return UsageErrorf("unknown command %q for %q%s\nSee '%s --help'.", name, c.CommandPath(), hint, c.CommandPath())
}

// nearFlag suggests the intended flag of a command, or returns "".
func nearFlag(c *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	var names []string
	for _, flags := range []*pflag.FlagSet{c.Flags(), c.InheritedFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	}
	if near := registry.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		return ", did you mean --" + near + "?"
	}
	return ""
}

// argumentError names the argument that is missing or is one too many.
func argumentError(c *cobra.Command, args []string, err error) string {
	names := strings.Fields(c.Use)[1:]
	if len(args) < len(names) && !strings.HasPrefix(names[len(args)], "[") {
		return strings.TrimSuffix(names[len(args)], "...") + " is missing"
	}
	if len(args) > len(names) {
		return fmt.Sprintf("%q is one argument too many", args[len(names)])
	}
	return err.Error()
}

// groupError names the flags that exclude each other.
func groupError(err error) string {
	_, set, ok := strings.Cut(err.Error(), "; [")
	set, _, all := strings.Cut(set, "] were all set")
	if !ok || !all {
		return err.Error()
	}
	return "--" + strings.ReplaceAll(set, " ", " and --") + " exclude each other: give one of them"
}

// exemplify adds the examples of a table to the commands below c that have none.
func exemplify(c *cobra.Command, table map[string]string) {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	if text, ok := table[path]; ok && c.Example == "" {
		c.Example = "  " + strings.ReplaceAll(text, "\n", "\n  ")
	}
	for _, sub := range c.Commands() {
		exemplify(sub, table)
	}
}
