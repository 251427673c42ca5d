package main

// This file holds `freshet config`, which checks and prints the configuration.

import (
	"context"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

func configCommand(w *cli.Env) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check and print the configuration",
		Long: `Values come from the file that --config or FRESHET_CONFIG names, from FRESHET_…
variables and from flags. Flags override variables, and variables override the
file. Every value except the lists of endpoints and tokens has a variable named
after its key, such as FRESHET_LIMITS_BODY for limits.body; the members of lists
are separated by commas. A setting of an endpoint that was edited on the running
server stays in force until its value in the file changes.`}
	var asJSON bool
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.AddCommand(configCheck(w, &asJSON), configPrint(w, &asJSON))
	return c
}

func configCheck(w *cli.Env, asJSON *bool) *cobra.Command {
	var s config.Flags
	c := &cobra.Command{Use: "check", Short: "Check that the configuration is valid", Args: cobra.NoArgs,
		Example: "  freshet config check --config freshet.yaml",
		RunE: func(*cobra.Command, []string) error {
			if _, err := checkedConfig(&s, w); err != nil {
				return err
			}
			if *asJSON {
				return cli.PrintJSON(w.Stdout, map[string]bool{"good": true})
			}
			_, err := io.WriteString(w.Stderr, "the configuration is good\n")
			return err
		}}
	s.Register(c)
	return c
}

func configPrint(w *cli.Env, asJSON *bool) *cobra.Command {
	var s config.Flags
	a := &remote{w: w}
	c := &cobra.Command{Use: "print", Short: "Print each value and where it comes from, secrets masked", Args: cobra.NoArgs,
		Long: `Prints the values from the configuration file, the environment and the flags, and
the source of each value that is not a default. Endpoints can also be edited on the
running server: with --server, the settings in force there are printed.`,
		Example: "  freshet config print --config freshet.yaml\n  freshet config print --server http://127.0.0.1:8080",
		RunE: func(c *cobra.Command, _ []string) error {
			conf, err := checkedConfig(&s, w)
			if err != nil {
				return err
			}
			if a.server != "" {
				if err := showServer(c.Context(), conf, a); err != nil {
					return err
				}
			}
			if *asJSON {
				doc, err := conf.PrintedJSON()
				if err != nil {
					return err
				}
				return cli.PrintJSON(w.Stdout, doc)
			}
			_, err = io.WriteString(w.Stdout, conf.Printed(a.server))
			return err
		}}
	s.Register(c)
	c.Flags().StringVar(&a.server, "server", "", "server whose endpoints are shown as they are in force")
	c.Flags().StringVar(&a.tokenFile, "token-file", "", "file that holds the token for it (default: FRESHET_TOKEN, FRESHET_TOKEN_FILE)")
	return c
}

// checkedConfig loads the configuration and checks its endpoints as opening the
// store does.
func checkedConfig(s *config.Flags, w *cli.Env) (*config.Config, error) {
	conf, err := s.Load(w)
	if err == nil {
		err = server.CheckEndpoints(conf)
	}
	return conf, err
}

// showServer replaces the endpoints of conf by those of a running server, with the
// sources that it knows.
func showServer(ctx context.Context, conf *config.Config, a *remote) error {
	var all struct{ Endpoints []api.Endpoint }
	if err := a.do(ctx, http.MethodGet, "/v1/endpoints", nil, &all); err != nil {
		return err
	}
	var list []registry.Endpoint
	sources := map[string]map[string]registry.Source{}
	for _, e := range all.Endpoints {
		if err := a.do(ctx, http.MethodGet, endpointPath(e.Name), nil, &e); err != nil {
			return err
		}
		list = append(list, e.Endpoint)
		sources[e.Name] = e.Sources
	}
	conf.SetEndpoints(list, func(endpoint string) map[string]registry.Source { return sources[endpoint] })
	return nil
}
