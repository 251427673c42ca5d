package main

// This file holds `freshet config`, which checks and prints the configuration.

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

var configTable = row{use: "config", short: "Check and print the configuration", local: "print one JSON object",
	long: `Values come from the file that --config or FRESHET_CONFIG names, from FRESHET_…
variables and from flags. Flags override variables, and variables override the
file. Every value except the lists of endpoints, feeds and tokens, cluster.peers and
cluster.api has a variable named after its key, such as FRESHET_LIMITS_BODY for
limits.body; the members of lists are separated by commas. A setting of an endpoint that was edited on the running
server stays in force until its value in the file changes.`,
	example: "freshet config check --config freshet.yaml\nfreshet config print",
	rows: []row{
		{use: "check", short: "Check that the configuration is valid and that a server would start with it",
			long: `Checks the values, and that a server beyond this machine has tokens, as "freshet serve"
does. The store is not opened: if there is one, a note says what it has to have.`,
			example: "freshet config check --config freshet.yaml",
			conf: func(a *remote, _ *cobra.Command, s *config.Flags) error {
				conf, err := s.Load(a.w)
				if err != nil {
					return err
				}
				doubts, err := server.CheckStart(conf)
				if err != nil {
					return err
				}
				for _, text := range doubts {
					fmt.Fprintln(a.w.Stderr, "note:", text)
				}
				if a.asJSON {
					return cli.PrintJSON(a.w.Stdout, map[string]bool{"good": true})
				}
				_, err = io.WriteString(a.w.Stderr, "the configuration is good\n")
				return err
			}},
		{use: "print", short: "Print each value and where it comes from, secrets masked",
			long: `Prints the values from the configuration file, the environment and the flags, and
the source of each value that is not a default. Endpoints can also be edited on the
running server: with --server, the settings in force there are printed.`,
			example: "freshet config print --config freshet.yaml\nfreshet config print --server http://127.0.0.1:8080",
			conf:    printConfig, flags: []option{
				{name: "server", value: "", usage: "server whose endpoints are shown as they are in force"},
				{name: "token-file", value: "", usage: "file that holds the token for it (default: FRESHET_TOKEN, FRESHET_TOKEN_FILE)"},
			}},
	}}

func printConfig(a *remote, c *cobra.Command, s *config.Flags) error {
	conf, err := s.Load(a.w)
	if err == nil {
		err = server.CheckEndpoints(conf)
	}
	if err != nil {
		return err
	}
	if a.server, a.tokenFile = textOf(c, "server"), textOf(c, "token-file"); a.server != "" {
		if err := showServer(c.Context(), conf, a); err != nil {
			return err
		}
	}
	if a.asJSON {
		doc, err := conf.PrintedJSON()
		if err != nil {
			return err
		}
		return cli.PrintJSON(a.w.Stdout, doc)
	}
	_, err = io.WriteString(a.w.Stdout, conf.Printed(a.server))
	return err
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
