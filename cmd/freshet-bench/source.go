package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// A recordingSource is a dataset, its changes and the queries about it: the input of
// the commands record and replay.
type recordingSource struct {
	changesets, base, queries string
	endpoint, update, param   string
	graph, engine, contact    string
	perChangeset, skipEmpty   bool
	limit                     int
	timeout                   time.Duration
	w                         *cli.Env
	remote                    bool
	local                     *local.Engine
	url                       string
	stop                      []func()
}

func (h *recordingSource) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&h.changesets, "changesets", "", "directory of changesets in DBpedia Live layout")
	f.StringVar(&h.base, "base", "", "dataset before the first changeset: .nt or .nt.gz")
	f.StringVar(&h.queries, "queries", "", "queries: JSON lines with id and query")
	f.StringVar(&h.endpoint, "endpoint", "", "SPARQL endpoint to ask (default: the embedded engine)")
	f.StringVar(&h.update, "update", "", "URL for updates (default: the endpoint)")
	f.StringVar(&h.param, "update-param", "update", "form parameter of an update; Virtuoso wants query")
	f.StringVar(&h.graph, "graph", "", "graph that holds the dataset (default: the default graph)")
	f.StringVar(&h.engine, "engine", "", "engine file (default: the one in the program)")
	f.StringVar(&h.contact, "contact", "", "mail or web address for the User-Agent, for endpoints that are not yours")
	f.BoolVar(&h.perChangeset, "per-changeset", false, "a revision after each changeset (default: after each hour)")
	f.BoolVar(&h.skipEmpty, "skip-empty", false, "leave hours without a changeset out")
	f.IntVar(&h.limit, "limit", 0, "stop after so many revisions (0 = all)")
	f.DurationVar(&h.timeout, "timeout", time.Minute, "longest execution of one query")
}

// open checks the command line, and starts the embedded engine unless --endpoint names
// another one.
func (h *recordingSource) open(ctx context.Context, w *cli.Env) ([]registry.Query, []trace.Step, error) {
	h.w, h.remote = w, h.endpoint != ""
	for _, f := range []struct{ flag, value string }{{"changesets", h.changesets}, {"base", h.base}, {"queries", h.queries}} {
		if f.value == "" {
			return nil, nil, cli.UsageErrorf("--%s is missing", f.flag)
		}
		if _, err := os.Stat(f.value); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, cli.UsageErrorf("--%s: %s does not exist", f.flag, f.value)
		}
	}
	f, err := os.Open(h.queries)
	if err != nil {
		return nil, nil, cli.UsageErrorf("--queries: %v", err)
	}
	defer f.Close()
	queries, err := trace.ReadQueries(f, h.queries)
	if err != nil {
		return nil, nil, err
	}
	steps, err := h.steps()
	if err != nil {
		return nil, nil, err
	}
	if h.remote {
		h.url = h.endpoint
		if h.update == "" {
			h.update = h.endpoint
		}
		return queries, steps, nil
	}
	return queries, steps, h.start(ctx)
}

// start serves the embedded engine on loopback.
func (h *recordingSource) start(ctx context.Context) error {
	log := config.Log{Level: "error", Format: "auto"}.Logger(h.w)
	e, err := cli.OpenEngine(ctx, h.engine, log)
	if err != nil {
		return err
	}
	h.stop = append(h.stop, func() { e.Close() })
	s, err := local.Listen(ctx, "127.0.0.1:0", local.Handler(e, local.HandlerOptions{Logger: log}))
	if err != nil {
		return err
	}
	h.stop = append(h.stop, func() { s.Close() })
	h.local, h.url = e, s.URL
	return nil
}

func (h *recordingSource) close() {
	for i := len(h.stop) - 1; i >= 0; i-- {
		h.stop[i]()
	}
}

// client returns the client of the server for the endpoint.
func (h *recordingSource) client() (*endpoint.Client, error) {
	e := registry.Endpoint{Name: "bench", URL: h.url, Timeout: registry.Duration(h.timeout)}
	if h.graph != "" {
		e.DefaultGraphURI = []string{h.graph}
	}
	return endpoint.New(e.WithDefaults(), endpoint.Options{Contact: h.contact, Version: cli.Version()})
}

// load loads the base, the dataset before the first changeset.
func (h *recordingSource) load(ctx context.Context) error {
	if !h.remote {
		return h.local.LoadFile(ctx, h.base)
	}
	return h.send(ctx, local.Changeset{Name: "the base", Files: map[string]string{"added": h.base}})
}

// reload makes the dataset from the base again. A recording that begins does not delete
// what it finds. After a kill the endpoint may still execute the last request of the
// process, so that the dataset has to stay empty for a while.
func (h *recordingSource) reload(ctx context.Context, ask *endpoint.Client, resumes bool) error {
	const calm, pause = 4, 250 * time.Millisecond
	for empty := 0; h.remote && empty < calm; empty++ {
		n, err := h.triples(ctx, ask)
		switch {
		case err != nil:
			return err
		case n == "0" && !resumes:
			empty = calm
		case !resumes:
			return cli.UsageErrorf("--graph: %s holds %s triples already; name one that is empty",
				cmp.Or(h.graph, "the endpoint's default graph"), n)
		case n != "0":
			if err := h.post(ctx, "CLEAR SILENT "+h.whole()); err != nil {
				return err
			}
			empty = -1
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return h.load(ctx)
}

// whole is the graph of the dataset in an update.
func (h *recordingSource) whole() string {
	if h.graph == "" {
		return "DEFAULT"
	}
	return "GRAPH <" + h.graph + ">"
}

// triples counts the triples of the dataset.
func (h *recordingSource) triples(ctx context.Context, ask *endpoint.Client) (string, error) {
	q := registry.Query{ID: "triples", Text: "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", Form: diff.Select}
	a := ask.Execute(ctx, &q, scheduler.Memory{}, h.timeout)
	if a.Result == nil || a.Result.Len() != 1 {
		return "", fmt.Errorf("see whether the dataset is empty: %s %s", a.Outcome, a.Error)
	}
	return a.Result.Terms(0)[0].Value, nil
}

// triplesPerRequest is below the about 1,000 triples that Virtuoso accepts in one
// request.
const triplesPerRequest = 500

// send applies a changeset over the network.
func (h *recordingSource) send(ctx context.Context, c local.Changeset) error {
	updates, err := c.Updates(h.graph, triplesPerRequest)
	if err != nil {
		return err
	}
	for _, text := range updates {
		if err := h.deliver(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// dataException matches the error of Virtuoso, with status 400 or 500, about a value
// that does not fit its datatype: an SQLSTATE of class 22.
var dataException = regexp.MustCompile(`^Virtuoso 22\d\d\d Error`)

func (h *recordingSource) post(ctx context.Context, update string) error {
	body := strings.NewReader(url.Values{h.param: {update}}.Encode())
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.update, body)
	if err != nil {
		return cli.UsageErrorf("--update: %v", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		says, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		kind := errors.New("the endpoint does not run an update")
		if resp.StatusCode == http.StatusBadRequest || dataException.Match(says) {
			kind = errRefused
		}
		return fmt.Errorf("%w: %s: %s", kind, resp.Status, strings.TrimSpace(string(says)))
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// apply returns a function that applies a list of changesets.
func (h *recordingSource) apply(list []local.Changeset) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, c := range list {
			var err error
			if h.remote {
				err = h.send(ctx, c)
			} else {
				_, err = c.Apply(ctx, h.local)
			}
			if err != nil {
				return fmt.Errorf("changeset %s: %w", c.Name, err)
			}
		}
		return nil
	}
}

// steps lists the revisions: one per changeset, or one per hour from the first
// changeset to the last one.
func (h *recordingSource) steps() ([]trace.Step, error) {
	all, err := local.Changesets(h.changesets)
	if err != nil {
		return nil, cli.UsageErrorf("--changesets: %v", err)
	}
	if len(all) == 0 {
		return nil, cli.UsageErrorf("--changesets: there are none in %s", h.changesets)
	}
	var steps []trace.Step
	for len(all) > 0 && (h.limit == 0 || len(steps) < h.limit) {
		n := 1
		for !h.perChangeset && n < len(all) && hour(all[n]) == hour(all[0]) {
			n++
		}
		name := hour(all[0])
		if h.perChangeset {
			name = all[0].Name
		}
		steps = append(steps, trace.Step{Name: name, Apply: h.apply(all[:n])})
		if all = all[n:]; len(all) == 0 || h.perChangeset || h.skipEmpty {
			continue
		}
		if steps, err = h.idle(steps, name, hour(all[0])); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// hour returns the hour in a changeset's name.
func hour(c local.Changeset) string { return c.Name[:len("2006/01/02/15")] }

// idle appends the hours between two hours with changesets.
func (h *recordingSource) idle(steps []trace.Step, from, to string) ([]trace.Step, error) {
	const layout = "2006/01/02/15"
	a, err := time.Parse(layout, from)
	if err != nil {
		return nil, cli.UsageErrorf("--changesets: %s is not an hour", from)
	}
	b, err := time.Parse(layout, to)
	if err != nil {
		return nil, cli.UsageErrorf("--changesets: %s is not an hour", to)
	}
	for t := a.Add(time.Hour); t.Before(b) && (h.limit == 0 || len(steps) < h.limit); t = t.Add(time.Hour) {
		steps = append(steps, trace.Step{Name: t.Format(layout)})
	}
	return steps, nil
}
