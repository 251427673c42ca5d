package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// ManCommand returns the command "man DIR". It writes the manual pages of top and of the
// commands below it from their help texts.
func ManCommand(w *Env, top func() *cobra.Command, example string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages of all commands into a directory", Args: cobra.ExactArgs(1),
		Long: `Writes one manual page for each command, made from its help. The pages have the
present day as their date, or the time in SOURCE_DATE_EPOCH (seconds since 1970).`,
		Example: example,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			if err := writeManual(top(), args[0]); err != nil {
				return fmt.Errorf("write the manual pages: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "*.1"))
			if err != nil || !asJSON {
				return err
			}
			return PrintJSON(w.Stdout, map[string]any{"directory": args[0], "pages": len(pages)})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object that says what was written")
	return c
}

func writeManual(c *cobra.Command, dir string) error {
	unsigned(c)
	return doc.GenManTree(c, &doc.GenManHeader{Section: "1", Source: "freshet " + Version(), Manual: "Freshet"}, dir)
}

// unsigned removes the line about the generator from the pages of c and those below it.
func unsigned(c *cobra.Command) {
	c.DisableAutoGenTag = true
	for _, sub := range c.Commands() {
		unsigned(sub)
	}
}
