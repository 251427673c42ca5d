package clitest

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/spf13/cobra"
)

// commands lists all commands of the program.
func commands(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		list = append(list, commands(sub)...)
	}
	return list
}

var (
	exampleLine = regexp.MustCompile(`freshet ([^|>&)]*)`)
	shellWord   = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
)

// ShellWords splits a line as a shell would, a comment after wide blanks left out.
func ShellWords(line string) []string {
	line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
	var list []string
	for _, field := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(line, -1) {
		if field == "…" { // and so on
			break
		}
		list = append(list, shellWord.ReplaceAllStringFunc(field, func(s string) string { return strings.Trim(s, `'"`) }))
	}
	return list
}

// CheckCommands fails unless every command below path shows how it is used, in
// lines that its own flags and arguments allow, and prints JSON when asked. What
// another program does is not checked.
func CheckCommands(t *testing.T, newRoot func(*cli.Env) *cobra.Command, path ...string) {
	testRoot := func() *cobra.Command {
		return newRoot(&cli.Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }})
	}
	top, _, err := testRoot().Find(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands(top) {
		if c.Example == "" {
			t.Errorf("%s shows no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			for _, m := range exampleLine.FindAllStringSubmatch(line, -1) {
				root := testRoot()
				about, rest, err := root.Find(ShellWords(m[1]))
				if err == nil {
					err = parse(about, rest)
				}
				if err != nil || about == root {
					t.Errorf("example of %s: %q is not possible: %v", c.CommandPath(), strings.TrimSpace(line), err)
				}
			}
		}
		if parts := strings.Fields(c.CommandPath()); len(parts) > 1 && parts[1] != "completion" && parts[1] != "help" &&
			!c.HasSubCommands() && !c.DisableFlagParsing {
			if c.Flag("json") == nil {
				t.Errorf("%s has no --json", c.CommandPath())
			}
		}
	}
}

// parse reads flags and arguments as the program would, and runs nothing.
func parse(c *cobra.Command, args []string) error {
	if err := c.ParseFlags(args); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}
