package main

// This file holds `freshet health`, the health check of containers, which have no curl.

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
)

func healthCommand(w *cli.Env) *cobra.Command {
	a := &remote{w: w}
	c := &cobra.Command{Use: "health", Short: "Check that a server is ready", Args: cobra.NoArgs,
		Long: `Asks /readyz and prints its answer. The exit code is 0 when the server is ready, 1
when it is not ready yet, and 5 when it does not answer. No token is needed.`,
		Example: "  freshet health\n  freshet health --server http://127.0.0.1:8080 --json",
		RunE: func(c *cobra.Command, _ []string) error {
			resp, err := a.send(c.Context(), http.MethodGet, "/readyz", "", nil)
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
				return cli.PrintJSON(w.Stdout, map[string]any{"ready": true, "state": state})
			}
			_, err = fmt.Fprintln(w.Stdout, state)
			return err
		}}
	a.flags(c)
	return c
}
