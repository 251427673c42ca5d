package main

// This file holds `freshet endpoint check`, which tries an endpoint and proposes settings.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

var checkRow = row{use: "check URL", short: "Try an endpoint with a few requests, and propose settings",
	long: fmt.Sprintf(`Tries an endpoint with at most %d small requests, at a public host one second apart:
formats, row cap, conditional requests, errors, speed and features of SPARQL. It prints the
findings, and settings as a command and as YAML. It needs no server. The exit code is 1 if
the endpoint does not answer SPARQL.`, endpoint.MaxCheckRequests),
	example: "freshet endpoint check https://dbpedia.org/sparql --contact mailto:you@example.org",
	run:     checkEndpoint, flags: []option{
		{name: "contact", value: variable(contact), usage: "mail or web address for the operators of public endpoints"},
		{name: "set", value: texts(nil), usage: "setting as KEY=VALUE, e.g. timeout=60s; may be given several times"},
	}}

func checkEndpoint(a *remote, c *cobra.Command, args []string) error {
	e, err := checkedEndpoint(args[0], listOf(c, "set"))
	if err != nil {
		return err
	}
	r, err := endpoint.Check(c.Context(), e, endpoint.Options{Contact: textOf(c, "contact"), Version: cli.Version()})
	if err != nil {
		return checkError(c.Context(), err)
	}
	if err := a.printReport(r, e.Name); err != nil {
		return err
	}
	if !r.Answers {
		return fmt.Errorf("%s does not answer SPARQL", e.URL)
	}
	return nil
}

// checkError adds an exit code to errors about settings.
func checkError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if errors.Is(err, endpoint.ErrNoContact) {
		return cli.UsageErrorf("%v: name one with --contact mailto:you@example.org", endpoint.ErrNoContact)
	}
	return cli.WithCode(cli.ExitUsage, err)
}

// checkedEndpoint returns the endpoint at a URL, with settings.
func checkedEndpoint(address string, set []string) (e registry.Endpoint, err error) {
	body, err := settingsBody(set)
	if err != nil {
		return e, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return e, cli.UsageErrorf("%q is not the URL of an endpoint, such as https://query.wikidata.org/sparql", address)
	}
	body["url"] = address
	body["name"] = strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(u.Hostname(), "www."), "sparql."), ":", "-")
	b, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err == nil {
		err = registry.CheckEndpoint(e.WithDefaults(), nil)
	}
	if err != nil {
		return e, cli.WithCode(cli.ExitUsage, err)
	}
	return e, nil
}

func (a *remote) printReport(r registry.Report, name string) error {
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, r)
	}
	for _, f := range r.Findings {
		line := "yes  " + f.Topic
		if !f.OK {
			line = "no   " + f.Topic
		}
		if f.Detail != "" {
			line += ": " + show.Bounded(f.Detail)
		}
		fmt.Fprintln(a.w.Stdout, line)
	}
	fmt.Fprintf(a.w.Stdout, "%s\n", show.Quantity(r.Requests, "request"))
	if !r.Answers {
		return nil
	}
	command := "freshet endpoint add " + name + " " + web.ShellWord(r.URL)
	settings := yaml.MapSlice{{Key: "name", Value: name}, {Key: "url", Value: r.URL}}
	fmt.Fprintln(a.w.Stdout)
	for _, s := range r.Settings {
		fmt.Fprintf(a.w.Stdout, "%s: %v (%s)\n", s.Name, s.Value, s.Why)
		settings = append(settings, yaml.MapItem{Key: s.Name, Value: s.Value})
		command += " --set " + web.ShellWord(fmt.Sprintf("%s=%v", s.Name, s.Value))
	}
	text, err := yaml.Marshal(map[string]any{"endpoints": []yaml.MapSlice{settings}})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.w.Stdout, "\n%s\n\n%s", command, text)
	return err
}
