package main

// This file holds `freshet endpoint check`, which tries an endpoint and proposes settings.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"slices"
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
	if err := a.printReport(r, &e, listOf(c, "set")); err != nil {
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
	for name := range body {
		if known := append(registry.Settings(), "name"); !slices.Contains(known, name) {
			hint := ""
			if near := registry.Nearest(name, known); near != "" {
				hint = ", did you mean " + near + "?"
			}
			return e, cli.UsageErrorf("--set: there is no setting %q%s", name, hint)
		}
	}
	body["url"] = address
	if body["name"] == nil {
		body["name"] = nameOf(u.Hostname())
	}
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

// nameOf returns a name for the endpoint at a host.
func nameOf(host string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(host, "www."), "sparql.")
	name = strings.Trim(notInNames.ReplaceAllString(name, "-"), "-._")
	return strings.TrimRight(name[:min(len(name), 64)], "-._")
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// givenSettings returns the settings among those that were given which have no secrets, and the names of the others.
func givenSettings(e *registry.Endpoint, given []string) (shown yaml.MapSlice, secret []string, err error) {
	body, err := settingsBody(given)
	if err != nil {
		return nil, nil, err
	}
	delete(body, "name")
	delete(body, "url")
	masked := e.Masked()
	for _, text := range given {
		name, _, _ := strings.Cut(text, "=")
		value, first := body[name]
		delete(body, name)
		switch n, number := value.(float64); {
		case !first:
		case name == "auth" && !reflect.DeepEqual(e.Auth, masked.Auth), name == "headers" && len(e.Headers) > 0:
			secret = append(secret, name)
		case number && n == math.Trunc(n):
			shown = append(shown, yaml.MapItem{Key: name, Value: int64(n)})
		default:
			shown = append(shown, yaml.MapItem{Key: name, Value: value})
		}
	}
	return shown, secret, nil
}

// printReport prints what was found about an endpoint, and proposes the settings that were given and those that fit.
func (a *remote) printReport(r registry.Report, e *registry.Endpoint, given []string) error {
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
	settings, secret, err := givenSettings(e, given)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.w.Stdout)
	for _, s := range r.Settings {
		fmt.Fprintf(a.w.Stdout, "%s: %v (%s)\n", s.Name, s.Value, s.Why)
		if !slices.ContainsFunc(settings, func(own yaml.MapItem) bool { return own.Key == s.Name }) {
			settings = append(settings, yaml.MapItem{Key: s.Name, Value: s.Value})
		}
	}
	command := "freshet endpoint add " + e.Name + " " + web.ShellWord(r.URL)
	for _, s := range settings {
		text, ok := s.Value.(string)
		if !ok {
			b, err := json.Marshal(s.Value)
			if err != nil {
				return err
			}
			text = string(b)
		}
		command += " --set " + web.ShellWord(fmt.Sprintf("%s=%s", s.Key, text))
	}
	settings = append(yaml.MapSlice{{Key: "name", Value: e.Name}, {Key: "url", Value: r.URL}}, settings...)
	text, err := yaml.Marshal(map[string]any{"endpoints": []yaml.MapSlice{settings}})
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintf(a.w.Stdout, "\n%s\n\n%s", command, text); len(secret) > 0 {
		fmt.Fprintf(a.w.Stderr, "note: %s may have secrets: add them yourself\n", strings.Join(secret, " and "))
	}
	return err
}
