package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet/freshet/cmd/internal/cli"
)

var update = flag.Bool("update", false, "write the pages of the reference")

// upToDate compares a page that is made from the code with the code.
func upToDate(t *testing.T, page, want string) {
	t.Helper()
	page = "../../web/docs/" + page
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s differs from the code (-code +page); run: go test ./cmd/freshet -run Help -update\n%s", page, diff)
	}
}

// inCell returns a text as a cell of a table in Markdown.
func inCell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`, "\n", " ").Replace(strings.TrimSpace(text))
}

// The page on the command line is made from the commands.
func TestHelpIsInReference(t *testing.T) {
	root := newRoot(&cli.Env{Stdin: strings.NewReader(""), Stdout: &strings.Builder{}, Stderr: &strings.Builder{},
		Getenv: func(string) string { return "" }})
	var b strings.Builder
	b.WriteString("# Command line\n\nEvery command of `freshet`. `freshet COMMAND --help` shows the same. A test makes this " +
		"page from the code.\n\n" +
		"| exit code | meaning |\n|---|---|\n")
	for code, meaning := range []string{cli.ExitOK: "success", cli.ExitFailure: "failure",
		cli.ExitUsage:    "wrong usage, or a wrong configuration",
		cli.ExitNotFound: "the server does not know what the command names, or has no result of it yet",
		cli.ExitAuth: "the token is missing or wrong, or its " +
			"role does not suffice",
		cli.ExitUnreachable: "the server cannot be reached"} {
		fmt.Fprintf(&b, "| %d | %s |\n", code, meaning)
	}
	b.WriteString("\nCommands that talk to a server have these flags:\n\n")
	flagTable(&b, clientFlags(t, root))
	b.WriteString("\n| command | what it does |\n|---|---|\n")
	for _, c := range root.Commands() {
		if shown(c) {
			fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), inCell(c.Short))
		}
	}
	for _, c := range root.Commands() {
		helpOf(&b, c, 2)
	}
	upToDate(t, "reference-cli.md", b.String())
}

func shown(c *cobra.Command) bool { return c.IsAvailableCommand() || c.Name() == "help" }

// clientFlags returns the flags that the commands of the client share.
func clientFlags(t *testing.T, root *cobra.Command) *pflag.FlagSet {
	c, _, err := root.Find([]string{"query"})
	if err != nil || c.PersistentFlags().Lookup("token-file") == nil {
		t.Fatalf("query has no flag token-file: %v", err)
	}
	return c.PersistentFlags()
}

func helpOf(b *strings.Builder, c *cobra.Command, level int) {
	if !shown(c) {
		return
	}
	fmt.Fprintf(b, "\n%s %s\n\n%s.\n", strings.Repeat("#", min(level, 4)), c.CommandPath(), inCell(strings.TrimSuffix(c.Short, ".")))
	if c.Long != "" && c.Name() != "completion" && c.Parent().Name() != "completion" {
		for _, paragraph := range strings.Split(c.Long, "\n\n") {
			if strings.HasPrefix(paragraph, "  ") || strings.Contains(paragraph, "\n  ") {
				fmt.Fprintf(b, "\n```\n%s\n```\n", strings.Trim(paragraph, "\n"))
				continue
			}
			fmt.Fprintf(b, "\n%s\n", strings.NewReplacer("<", `\<`, "*", `\*`).Replace(strings.TrimSpace(paragraph)))
		}
	}
	if c.Runnable() && !c.HasSubCommands() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", strings.TrimSuffix(c.UseLine(), " [flags]"))
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	add := func(f *pflag.Flag) {
		if common := f.Name == "help" || f.Name == "json" || f.Name == "server" || f.Name == "token-file"; !f.Hidden && !common {
			own.AddFlag(f)
		}
	}
	c.LocalNonPersistentFlags().VisitAll(add)
	c.PersistentFlags().VisitAll(add)
	if own.HasFlags() {
		b.WriteString("\n")
		flagTable(b, own)
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```\n%s\n```\n", strings.ReplaceAll(strings.Trim(c.Example, "\n")[2:], "\n  ", "\n"))
	}
	for _, sub := range c.Commands() {
		helpOf(b, sub, level+1)
	}
}

// flags writes a table of flags.
func flagTable(b *strings.Builder, set *pflag.FlagSet) {
	b.WriteString("| flag | value | default | meaning |\n|---|---|---|---|\n")
	set.VisitAll(func(f *pflag.Flag) {
		kind := map[string]string{"bool": "", "int": "whole number", "uint64": "whole number", "float64": "number",
			"stringArray": "text, repeatable", "stringSlice": "list", "strings": "list", "string": "text"}
		value, known := kind[f.Value.Type()]
		if !known {
			value = f.Value.Type()
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		def := f.DefValue
		if def == "[]" || def == "false" || def == "0" || def == "0s" {
			def = ""
		}
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, value, def, inCell(f.Usage))
	})
}
